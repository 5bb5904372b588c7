"""Mutants of laws: each right side with one thing changed, as a slip of the pen would change it.

A term dropped, a sign or an op exchanged for its neighbour, operands or axes swapped, an attribute or a bound
off by one, a condition on values left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tensmith.errors import TensmithError
from tensmith.formula.bounds import Ranges
from tensmith.formula.expr import tensor
from tensmith.formula.poly import Poly
from tensmith.rewrite.case import Case, formula
from tensmith.rewrite.rule import FormulaObligation, Rule
from tensmith.rewrite.term import AnyElementwise, Const, ConstantTable, Number, Term, Use

_SWAPS = (
    ("add", "sub"), ("mul", "div"), ("max", "min"), ("less", "greater"), ("and", "or"), ("exp", "log"),
    ("reduce_sum", "reduce_mean"), ("reduce_max", "reduce_min"), ("sigmoid", "tanh"),
    ("softmax", "log_softmax"), ("average_pool", "max_pool"), ("global_average_pool", "global_max_pool"),
)  # fmt: skip
NEIGHBOURS: Mapping[str, str] = {
    **dict(_SWAPS), **{b: a for a, b in _SWAPS}, "less_or_equal": "less",
    "greater_or_equal": "greater", "sqrt": "abs",
}  # fmt: skip
ORDERED = frozenset({"sub", "div", "matmul", "concat", "where", "less", "greater", "pow"})


@dataclass(frozen=True)
class Mutant:
    """What was done, and the claim that came of it; None if what came of it is no program."""

    change: str
    claim: FormulaObligation | None


def mutants(rule: Rule) -> Iterator[Mutant]:
    """Every mutant of the first case of each line of a rule."""
    seen: set[str] = set()
    for claim in rule.obligations():
        line = claim.name.rpartition("/")[0]
        if claim.terms is None or line in seen:
            continue
        seen.add(line)
        left, right, case = claim.terms
        for change, other in _changed(right):
            yield Mutant(change, _claim(f"{claim.name}: {change}", left, other, case))
        yield from _freed(claim.name, left, right, case)


def _claim(name: str, left: Term, right: Term, case: Case) -> FormulaObligation | None:
    try:
        sides = formula(left, case), formula(right, case)
    except (TensmithError, ValueError, IndexError, TypeError, KeyError):
        return None
    return FormulaObligation(name, *sides, Ranges(lower=case.lower), (left, right, case))


def _changed(term: Term) -> Iterator[tuple[str, Term]]:
    """The term with one change, here or in one of its parts."""
    if isinstance(term, Number):
        yield f"{term.value:g} + 1", Number(term.value + 1)
    if isinstance(term, Const) and term.value.dtype.kind in "iO" and term.value.size:
        for place in range(min(term.value.size, 4)):
            moved = term.value.reshape(-1).copy()
            moved[place] = moved[place] + 1
            yield f"{term.value.tolist()} + 1 at {place}", Const(moved.reshape(term.value.shape))
    if isinstance(term, ConstantTable):
        yield "a table doubled", ConstantTable(term.shape, lambda *at: term.element(*at) * 2, term.like)
    if not isinstance(term, Use | AnyElementwise):
        return
    if isinstance(term, Use):
        yield from _here(term)
    elif len(term.args) > 1:
        yield "operands swapped", replace(term, args=term.args[::-1])
    for place, arg in enumerate(term.args):
        for change, other in _changed(arg):
            yield change, replace(term, args=(*term.args[:place], other, *term.args[place + 1 :]))


def _here(term: Use) -> Iterator[tuple[str, Term]]:
    if term.op in NEIGHBOURS:
        yield f"{term.op} to {NEIGHBOURS[term.op]}", replace(term, op=NEIGHBOURS[term.op])
    if term.op in ORDERED and len(term.args) > 1:
        yield (
            f"operands of {term.op} swapped",
            replace(term, args=(*term.args[:-2], term.args[-1], term.args[-2])),
        )
    if term.op in ("add", "sub", "mul", "div", "matmul", "concat", "max", "min", "and", "or"):
        for place in range(len(term.args)):
            yield f"operand {1 - place} of {term.op} alone", term.args[place]
    if term.op in ("neg", "abs", "relu", "not", "sqrt", "reciprocal", "transpose", "expand", "reshape"):
        yield f"no {term.op}", term.args[0]
    if (
        term.op in ("conv", "gemm", "conv_transpose", "clip")
        and len(term.args) > 2
        and term.args[2] is not None
    ):
        yield f"third operand of {term.op} dropped", replace(term, args=term.args[:2])
    for name, value in dict(term.attrs if isinstance(term.attrs, Mapping) else {}).items():
        for text, changed in _attribute(name, value):
            yield f"{name} {text}", replace(term, attrs={**dict(term.attrs), name: changed})  # type: ignore[arg-type]


def _attribute(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if name == "perm" and value is not None:
        yield "with two axes swapped", (value[1], value[0], *value[2:])
    elif name in ("pads", "strides", "dilations") and value:
        yield "off by one", (value[0] + 1, *value[1:])
    elif name in ("keepdims", "transA", "transB", "upper"):
        yield "flipped", 1 - value
    elif name in ("axis", "blocksize") and isinstance(value, int):
        yield "of another", value - 1 if value > 0 else value + 1
    elif name in ("alpha", "beta", "epsilon") and isinstance(value, float):
        yield "doubled", 2 * value if value else 1.0


def _freed(name: str, left: Term, right: Term, case: Case) -> Iterator[Mutant]:
    """Variables that the case knows, as any tensors of their shapes."""
    for var, known in case.tensors.items():
        free = tensor(var, *known.shape)
        if var in case.values or not _told(known.body, var) or case.dtypes.get(var) == "bool":
            continue
        freed = replace(case, tensors={**case.tensors, var: free})
        yield Mutant(f"any {var}", _claim(f"{name}: any {var}", left, right, freed))


def _told(body: Any, var: str) -> bool:
    return not (getattr(body, "tensor", "") == var and all(isinstance(p, Poly) for p in body.indices))


def sample(rule: Rule, count: int, seed: int) -> list[Mutant]:
    """Some mutants of a rule, drawn at random."""
    found = list(mutants(rule))
    order = np.random.default_rng(seed).permutation(len(found))
    return [found[int(place)] for place in order[:count]]
