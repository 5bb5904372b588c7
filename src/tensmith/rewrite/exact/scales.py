"""Scales that are moved from one tensor to others: x = (x * c) * (1 / c), one number a channel.

What makes x takes the first factor and what reads it the second, by rules that are proved without this one.
Nothing is gained over the reals; what is rounded afterwards loses less where channels are alike.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from tensmith.errors import ProgramError
from tensmith.ir import Node, Program, make_node
from tensmith.ir.edits import reading_as
from tensmith.rewrite.given import Instance
from tensmith.rewrite.law import lemma
from tensmith.rewrite.rule import Edit, Rule, exact
from tensmith.rewrite.term import Number, Var
from tensmith.rewrite.told import ToldRule

# A float32 times 2**k is the same digits, unless it leaves the range of exponents.
MOST_EXPONENT = 24

X, C = Var("x"), Var("c")


@exact("scale_there_and_back", phase="form")
class ScaleThereAndBack(ToldRule):
    """x = (x * 2**-k) * 2**k, before all that reads x. `exponents`: k, a whole number a channel of the last
    axis, from the step; nobody tries the rule without."""

    roots = frozenset()

    def __init__(self, exponents: Sequence[int] = ()) -> None:
        self._exponents = tuple(exponents)

    def _having(self, params: Mapping[str, Any]) -> Rule:
        exponents = params.get("exponents")
        if params.keys() != {"exponents"} or not isinstance(exponents, (list, tuple)):
            raise ProgramError(f"rule '{self.name}' takes exponents, a list of whole numbers, and no more")
        if not all(type(k) is int and abs(k) <= MOST_EXPONENT for k in exponents):
            raise ProgramError(f"rule '{self.name}': exponents are whole numbers up to {MOST_EXPONENT}")
        return ScaleThereAndBack(exponents)

    def _looks_at(self, node: Node) -> bool:
        return bool(self._exponents)

    def rewrite(self, program: Program, node: Node) -> Edit | str:
        """Two multiplications behind the node, and its readers behind them."""
        x, readers = node.output, program.consumers.get(node.output, ())
        type_ = program.type(x)
        if not readers or type_.dtype != "f32" or type_.dims[-1:] != (len(self._exponents),):
            return f"'{x}' is not read, or has not as many channels of float32 as there are exponents"
        names = program.fresh(x)
        shrink, grow, less, whole = (next(names) for _ in range(4))
        added = [make_node("mul", (x, shrink), (less,)), make_node("mul", (less, grow), (whole,))]
        added += [reading_as(reader, {x: whole}) for reader in readers]
        scale = np.array([math.ldexp(1.0, k) for k in self._exponents], np.float32)
        return Edit(remove=readers, add=tuple(added), constants={shrink: 1 / scale, grow: scale})

    def lemmas(self) -> Iterable[Rule]:
        """Powers of two are not 0."""
        given = [Instance("rows", {"x": "N M C", "c": "C"})]
        yield lemma("back", (X * C) * (Number(1) / C), X, X * C, given=given)
