"""Which ops act on each element alone, and clean-ups of such ops."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from tensmith.formula.expr import tensor
from tensmith.formula.poly import Poly
from tensmith.ir import Node, Program
from tensmith.rewrite.pattern import PatternRule
from tensmith.rewrite.rule import exact
from tensmith.rewrite.term import Case, Match, Term, Use, Var, ops

X, Y = Var("x"), Var("y")

_UNARY = (
    "relu", "leaky_relu", "elu", "sigmoid", "hard_sigmoid", "hard_swish", "gelu", "softplus", "tanh", "erf",
    "exp", "log", "sqrt", "abs", "neg", "reciprocal", "floor", "ceil", "round", "sign", "sin", "cos",
    "identity",
)  # fmt: skip
_BINARY = ("add", "sub", "mul", "div")
_NUMBER = 3


def _with_number(op: str) -> Callable[[Term], Use]:
    def apply(x: Term) -> Use:
        made: Use = getattr(ops, op)(x, _NUMBER)
        return made

    return apply


# Functions of one element: ops of one tensor, and of a tensor and a number.
POINTWISE: Mapping[str, Callable[[Term], Use]] = {
    **{op: getattr(ops, op) for op in _UNARY},
    **{op: _with_number(op) for op in _BINARY},
    "clip": lambda x: ops.clip(x, -1, 6),
}
# Functions of two elements.
PAIRS: Mapping[str, Callable[[Term, Term], Use]] = {op: getattr(ops, op) for op in _BINARY}


def pointwise_source(program: Program, node: Node) -> str | None:
    """The one input that a node maps element by element, its other inputs being scalars; else None."""
    if node.op not in POINTWISE or len(node.outputs) != 1:
        return None
    wide = [name for name in node.inputs if name and program.facts[name].type != _scalar(program, name)]
    if len(wide) != 1 or node.inputs.count(wide[0]) != 1:
        return None
    return wide[0] if program.facts[wide[0]].type == program.facts[node.output].type else None


def _scalar(program: Program, name: str) -> object:
    type_ = program.facts[name].type
    return None if type_ is None else type_.with_shape(())


def _plane(*names: str) -> dict[str, object]:
    return {name: tensor(name, Poly.symbol("N"), Poly.symbol("C")) for name in names}


@exact("product_with_reciprocal")
class ProductWithReciprocal(PatternRule):
    """x * (1 / y) = x / y."""

    order = 40

    def left(self) -> Use:
        """A multiplication by a reciprocal."""
        return ops.mul(X, ops.reciprocal(Y))

    def right(self, m: Match | Case) -> Term:
        """A division."""
        return ops.div(X, Y)

    def wrong(self, m: Match | Case) -> Term:
        """Upside down."""
        return ops.div(Y, X)

    def cases(self) -> Iterable[Case]:
        """Equal shapes, and y broadcast."""
        n, c = Poly.symbol("N"), Poly.symbol("C")
        yield Case("equal", {"x": tensor("x", n, c), "y": tensor("y", n, c)})
        yield Case("broadcast", {"x": tensor("x", n, c), "y": tensor("y", n, 1)})
