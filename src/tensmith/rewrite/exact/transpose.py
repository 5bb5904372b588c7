"""Transposes meet and cancel, or disappear into matrix products that transpose for free."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from tensmith.formula.expr import tensor
from tensmith.formula.poly import Poly
from tensmith.ir import Node, Program, make_node
from tensmith.rewrite.exact.elementwise import PAIRS, POINTWISE, pointwise_source
from tensmith.rewrite.pattern import PatternRule, claim
from tensmith.rewrite.rule import Edit, NodeRule, Obligation, exact
from tensmith.rewrite.term import Case, Match, Term, Use, Var, ops

Perm = tuple[int, ...]

X, Y, B, C = Var("x"), Var("y"), Var("b"), Var("c", optional=True)


def order(attrs_perm: Perm | None, rank: int) -> Perm:
    """A perm attribute in full."""
    return tuple(attrs_perm) if attrs_perm is not None else tuple(reversed(range(rank)))


def composed(inner: Perm, outer: Perm) -> Perm:
    """The one transpose that does `inner`, then `outer`."""
    return tuple(inner[axis] for axis in outer)


def _perm_of(program: Program, node: Node) -> Perm:
    return order(node.attrs["perm"], len(program.type(node.inputs[0]).dims))


def _cube(rank: int) -> Case:
    return Case(f"rank {rank}", {name: tensor(name, *map(Poly.symbol, "NCHW"[:rank])) for name in "xy"})


# Pairs that do not commute, of ranks 3 and 4.
_PAIRS: tuple[tuple[Perm, Perm], ...] = (
    ((1, 2, 0), (0, 2, 1)),
    ((1, 0, 2), (0, 2, 1)),
    ((0, 2, 3, 1), (0, 2, 1, 3)),
    ((0, 2, 1, 3), (0, 1, 3, 2)),
)
_INVERSE: tuple[tuple[Perm, Perm], ...] = (((1, 0), (1, 0)), ((0, 2, 3, 1), (0, 3, 1, 2)))


@exact("merge_transposes")
class MergeTransposes(PatternRule):
    """transpose(transpose(x, p), q) = transpose(x, p[q])."""

    order = 10

    def left(self) -> Use:
        """Two transposes in a row."""
        return ops.transpose(ops.transpose(X, attrs="inner"), attrs="outer")

    def right(self, m: Match | Case) -> Term:
        """One transpose."""
        rank = len(m.shape(X))
        inner, outer = (order(m.attrs[name]["perm"], rank) for name in ("inner", "outer"))
        return ops.transpose(X, attrs={"perm": composed(inner, outer)})

    def wrong(self, m: Match | Case) -> Term:
        """Composed in the other order."""
        return ops.transpose(X, attrs={"perm": composed(m.attrs["outer"]["perm"], m.attrs["inner"]["perm"])})

    def cases(self) -> Iterable[Case]:
        """Pairs of ranks 2 to 4."""
        return self._cases((*_PAIRS, *_INVERSE))

    def twins(self) -> Iterable[Obligation]:
        """Only of pairs that do not commute."""
        for case in self._cases(_PAIRS):
            yield claim(f"{self.name}/{case.name}", self.pattern, self.wrong(case), case)

    @staticmethod
    def _cases(pairs: Iterable[tuple[Perm, Perm]]) -> Iterator[Case]:
        for inner, outer in pairs:
            attrs = {"inner": {"perm": inner}, "outer": {"perm": outer}}
            yield replace(_cube(len(inner)), name=f"{inner} then {outer}", attrs=attrs)


@exact("transposes_through_elementwise")
class TransposesThroughElementwise(NodeRule):
    """transpose(f(transpose(x, p)), q) = transpose(f(x), p[q]), f a chain of functions of one element."""

    order = 11
    roots = frozenset({"transpose"})

    def rewrite(self, program: Program, node: Node) -> Edit | str:
        """The chain up to the other transpose, moved in front of it."""
        chain: list[Node] = []
        current = program.producers.get(node.inputs[0])
        while current is not None and pointwise_source(program, current) is not None:
            chain.append(current)
            current = program.producers.get(pointwise_source(program, current) or "")
        if not chain or current is None or current.op != "transpose":
            return ""
        used = next((n for n in (*chain, current) if program.uses(n.output) > 1), None)
        if used is not None:
            return f"'{used.output}' ({used.op}) is also used elsewhere"
        names = program.fresh(node.output)
        value, moved = current.inputs[0], []
        for step in reversed(chain):
            source = pointwise_source(program, step)
            inputs = tuple(value if name == source else name for name in step.inputs)
            value = next(names)
            moved.append(replace(step, inputs=inputs, outputs=(value,)))
        perm = composed(_perm_of(program, current), _perm_of(program, node))
        last = replace(make_node("transpose", (value,), node.outputs, {"perm": perm}), name=node.name)
        return Edit(remove=(node, *chain, current), add=(*moved, last))

    def obligations(self) -> Iterable[Obligation]:
        """For every function of one element."""
        return self._claims(composed)

    def twins(self) -> Iterable[Obligation]:
        """Composed in the other order."""
        return self._claims(lambda inner, outer: composed(outer, inner))

    def _claims(self, compose: object) -> Iterator[Obligation]:
        inner, outer = _PAIRS[0]
        for name, apply in POINTWISE.items():
            left = ops.transpose(apply(ops.transpose(X, attrs={"perm": inner})), attrs={"perm": outer})
            right = ops.transpose(apply(X), attrs={"perm": compose(inner, outer)})  # type: ignore[operator]
            yield claim(f"{self.name}/{name}", left, right, _cube(3))


@exact("transposes_joined")
class TransposesJoined(NodeRule):
    """f(transpose(x, p), transpose(y, p)) = transpose(f(x, y), p)."""

    order = 12
    roots = frozenset(PAIRS)

    def rewrite(self, program: Program, node: Node) -> Edit | str:
        """Both operands transposed alike, and nothing broadcast."""
        sides = [program.producers.get(name) for name in node.inputs]
        if len(sides) != 2 or any(side is None or side.op != "transpose" for side in sides):
            return ""
        first, second = (side for side in sides if side is not None)
        perm = _perm_of(program, first)
        if perm != _perm_of(program, second) or first is second:
            return "the operands are transposed differently"
        if any(program.uses(side.output) > 1 for side in (first, second)):
            return "a transposed operand is also used elsewhere"
        value = next(program.fresh(node.output))
        inner = replace(node, inputs=(first.inputs[0], second.inputs[0]), outputs=(value,))
        outer = make_node("transpose", (value,), node.outputs, {"perm": perm})
        return Edit(remove=(node, first, second), add=(inner, outer))

    def obligations(self) -> Iterable[Obligation]:
        """For every function of two elements."""
        return self._claims((1, 2, 0))

    def twins(self) -> Iterable[Obligation]:
        """Transposed back."""
        return self._claims((2, 0, 1))

    def _claims(self, perm: Perm) -> Iterator[Obligation]:
        x, y = (ops.transpose(v, attrs={"perm": (1, 2, 0)}) for v in (X, Y))
        for name, apply in PAIRS.items():
            right = ops.transpose(apply(X, Y), attrs={"perm": perm})
            yield claim(f"{self.name}/{name}", apply(x, y), right, _cube(3))


class _IntoGemm(PatternRule):
    """gemm with a transposed operand that is not computed from constants alone."""

    order = 13
    # The attribute that turns the operand.
    turn = "transA"

    def check(self, m: Match) -> str | None:
        """The transpose does turn the matrix."""
        return None if m.attrs["transpose"]["perm"] in (None, (1, 0)) else ""

    def right(self, m: Match | Case) -> Term:
        """The gemm reads the operand the other way."""
        return self._turned(m, self.turn)

    def wrong(self, m: Match | Case) -> Term:
        """It reads the other operand the other way."""
        return self._turned(m, "transB" if self.turn == "transA" else "transA")

    def _turned(self, m: Match | Case, turn: str) -> Use:
        attrs = {"transA": 0, "transB": 0, **m.attrs["gemm"]}
        return ops.gemm(X, B, C, attrs={**attrs, turn: 1 - attrs[turn]})

    def cases(self) -> Iterable[Case]:
        """Square operands, so that the twin has a shape."""
        n = Poly.symbol("N")
        tensors = {"x": tensor("x", n, n), "b": tensor("b", n, n), "c": tensor("c", n)}
        for attrs in ({"transA": 0, "transB": 0}, {"transA": 1, "transB": 1}):
            yield Case(str(attrs), tensors, {"gemm": attrs, "transpose": {"perm": (1, 0)}})


@exact("transpose_into_gemm_left")
class TransposeIntoGemmLeft(_IntoGemm):
    """transpose(x) @ b + c reads x by columns."""

    def left(self) -> Use:
        """A gemm of a transpose."""
        return ops.gemm(ops.transpose(X, attrs="transpose"), B, C, attrs="gemm")


@exact("transpose_into_gemm_right")
class TransposeIntoGemmRight(_IntoGemm):
    """x @ transpose(b) + c reads b by columns."""

    turn = "transB"

    def left(self) -> Use:
        """A gemm with a transpose."""
        return ops.gemm(X, ops.transpose(B, attrs="transpose"), C, attrs="gemm")
