"""Shape arithmetic becomes constants: what typing knows need not be computed at run time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from tensmith.formula.arith import Array
from tensmith.formula.expr import compute, tensor
from tensmith.formula.poly import Dim, Poly, simplify_dim
from tensmith.ir import Program
from tensmith.ir.ops.shape import Reshape
from tensmith.rewrite.exact.reshape import literal_shape
from tensmith.rewrite.pattern import PatternRule
from tensmith.rewrite.rule import ProgramRule, exact
from tensmith.rewrite.term import Case, Match, Term, Use, Var, ops
from tensmith.rewrite.values import known

X, TARGET = Var("x"), Var("target")


@exact("known_values")
class KnownValues(ProgramRule):
    """Integer and boolean values that typing computes become constants: sizes, axes, bounds, masks."""

    order = 1
    structural = "typing computes a value by running the op that defines it, on sizes instead of arrays"

    def rewrite(self, program: Program) -> Program | None:
        """Every node all of whose outputs are known, at once."""
        constants: dict[str, Array] = {}
        nodes = []
        for node in program.nodes:
            used = [name for name in node.outputs if name]
            values = [known(program, name) for name in used]
            if node.opaque is not None or any(v is None for v in values) or set(used) & set(program.outputs):
                nodes.append(node)
                continue
            for name, value in zip(used, values):
                constants[name] = np.asarray(value, dtype=program.type(name).numpy)
        if not constants:
            return None
        return replace(program, nodes=tuple(nodes), constants={**program.constants, **constants})


class LiteralTarget(PatternRule):
    """A shape operand that is computed at run time, though its symbolic sizes need not be told."""

    order = 2

    def literal(self, m: Match | Case) -> Array | None:
        """The operand in numbers, or None."""
        raise NotImplementedError

    def check(self, m: Match) -> str | None:
        """The operand must be known, and sayable in numbers."""
        if m.values["target"] in m.program.constants:
            return ""
        if m.value(TARGET) is None or m.type(X).shape is None:
            return "the target shape is not known"
        return None if self.literal(m) is not None else f"target {m.value(TARGET)} has too many unknown sizes"


def _symbols(*names: str) -> tuple[Poly, ...]:
    return tuple(map(Poly.symbol, names))


def _sizes(*dims: Dim) -> Array:
    sizes = np.empty(len(dims), dtype=object)
    sizes[:] = dims
    return sizes


@exact("reshape_to_literal")
class ReshapeToLiteral(LiteralTarget):
    """reshape(x, [n, c*h]) = reshape(x, [0, -1]): 0 keeps a size of x, one -1 is what is left."""

    def left(self) -> Use:
        """A reshape."""
        return ops.reshape(X, TARGET, attrs="reshape")

    def right(self, m: Match | Case) -> Term:
        """The same with numbers."""
        literal = self.literal(m)
        assert literal is not None
        return ops.reshape(X, literal, attrs={"allowzero": 0})

    def wrong(self, m: Match | Case) -> Term:
        """The last two sizes change places."""
        literal = self.literal(m)
        assert literal is not None
        return ops.reshape(X, np.append(literal[:-2], literal[:-3:-1]), attrs={"allowzero": 0})

    def literal(self, m: Match | Case) -> Array | None:
        """See literal_shape."""
        value = m.value(TARGET)
        assert value is not None
        target = Reshape().target(m.shape(X), m.attrs["reshape"], value)
        return literal_shape(m.shape(X), tuple(map(simplify_dim, target)))

    def cases(self) -> Iterable[Case]:
        """Axes merged, and axes split."""
        n, c, h = _symbols("N", "C", "H")
        unread = compute((2,), lambda _: 0)
        attrs = {"reshape": {"allowzero": 1}}
        yield Case(
            "merged",
            {"x": tensor("x", n, c, h), "target": unread},
            attrs,
            {"target": _sizes(n, c * h)},
        )
        yield Case(
            "split",
            {"x": tensor("x", n, c, h * 4), "target": unread},
            attrs,
            {"target": _sizes(n, c, 4, h)},
        )


@exact("expand_to_literal")
class ExpandToLiteral(LiteralTarget):
    """expand(x, [n, 4]) = expand(x, [1, 4]) where x has n already."""

    def left(self) -> Use:
        """An expand."""
        return ops.expand(X, TARGET)

    def right(self, m: Match | Case) -> Term:
        """The same with numbers."""
        literal = self.literal(m)
        assert literal is not None
        return ops.expand(X, literal)

    def wrong(self, m: Match | Case) -> Term:
        """The sizes doubled."""
        literal = self.literal(m)
        assert literal is not None
        return ops.expand(X, literal * 2)

    def literal(self, m: Match | Case) -> Array | None:
        """1 for each size that x has."""
        value = m.value(TARGET)
        assert value is not None
        target, source = value.reshape(-1).tolist(), m.shape(X)
        lead = len(target) - len(source)
        kept = [axis >= lead and source[axis - lead] == dim for axis, dim in enumerate(target)]
        if any(isinstance(dim, Poly) and not keep for dim, keep in zip(target, kept)):
            return None
        return np.array([1 if keep else dim for dim, keep in zip(target, kept)], dtype=np.int64)

    def cases(self) -> Iterable[Case]:
        """A leading axis kept, a trailing one grown."""
        (n,) = _symbols("N")
        x, unread = tensor("x", n, 1), compute((2,), lambda _: 0)
        yield Case("kept", {"x": x, "target": unread}, {}, {"target": _sizes(n, 4)})
