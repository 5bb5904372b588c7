"""Parts of right sides that need more than a line: filled tensors, shapes, what is computed at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tensmith.formula.arith import Array
from tensmith.formula.expr import Formula, call, compute
from tensmith.formula.poly import Dim
from tensmith.ir import Program
from tensmith.ir.interpreter import interpret
from tensmith.rewrite.match import Match, build
from tensmith.rewrite.term import (
    Bindings,
    Const,
    ConstantTable,
    Later,
    Number,
    Term,
    Use,
    Var,
    ops,
    resolve,
    show,
)

_X = Var("x")


def filled(number: float, like: Var, shape: Callable[[Bindings], Sequence[Dim]] | None = None) -> Later:
    """One number in the shape and the type of a variable, or in another shape."""

    def make(m: Bindings) -> Term:
        sizes = m.shape(like) if shape is None else shape(m)
        return ops.expand(ConstantTable((), lambda: number, like), literal(sizes))

    return Later(make, f"{number:g}")


def everywhere(number: float, shape: Callable[[Bindings], Sequence[Dim]] | None = None) -> Later:
    """One number of x's type for all that was matched; `shape` as above is what a proof knows of it."""

    def make(m: Bindings) -> Term:
        if isinstance(m, Match):
            return filled(number, _X, lambda _: m.program.type(m.nodes[0].output).dims)
        return filled(number, _X, shape)

    return Later(make, f"{number:g}")


def literal(sizes: Sequence[Dim]) -> Array:
    """Sizes as an operand: whole numbers, or symbols too."""
    whole = all(isinstance(size, int) for size in sizes)
    return np.array(list(sizes), dtype=np.int64 if whole else object)


def join(axis: int, *parts: Term) -> Use:
    """Tensors one after the other."""
    return ops.concat(*parts, attrs={"axis": axis})


def shaped(x: Term, sizes: Sequence[Dim]) -> Use:
    """x under another shape, none of whose sizes is 0."""
    return ops.reshape(x, literal(sizes))


def at_once(part: Term, m: Bindings) -> Term:
    """What constants alone go into, computed when the rule is applied: it must round nowhere."""
    if not isinstance(m, Match) or isinstance(part, Var):
        return part
    nodes, new, root = build(resolve(part, m), m, [next(m.program.fresh("constant"))])
    read = {name: m.program.constants[name] for name in m.values.values() if name in m.program.constants}
    program = Program("constant", {}, (root,), tuple(nodes), {**read, **new})
    return Const(interpret(program, {})[root])


def truth(of: Formula) -> Formula:
    """A tensor of truth values: whether numbers are above zero."""
    return compute(of.shape, lambda *at: call("less", 0, of[at]))


def flat(vector: Term) -> Later:
    """The elements of a tensor as a vector."""
    return Later(lambda m: ops.reshape(vector, np.array([-1], dtype=np.int64)), show(vector))


def along(vector: Term, axis: int, like: Var) -> Later:
    """The elements of a tensor along one axis, in as many dimensions as `like` has."""

    def make(m: Bindings) -> Term:
        shape = np.ones(len(m.shape(like)), dtype=np.int64)
        shape[axis] = -1
        return ops.reshape(vector, shape)

    return Later(make, show(vector))


def attribute(capture: str, name: str) -> Later:
    """A captured attribute as a number."""
    return Later(lambda m: Number(m.attrs[capture][name]), name)
