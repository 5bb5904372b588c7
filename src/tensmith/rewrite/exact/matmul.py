"""Matrix products: fewer of them, with smaller operands, in their simplest form."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

import numpy as np

from tensmith.formula.expr import tensor
from tensmith.formula.poly import Poly
from tensmith.ir import Node, Program, make_node
from tensmith.rewrite.exact.batch_norm import B, W, X, along_axis
from tensmith.rewrite.pattern import PatternRule, claim
from tensmith.rewrite.rule import Edit, NodeRule, Obligation, exact
from tensmith.rewrite.term import Case, Match, Term, Use, Var, ops
from tensmith.rewrite.values import owned

Y, V, C = Var("y"), Var("v", static=True), Var("c", static=True)


def _symbols(names: str) -> tuple[Poly, ...]:
    return tuple(map(Poly.symbol, names))


def _cases(others: dict[str, str]) -> Iterable[Case]:
    """x [N, C] and x [M, N, C], with `others` by the letters of their shape."""
    for lead in ("N", "MN"):
        shapes = {"x": f"{lead}C", **{name: text.replace("*", lead) for name, text in others.items()}}
        yield Case(f"rank {len(lead) + 1}", {name: tensor(name, *_symbols(s)) for name, s in shapes.items()})


@exact("factor_weights")
class FactorWeights(PatternRule):
    """x @ w + x @ v = x @ (w + v)."""

    order = 32

    def left(self) -> Use:
        """Two products of the same value with constants."""
        return ops.add(ops.matmul(X, W), ops.matmul(X, V))

    def check(self, m: Match) -> str | None:
        """Weights of one shape."""
        return None if m.shape(W) == m.shape(V) else "the weights have different shapes"

    def right(self, m: Match | Case) -> Term:
        """One product."""
        return ops.matmul(X, ops.add(W, V))

    def wrong(self, m: Match | Case) -> Term:
        """The difference."""
        return ops.matmul(X, ops.sub(W, V))

    def cases(self) -> Iterable[Case]:
        """Ranks 2 and 3."""
        return _cases({"w": "CK", "v": "CK"})


@exact("factor_inputs")
class FactorInputs(PatternRule):
    """x @ w + y @ w = (x + y) @ w."""

    order = 32

    def left(self) -> Use:
        """Two products with the same constant."""
        return ops.add(ops.matmul(X, W), ops.matmul(Y, W))

    def check(self, m: Match) -> str | None:
        """Values of one shape."""
        return None if m.shape(X) == m.shape(Y) else "the values have different shapes"

    def right(self, m: Match | Case) -> Term:
        """One product."""
        return ops.matmul(ops.add(X, Y), W)

    def wrong(self, m: Match | Case) -> Term:
        """The difference."""
        return ops.matmul(ops.sub(X, Y), W)

    def cases(self) -> Iterable[Case]:
        """Ranks 2 and 3."""
        return _cases({"y": "*C", "w": "CK"})


@exact("associate_weights")
class AssociateWeights(PatternRule):
    """(x @ w) @ v = x @ (w @ v), where that takes fewer multiply-adds; a low-rank pair stays a pair."""

    order = 32

    def left(self) -> Use:
        """Two products in a row."""
        return ops.matmul(ops.matmul(X, W), V)

    def check(self, m: Match) -> str | None:
        """Matrices, and fewer multiply-adds a row."""
        if len(m.shape(W)) != 2 or len(m.shape(V)) != 2:
            return "the weights are not matrices"
        (depth, inner), columns = (int(d) for d in m.shape(W)), int(m.shape(V)[1])  # type: ignore[arg-type]
        if depth * columns < inner * (depth + columns):
            return None
        return (
            f"one product takes {depth * columns} multiply-adds a row, two take {inner * (depth + columns)}"
        )

    def right(self, m: Match | Case) -> Term:
        """The constants first."""
        return ops.matmul(X, ops.matmul(W, V))

    def wrong(self, m: Match | Case) -> Term:
        """The constants in the other order."""
        return ops.matmul(X, ops.matmul(V, W))

    def cases(self) -> Iterable[Case]:
        """Ranks 2 and 3, square so that the twin has a shape."""
        return _cases({"w": "CC", "v": "CC"})


@exact("scale_into_weights")
class ScaleIntoWeights(PatternRule):
    """(x @ w) * c = x @ (w * c), c one number, or one a column."""

    order = 33

    def left(self) -> Use:
        """A multiplication over a product."""
        return ops.mul(ops.matmul(X, W), C)

    def check(self, m: Match) -> str | None:
        """A constant of one number a column, or one for all."""
        shape = m.shape(C)
        if len(m.shape(W)) != 2 or any(d != 1 for d in shape[:-1]) or len(shape) > 2:
            return "the constant is not one number a column"
        if not owned(m.program, m.values["w"]):
            return "the weights are used elsewhere"
        return (
            None
            if not shape or shape[-1] in (1, m.shape(W)[1])
            else "the constant is not one number a column"
        )

    def right(self, m: Match | Case) -> Term:
        """The constant scales the columns."""
        return ops.matmul(X, ops.mul(W, self._row(m)))

    def wrong(self, m: Match | Case) -> Term:
        """It scales the rows."""
        return ops.matmul(X, ops.mul(W, ops.reshape(C, np.array([-1, 1], dtype=np.int64))))

    def _row(self, m: Match | Case) -> Use:
        return ops.reshape(C, np.array([1, -1], dtype=np.int64))

    def cases(self) -> Iterable[Case]:
        """One number a column; square so that the twin has a shape."""
        return _cases({"w": "CC", "c": "C"})


@exact("scale_before_weights")
class ScaleBeforeWeights(NodeRule):
    """(x * c) @ w = x @ (c * w), c one number a row of w: the gain of a normalization, for instance.

    All products that read x * c change at once, so that the multiplication goes. An offer, as engines fuse
    a normalization with its gain.
    """

    phase = "offer"
    roots = frozenset({"mul"})

    def rewrite(self, program: Program, node: Node) -> Edit | str:
        """Only products read it, each with weights of its own."""
        readers = program.consumers.get(node.output, ())
        if not readers or any(r.op != "matmul" or r.inputs[0] != node.output for r in readers):
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

    def obligations(self) -> Iterable[Obligation]:
        """Ranks 2 and 3."""
        return self._claims(lambda: ops.mul(W, along_axis(C, 0, 2)))

    def twins(self) -> Iterable[Obligation]:
        """The constant scales the columns."""
        return self._claims(lambda: ops.mul(W, C))

    def _claims(self, weights: Callable[[], Use]) -> Iterator[Obligation]:
        for case in _cases({"w": "CC", "c": "C"}):
            right = ops.matmul(X, weights())
            yield claim(f"{self.name}/{case.name}", ops.matmul(ops.mul(X, C), W), right, case)


@exact("matmul_to_gemm")
class MatmulToGemm(PatternRule):
    """x @ w + c = gemm(x, w, c), of matrices."""

    order = 34

    def left(self) -> Use:
        """An addition over a product."""
        return ops.add(ops.matmul(X, W), C)

    def check(self, m: Match) -> str | None:
        """Matrices, and one number a column."""
        if len(m.shape(X)) != 2 or len(m.shape(W)) != 2:
            return "gemm takes matrices only"
        return None if tuple(m.shape(C)) == (m.shape(W)[1],) else "the constant is not one number a column"

    def right(self, m: Match | Case) -> Term:
        """One gemm."""
        return ops.gemm(X, W, C)

    def wrong(self, m: Match | Case) -> Term:
        """With the weights the other way round."""
        return ops.gemm(X, W, C, attrs={"transB": 1})

    def cases(self) -> Iterable[Case]:
        """Matrices; square so that the twin has a shape."""
        return list(_cases({"w": "CC", "c": "C"}))[:1]


@exact("plain_gemm")
class PlainGemm(PatternRule):
    """alpha * (x @ w) + beta * b = x @ (alpha * w) + (beta * b), w and b constant."""

    order = 19

    def left(self) -> Use:
        """A gemm with constant weights."""
        return ops.gemm(X, W, B, attrs="gemm")

    def check(self, m: Match) -> str | None:
        """Something to scale."""
        attrs = m.attrs["gemm"]
        return None if attrs["alpha"] != 1 or (m.has(B) and attrs["beta"] != 1) else ""

    def right(self, m: Match | Case) -> Term:
        """The constants scaled."""
        return self._scaled(m, "alpha", "beta")

    def wrong(self, m: Match | Case) -> Term:
        """With each other's factor."""
        return self._scaled(m, "beta", "alpha")

    def _scaled(self, m: Match | Case, weights: str, bias: str) -> Use:
        attrs = m.attrs["gemm"]
        scaled = ops.mul(W, m.number(attrs[weights], like=W))
        offset = ops.mul(B, m.number(attrs[bias], like=B)) if m.has(B) else None
        return ops.gemm(X, scaled, offset, attrs={**attrs, "alpha": 1.0, "beta": 1.0})

    def cases(self) -> Iterable[Case]:
        """With and without bias."""
        n, c, k = _symbols("NCK")
        tensors = {"x": tensor("x", n, c), "w": tensor("w", c, k)}
        attrs = {"gemm": {"alpha": 0.5, "beta": 2.0}}
        yield Case("plain", tensors, attrs)
        yield Case("bias", {**tensors, "b": tensor("b", k)}, attrs)
