"""Shape arithmetic becomes constants: what typing knows need not be computed at run time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from tensmith.formula.arith import Array
from tensmith.formula.poly import Dim, Poly, simplify_dim
from tensmith.ir import Program
from tensmith.ir.ops.shape import Reshape
from tensmith.rewrite.exact.reshape import literal_expansion, literal_shape
from tensmith.rewrite.given import Instance
from tensmith.rewrite.law import law
from tensmith.rewrite.match import Match
from tensmith.rewrite.rule import ProgramRule, exact
from tensmith.rewrite.term import Bindings, Later, Use, Var, ops
from tensmith.rewrite.values import known

X, TARGET = Var("x"), Var("target")


@exact("known_values", order=1)
class KnownValues(ProgramRule):
    """Integer and boolean values that typing computes become constants: sizes, axes, bounds, masks."""

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


# A shape operand that is computed at run time, though its symbolic sizes need not be told.

Literal = Callable[[Bindings], Array | None]


def _reshape_literal(m: Bindings) -> Array | None:
    """See literal_shape."""
    value = m.value(TARGET)
    assert value is not None
    target = Reshape().target(m.shape(X), m.attrs["reshape"], value)
    return literal_shape(m.shape(X), tuple(map(simplify_dim, target)))


def _expand_literal(m: Bindings) -> Array | None:
    """See literal_expansion."""
    value = m.value(TARGET)
    assert value is not None
    return literal_expansion(m.shape(X), value.reshape(-1).tolist())


def _sayable(m: Match, literal: Literal) -> str | None:
    """The operand must be known, computed, and sayable in numbers."""
    if m.values["target"] in m.program.constants:
        return ""
    if m.value(TARGET) is None or m.type(X).shape is None:
        return "the target shape is not known"
    return None if literal(m) is not None else f"target {m.value(TARGET)} has too many unknown sizes"


def _said(use: Callable[[Array], Use], literal: Literal, text: str) -> Later:
    def make(m: Bindings) -> Use:
        numbers = literal(m)
        assert numbers is not None
        return use(numbers)

    return Later(make, text)


def _reshape(target: Array) -> Use:
    return ops.reshape(X, target, attrs={"allowzero": 0})


def _known(name: str, shape: str, *target: Dim) -> Instance:
    sample = {"reshape": {"allowzero": 1}}
    values = {"target": np.array(target, dtype=object)}
    return Instance(name, {"x": shape}, values=values, sample=sample, example=True)


N, C, H = map(Poly.symbol, "NCH")

law("reshape_to_literal", ops.reshape(X, TARGET, attrs="reshape"),
    _said(_reshape, _reshape_literal, "reshape(x, [0, -1])"),
    _said(lambda t: _reshape(np.append(t[:-2], t[:-3:-1])), _reshape_literal, "the last two sizes exchanged"),
    given=[_known("merged", "N C H", N, C * H), _known("split", "N C H*4", N, C, 4, H)],
    when=lambda m: _sayable(m, _reshape_literal), order=2,
    says="reshape(x, [n, c*h]) = reshape(x, [0, -1]): 0 keeps a size of x, one -1 is what is left.",
)  # fmt: skip
law("expand_to_literal", ops.expand(X, TARGET),
    _said(lambda t: ops.expand(X, t), _expand_literal, "expand(x, [1, 4])"),
    _said(lambda t: ops.expand(X, t * 2), _expand_literal, "the sizes doubled"),
    given=[_known("kept", "N 1", N, 4)], when=lambda m: _sayable(m, _expand_literal), order=2,
    says="expand(x, [n, 4]) = expand(x, [1, 4]) where x has n already.")  # fmt: skip
