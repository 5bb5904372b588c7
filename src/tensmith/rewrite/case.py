"""Terms in symbolic cases: the formulas that a proof compares."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from tensmith.errors import ProgramError
from tensmith.formula.arith import Array
from tensmith.formula.expr import Call, Expr, Formula, call, compute, guard
from tensmith.formula.poly import Dim, Poly
from tensmith.ir.op import OPS, Attrs, Symbolic
from tensmith.ir.ops.shared import broadcast_read, broadcast_shapes
from tensmith.rewrite.term import (
    AnyElementwise,
    Const,
    ConstantTable,
    Number,
    Term,
    Use,
    Var,
    resolve,
)


@dataclass(frozen=True)
class Case:
    """A symbolic instance of a pattern: formulas of its variables and attributes of its captures.

    `values` are known before running; `dtypes` are element types other than f32, which formulas do not know
    but programs made of the case have (rewrite.instance).
    """

    name: str
    tensors: Mapping[str, Formula]
    attrs: Mapping[str, Attrs] = field(default_factory=dict)
    values: Mapping[str, Array] = field(default_factory=dict)
    lower: Mapping[str, int] = field(default_factory=dict)
    dtypes: Mapping[str, str] = field(default_factory=dict)

    def has(self, var: Var) -> bool:
        """Whether an optional variable is there."""
        return var.name in self.tensors

    def shape(self, var: Var) -> tuple[Dim, ...]:
        """The symbolic shape of a variable."""
        return self.tensors[var.name].shape

    def value(self, var: Var) -> Array | None:
        """The known value of a variable, where the case fixes one."""
        return self.values.get(var.name)


def formula(term: Term, case: Case) -> Formula:
    """The formula of a term in a symbolic instance; nothing of it is left for later."""
    done: dict[int, Formula] = {}

    def read(part: Term) -> Formula | None:
        match part:
            case None:
                return None
            case Var(name):
                return case.tensors.get(name)
            case Const(value):
                return constant(value)
            case Number(value):
                return compute((), lambda *_: value)
            case AnyElementwise(function, args):
                tensors = [found for arg in args if (found := read(arg)) is not None]
                shape = broadcast_shapes(*(tensor.shape for tensor in tensors))
                return compute(shape, lambda *at: call(function, *(broadcast_read(t, at) for t in tensors)))
            case ConstantTable(shape, element):
                return compute(shape, element)
            case Use(op, args, attrs):
                if id(part) not in done:
                    assert not isinstance(attrs, str)
                    use = Symbolic(
                        {**OPS[op].attributes, **(attrs or {})},
                        tuple(read(arg) for arg in args),
                        tuple(_known(arg, case) for arg in args),
                        dtypes=tuple(case.dtypes.get(a.name) if isinstance(a, Var) else None for a in args),
                    )
                    done[id(part)] = OPS[op].formula(use)[0]
                return done[id(part)]
        raise TypeError(f"not a term: {part!r}")

    result = read(resolve(term, case))
    if result is None:
        raise ProgramError("a pattern cannot be an omitted input")
    return result


def _known(arg: Term, case: Case) -> Array | None:
    if isinstance(arg, (Const, Number)):
        return np.asarray(arg.value)
    return case.values.get(arg.name) if isinstance(arg, Var) else None


# A constant of more different numbers is a Table, or an input.
_MOST_ELEMENTS = 64


def constant(value: Array) -> Formula:
    """A constant at its exact values (numbers, truth values, symbolic sizes): one case an element.

    ProgramError for what is no real number, and for what is too large to be told apart by cases.
    """
    flat = value.reshape(-1).tolist()
    if any(isinstance(item, float) and not math.isfinite(item) for item in flat):
        raise ProgramError("a constant of a rule is infinite or no number; its formula is over the reals")
    if len(set(flat)) <= 1:
        return compute(value.shape, lambda *_: flat[0] if flat else 0)
    if len(flat) > _MOST_ELEMENTS:
        raise ProgramError(
            f"a constant of a rule has {len(flat)} different elements; give it as a Table, by its formula"
        )
    cells = list(zip(np.ndindex(value.shape), flat))

    def element(*at: Poly) -> Expr:
        here = (([p for i, n in zip(at, cell) for p in (i - n, n - i)], item) for cell, item in cells)
        return Call("add", tuple(guard(conditions, item) for conditions, item in here))

    return compute(value.shape, element)
