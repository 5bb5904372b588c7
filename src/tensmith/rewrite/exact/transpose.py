"""Transposes meet and cancel, or disappear into matrix products that transpose for free."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TypeGuard

from tensmith.ir import Node, Program, make_node
from tensmith.rewrite.exact.elementwise import pointwise_source
from tensmith.rewrite.given import Given, Instance
from tensmith.rewrite.law import ELEMENTWISE, law, lemma
from tensmith.rewrite.match import Match
from tensmith.rewrite.rule import Edit, NodeRule, Rule, exact
from tensmith.rewrite.term import AnyElementwise, Bindings, Term, Use, Var, later, ops

Perm = tuple[int, ...]

X, Y, B, C = Var("x"), Var("y"), Var("b"), Var("c", optional=True)


def order(attrs_perm: Perm | None, rank: int) -> Perm:
    """A perm attribute in full."""
    return tuple(attrs_perm) if attrs_perm is not None else tuple(reversed(range(rank)))


def composed(inner: Perm, outer: Perm) -> Perm:
    """The one transpose that does `inner`, then `outer`."""
    return tuple(inner[axis] for axis in outer)


def transposes(node: Node | None) -> TypeGuard[Node]:
    """Whether it is a transpose."""
    return node is not None and node.op == "transpose"


def _perm_of(program: Program, node: Node) -> Perm:
    return order(node.attrs["perm"], len(program.type(node.inputs[0]).dims))


def _cubes(pairs: Iterable[tuple[Perm, Perm]]) -> Given:
    return [
        Instance(f"{inner} then {outer}", {"": "N C H W"[: 2 * len(inner) - 1]},
                 sample={"inner": {"perm": inner}, "outer": {"perm": outer}})
        for inner, outer in pairs
    ]  # fmt: skip


# Pairs that do not commute, of ranks 3 and 4.
_PAIRS: tuple[tuple[Perm, Perm], ...] = (
    ((1, 2, 0), (0, 2, 1)),
    ((1, 0, 2), (0, 2, 1)),
    ((0, 2, 3, 1), (0, 2, 1, 3)),
    ((0, 2, 1, 3), (0, 1, 3, 2)),
)
_INVERSE: tuple[tuple[Perm, Perm], ...] = (((1, 0), (1, 0)), ((0, 2, 3, 1), (0, 3, 1, 2)))


@later("transpose(x, p[q])")
def _one(m: Bindings, first: str, second: str) -> Use:
    """x transposed as `first` says, then as `second`, at once."""
    perms = [order(m.attrs[name]["perm"], len(m.shape(X))) for name in (first, second)]
    return ops.transpose(X, attrs={"perm": composed(*perms)})


law("merge_transposes", ops.transpose(ops.transpose(X, attrs="inner"), attrs="outer"),
    _one("inner", "outer"), _one("outer", "inner"),
    given=_cubes((*_PAIRS, *_INVERSE)), twin=_cubes(_PAIRS), order=10,
    says="transpose(transpose(x, p), q) = transpose(x, p[q]).")  # fmt: skip


_CUBE = (Instance("cube", {"": "N C H"}),)


def _turn(x: Term, perm: Perm) -> Use:
    return ops.transpose(x, attrs={"perm": perm})


@exact("transposes_through_elementwise", order=11)
class TransposesThroughElementwise(NodeRule):
    """transpose(f(transpose(x, p)), q) = transpose(f(x), p[q]), f a chain of functions of one element."""

    roots = frozenset({"transpose"})

    def rewrite(self, program: Program, node: Node) -> Edit | str:
        """The chain up to the other transpose, moved in front of it."""
        chain: list[Node] = []
        current = program.producers.get(node.inputs[0])
        while current is not None and pointwise_source(program, current) is not None:
            chain.append(current)
            current = program.producers.get(pointwise_source(program, current) or "")
        if not chain or not transposes(current):
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

    def lemmas(self) -> Iterable[Rule]:
        """For every function of one element; the twin composes in the other order."""
        inner, outer = _PAIRS[0]
        left = _turn(AnyElementwise("f", (_turn(X, inner),)), outer)
        mapped = AnyElementwise("f", (X,))
        right, wrong = _turn(mapped, composed(inner, outer)), _turn(mapped, composed(outer, inner))
        yield lemma("any function", left, right, wrong, given=_CUBE)


@exact("transposes_joined", order=12)
class TransposesJoined(NodeRule):
    """f(transpose(x, p), transpose(y, p)) = transpose(f(x, y), p)."""

    roots = ELEMENTWISE

    def rewrite(self, program: Program, node: Node) -> Edit | str:
        """Both operands transposed alike, and nothing broadcast."""
        sides = [program.producers.get(name) for name in node.inputs]
        turned = [side for side in sides if transposes(side)]
        if len(sides) != 2 or len(turned) < 2:
            return ""
        first, second = turned
        perm = _perm_of(program, first)
        if perm != _perm_of(program, second) or first is second:
            return "the operands are transposed differently"
        if any(program.uses(side.output) > 1 for side in (first, second)):
            return "a transposed operand is also used elsewhere"
        value = next(program.fresh(node.output))
        inner = replace(node, inputs=(first.inputs[0], second.inputs[0]), outputs=(value,))
        outer = make_node("transpose", (value,), node.outputs, {"perm": perm})
        return Edit(remove=(node, first, second), add=(inner, outer))

    def lemmas(self) -> Iterable[Rule]:
        """For every function of two elements; the twin transposes back."""
        there, back = (1, 2, 0), (2, 0, 1)
        left = AnyElementwise("f", (_turn(X, there), _turn(Y, there)))
        joined = AnyElementwise("f", (X, Y))
        yield lemma("any function", left, _turn(joined, there), _turn(joined, back), given=_CUBE)


def _into_gemm(name: str, left: Use, turn: str, says: str) -> None:
    """A gemm with a transposed operand that is not computed from constants alone reads it the other way."""

    @later("gemm with {0}")
    def turned(m: Bindings, attribute: str) -> Use:
        attrs = {"transA": 0, "transB": 0, **m.attrs["gemm"]}
        return ops.gemm(X, B, C, attrs={**attrs, attribute: 1 - attrs[attribute]})

    other = "transB" if turn == "transA" else "transA"
    law(name, left, turned(turn), turned(other), given=_SQUARES, when=_does_turn, order=13, says=says)


def _does_turn(m: Match) -> str | None:
    return None if m.attrs["transpose"]["perm"] in (None, (1, 0)) else ""


# Square operands, so that the twin has a shape.
_SQUARES = [
    Instance(f"both {t}", {"x": "N N", "b": "N N", "c": "N"},
             sample={"gemm": {"transA": t, "transB": t}, "transpose": {"perm": (1, 0)}})
    for t in (0, 1)
]  # fmt: skip

_into_gemm("transpose_into_gemm_left", ops.gemm(ops.transpose(X, attrs="transpose"), B, C, attrs="gemm"),
           "transA", "transpose(x) @ b + c reads x by columns.")  # fmt: skip
_into_gemm("transpose_into_gemm_right", ops.gemm(X, ops.transpose(B, attrs="transpose"), C, attrs="gemm"),
           "transB", "x @ transpose(b) + c reads b by columns.")  # fmt: skip
