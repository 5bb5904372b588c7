"""Einstein sums that are products: two operands at a time, and what is known of a product's diagonal."""

from __future__ import annotations

import string
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from tensmith.ir import Node, Program
from tensmith.rewrite.exact.matrix_algebra import turned
from tensmith.rewrite.given import NOT_EMPTY, Given, Instance
from tensmith.rewrite.law import law, lemma
from tensmith.rewrite.rule import Edit, NodeRule, Rule, exact
from tensmith.rewrite.term import Term, Use, Var, ops

X, Y, Z = Var("x"), Var("y"), Var("z")

# ONNX Runtime takes no empty operands.
_ONES = dict.fromkeys("BIJK", 1)


def _lettered(equation: str) -> str:
    """An equation in a, b, c as letters come; as it is with an ellipsis or without a result."""
    plain = equation.replace(" ", "")
    if "..." in plain or "->" not in plain:
        return equation
    letters = dict.fromkeys(filter(str.isalpha, plain))
    return plain.translate({ord(old): new for old, new in zip(letters, string.ascii_letters)})


def _written(equation: str, *args: Term) -> Use:
    return ops.einsum(*args, attrs={"equation": equation})


def _einsum(equation: str, *args: Term) -> Use:
    return _written(_lettered(equation), *args)


@exact("einsum_letters", order=2)
class EinsumLetters(NodeRule):
    """einsum("pq,qr->pr", x, y) = einsum("ab,bc->ac", x, y): letters as they come, by which rules know it."""

    roots = frozenset({"einsum"})

    def rewrite(self, program: Program, node: Node) -> Edit | str:
        """The same sum in other letters."""
        equation = _lettered(node.attrs["equation"])
        if equation == node.attrs["equation"]:
            return ""
        return Edit(remove=(node,), add=(replace(node, attrs={**node.attrs, "equation": equation}),))

    def lemmas(self) -> Iterable[Rule]:
        """A product of matrices, and of a batch with one; the twins exchange the letters of the result."""
        for written, wrong, shapes in (
            ("pq,qr->pr", "ab,bc->ca", {"x": "I I", "y": "I I"}),
            ("Zij , kj -> Zik", "abc,dc->adb", {"x": "B I I", "y": "I I"}),
        ):
            given = [Instance("alike", shapes, lower=_ONES)]
            yield lemma(
                written, _written(written, X, Y), _einsum(written, X, Y), _written(wrong, X, Y), given=given
            )


def _rows(x: Term) -> Use:
    return ops.reduce_sum(x, np.array([1]), attrs={"keepdims": 0})


def _product(name: str, equation: str, right: Term, wrong: Term, twin: Given = ()) -> None:
    """An Einstein sum of x, y, ... is `right`; the equation says the shapes."""
    letters = dict(zip("xyz", equation.partition("->")[0].split(",")))
    shapes: dict[str, Any] = {operand: " ".join(word).upper() for operand, word in letters.items()}
    law(name, _einsum(equation, *map(Var, shapes)), right, wrong, given=NOT_EMPTY, twin=twin, **shapes)


_SQ = [Instance("squares", {"x": "I I", "y": "I I"}, lower=_ONES)]
_BATCH = [Instance("batch", {"x": "B I I", "y": "B I I"}, lower=_ONES)]
_product("einsum_to_matmul", "ij,jk->ik", X @ Y, Y @ X, _SQ)
_product("einsum_to_batched_matmul", "bij,bjk->bik", X @ Y, Y @ X, _BATCH)
_product(
    "einsum_of_rows",
    "bij,jk->bik",
    X @ Y,
    X @ turned(Y),
    [Instance("square", {"x": "B I I", "y": "I I"}, lower=_ONES)],
)
_product("einsum_of_three", "ij,jk,kl->il", (X @ Y) @ Z, (X @ Y) @ (Z * 2))
_product("einsum_of_form", "i,ij,j->", X @ (Y @ Z), X @ (Y @ (Z * 2)))
_product("einsum_of_forms", "ni,ij,nj->n", _rows((X @ Y) * Z), _rows((X @ Y) + Z))
law(
    "einsum_to_transpose",
    _einsum("ij->ji", X),
    turned(X),
    X,
    given=[Instance("matrix", {"x": "I J"}, lower=_ONES)],
    twin=[Instance("square", {"x": "I I"}, lower=_ONES)],
)
for _name, _kept in (("trace_of_product", ""), ("diagonal_of_product", "i")):
    law(
        _name,
        _einsum(f"ii->{_kept}", X @ Y),
        _einsum(f"ij,ji->{_kept}", X, Y),
        _einsum(f"ij,ij->{_kept}", X, Y),
        given=NOT_EMPTY,
        twin=_SQ,
        x="I J",
        y="J I",
    )
law(
    "trace_of_transposed",
    _einsum("ii->", turned(X)),
    _einsum("ii->", X),
    _einsum("ij->", X),
    given=[Instance("square", {"x": "I I"}, lower=_ONES)],
)
