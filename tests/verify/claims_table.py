"""Claims to the prover in pairs: a false one, and beside it a true one of the same shape.

A pair is (name, the variables' shapes and more, the false claim, the true one or None where the prover knows
of none). A true twin keeps the table honest: nothing passes by refusing everything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tensmith.formula.expr import tensor
from tensmith.formula.poly import Dim, Poly
from tensmith.rewrite.case import Case
from tensmith.rewrite.law import claim
from tensmith.rewrite.rule import FormulaObligation
from tensmith.rewrite.term import Const, Term, Use, Var, ops

N, C, M, H = map(Poly.symbol, "NCMH")
X, Y, Z, W, V, B = map(Var, "xyzwvb")
Sides = tuple[Term, Term]


@dataclass(frozen=True)
class Pair:
    """`variables` by name: their shapes; `more` are further fields of the case."""

    name: str
    variables: Mapping[str, tuple[Dim, ...]]
    false: Callable[[], Sides]
    true: Callable[[], Sides] | None
    more: Mapping[str, Any] = field(default_factory=dict)

    def claim(self, sides: Callable[[], Sides]) -> FormulaObligation:
        """The obligation of one of both."""
        case = Case(self.name, {n: tensor(n, *shape) for n, shape in self.variables.items()}, **self.more)
        return claim(self.name, *sides(), case)


PAIRS: list[Pair] = []


def pair(
    name: str,
    variables: Mapping[str, tuple[Dim, ...]],
    false: Callable[[], Sides],
    true: Callable[[], Sides] | None = None,
    **more: Any,
) -> None:
    """One row of the table."""
    PAIRS.append(Pair(name, variables, false, true, more))


def ints(*values: Dim) -> Const:
    """A vector of integers, some of them sizes perhaps."""
    symbolic = any(isinstance(value, Poly) for value in values)
    array = np.empty(len(values), dtype=object if symbolic else np.int64)
    array[:] = values
    return Const(array)


def number(value: Dim | float) -> Const:
    """One number, or a size used as a number."""
    return Const(np.asarray(value, dtype=object) if isinstance(value, Poly) else np.asarray(float(value)))


def row(*values: float) -> Const:
    """A row of numbers."""
    return Const(np.array(values, dtype=np.float32))


def cut(value: Term, start: Dim, end: Dim, axis: int = -1, step: int = 1) -> Use:
    """value[start:end:step] along an axis."""
    return ops.slice(value, ints(start), ints(end), ints(axis), ints(step))


def reshaped(value: Term, *shape: Dim) -> Use:
    """The value under another shape."""
    return ops.reshape(value, ints(*shape), attrs={"allowzero": 1})


def turned(value: Term, *perm: int) -> Use:
    """The value with its axes in another order."""
    return ops.transpose(value, attrs={"perm": perm})


def joined(axis: int, *values: Term) -> Use:
    """Values one behind the other."""
    return ops.concat(*values, attrs={"axis": axis})


def cast(value: Term, dtype: str) -> Use:
    """The value in another element type."""
    codes = {"f32": 1, "u8": 2, "i8": 3, "i32": 6, "i64": 7, "bool": 9, "f16": 10, "f64": 11}
    return ops.cast(value, attrs={"to": codes[dtype], "saturate": 1, "round_mode": "up"})


def over(op: str, value: Term, *axes: int, keep: int = 0) -> Use:
    """A reduction over axes."""
    made: Use = getattr(ops, op)(value, ints(*axes), attrs={"keepdims": keep})
    return made


FAR = 2**40
