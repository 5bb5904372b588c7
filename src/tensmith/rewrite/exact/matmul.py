"""Matrix products with constant weights: fewer of them, with smaller operands, in their simplest form."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from tensmith.ir import Node, Program, make_node
from tensmith.ir.ops.product import Product
from tensmith.rewrite.exact.products import B, W, X, a_column, gemm
from tensmith.rewrite.given import Instance, matmul_instances
from tensmith.rewrite.law import floating, law, lemma
from tensmith.rewrite.match import Match
from tensmith.rewrite.right_sides import along, attribute
from tensmith.rewrite.rule import Edit, NodeRule, Rule, exact
from tensmith.rewrite.term import Bindings, Term, Var, later, ops
from tensmith.rewrite.values import owned

Y, V, C = Var("y"), Var("v", static=True), Var("c", static=True)


law("factor_weights", X @ W + X @ V, X @ (W + V), X @ (W - V),
    w="C K", v="C K", given=matmul_instances(), order=32)  # fmt: skip
law("factor_inputs", X @ W + Y @ W, (X + Y) @ W, (X - Y) @ W,
    x="*L N C", y="*L N C", w="C K", given=matmul_instances(), order=32)  # fmt: skip


def _fewer(m: Match) -> str | None:
    if len(m.shape(W)) != 2 or len(m.shape(V)) != 2:
        return "the weights are not matrices"
    (depth, inner), columns = (int(d) for d in m.shape(W)), int(m.shape(V)[1])  # type: ignore[arg-type]
    if depth * columns < inner * (depth + columns):
        return None
    return f"one product takes {depth * columns} multiply-adds a row, two take {inner * (depth + columns)}"


law("associate_weights", (X @ W) @ V, X @ (W @ V), X @ (V @ W),
    given=matmul_instances(w="C K", v="K J"), twin=matmul_instances(w="C C", v="C C"), when=_fewer, order=32,
    says="(x @ w) @ v = x @ (w @ v), where that takes fewer multiply-adds; a low-rank pair stays one.",
)  # fmt: skip


law("scale_into_weights", (X @ W) * C, X @ (W * ops.reshape(C, np.array([1, -1]))),
    X @ (W * ops.reshape(C, np.array([-1, 1]))),
    given=[i for size in ("K", "1", "") for i in matmul_instances(w="C K", c=size)],
    twin=matmul_instances(w="C C", c="C"), order=33,
    when=lambda m: a_column(m) if owned(m.program, m.values["w"]) else "the weights are used elsewhere",
    says="(x @ w) * c = x @ (w * c), c one number, or one a column.")  # fmt: skip


def _bare(node: Node) -> bool:
    """Whether a node is rows times a matrix and nothing else."""
    product = node.kind(Product)
    return product is not None and product.bare


@exact("scale_before_weights", phase="offer")
class ScaleBeforeWeights(NodeRule):
    """(x * c) @ w = x @ (c * w), c one number a row of w: the gain of a normalization, for instance.

    All products that read x * c change at once, so that the multiplication goes. An offer, as engines fuse
    a normalization with its gain.
    """

    roots = frozenset({"mul"})

    def rewrite(self, program: Program, node: Node) -> Edit | str:
        """Only products read it, each with weights of its own."""
        readers = program.consumers.get(node.output, ())
        if not readers or not all(_bare(r) and r.inputs[0] == node.output for r in readers):
            return ""
        x, gain = node.inputs if node.inputs[1] in program.static_values else node.inputs[::-1]
        depth = program.type(node.output).dims[-1:]
        if gain not in program.static_values or program.type(gain).dims != depth:
            return "neither factor is a constant of one number a row of the weights"
        if program.type(x) != program.type(node.output) or len(program.type(x).dims) < 2:
            return "the other factor is broadcast"
        if node.output in program.outputs:
            return f"'{node.output}' (mul) is an output of the program"
        names = program.fresh(node.output)
        axis, column = next(names), next(names)
        added = [make_node("unsqueeze", (gain, axis), (column,))]
        for reader in readers:
            weights = reader.inputs[1]
            if len(program.type(weights).dims) != 2 or not owned(program, weights):
                return f"the weights of '{reader.output}' are no matrix of its own"
            scaled = next(names)
            added.append(make_node("mul", (weights, column), (scaled,)))
            added.append(replace(reader, inputs=(x, scaled)))
        constants = {axis: np.array([1], dtype=np.int64)}
        return Edit(remove=(node, *readers), add=tuple(added), constants=constants)

    def lemmas(self) -> Iterable[Rule]:
        """One number a row of w."""
        right, wrong = X @ (W * along(C, 0, W)), X @ (W * C)
        given, square = (matmul_instances(w=f"C {k}", c="C") for k in "KC")
        yield lemma("rows", (X * C) @ W, right, wrong, given=given, twin=square)


law("matmul_to_gemm", X @ W + C, ops.gemm(X, W, C), ops.gemm(X, W, C, attrs={"transB": 1}), when=floating,
    given=matmul_instances((0,)), twin=matmul_instances((0,), w="C C"), c="K", w="C K", order=34)  # fmt: skip


def _something_to_scale(m: Match) -> str | None:
    attrs = m.attrs["gemm"]
    return None if attrs["alpha"] != 1 or attrs["beta"] != 1 else ""


@later("x @ (alpha * w) + beta * b")
def _scaled(m: Bindings, weights: str, bias: str) -> Term:
    scaled = W * attribute("gemm", weights), B * attribute("gemm", bias)
    return ops.gemm(X, *scaled, attrs={**m.attrs["gemm"], "alpha": 1.0, "beta": 1.0})


law("plain_gemm", gemm(X, W, B), _scaled("alpha", "beta"), _scaled("beta", "alpha"),
    given=[Instance("bias", {"x": "N C", "w": "C K", "b": "K"})],
    sample={"gemm": {"alpha": 0.5, "beta": 2.0}},
    when=_something_to_scale, order=19,
    says="alpha * (x @ w) + beta * b = x @ (alpha * w) + (beta * b), w and b constant.")  # fmt: skip
