"""Einstein sums: any equation, contracted two operands at a time by matrix products."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce as fold
from typing import Any

import numpy as np

from tensmith.errors import ProgramError
from tensmith.formula.arith import Arith, Array
from tensmith.formula.expr import Expr, Formula, compute, total
from tensmith.formula.poly import Dim, Poly
from tensmith.ir.op import REQUIRED, Op, Run, Symbolic, Typed, op
from tensmith.ir.ops.shared import broadcast_shapes, surely_broadcast
from tensmith.ir.ops.sizes import as_ints
from tensmith.ir.types import TensorType

# Axes under an ellipsis are lettered from the last: these come behind every letter an equation may use.
_ELLIPSIS = [chr(code) for code in range(ord("α"), ord("α") + 20)]


@dataclass(frozen=True)
class Equation:
    """Letters of each operand's axes and of the result's, ellipses spelled out."""

    operands: tuple[str, ...]
    result: str

    @staticmethod
    def parse(text: str, ranks: Sequence[int]) -> Equation:
        """The equation for operands of the given ranks; without "->", letters seen once, in order."""
        left, arrow, right = text.replace(" ", "").partition("->")
        terms = left.split(",")
        if len(terms) != len(ranks):
            raise ProgramError(f"equation '{text}' has {len(terms)} terms for {len(ranks)} operands")
        hidden = [rank - len(term.replace("...", "")) for term, rank in zip(terms, ranks)]
        if any(n < 0 or (n > 0 and "..." not in term) or n > 20 for n, term in zip(hidden, terms)):
            raise ProgramError(f"equation '{text}' does not fit operands of ranks {tuple(ranks)}")
        operands = tuple(term.replace("...", _hidden(n)) for term, n in zip(terms, hidden))
        if not arrow:
            counts = Counter(letter for term in terms for letter in term.replace("...", ""))
            right = "..." + "".join(sorted(letter for letter, n in counts.items() if n == 1))
        return Equation(operands, right.replace("...", _hidden(max(hidden, default=0))))

    def sizes(self, shapes: Sequence[Sequence[Dim]]) -> dict[str, Dim]:
        """Letter -> size; sizes of 1 broadcast."""
        found: dict[str, Dim] = {}
        for term, shape in zip(self.operands, shapes):
            for letter, size in zip(term, shape):
                found[letter] = broadcast_shapes((found.get(letter, 1),), (size,))[0]
        missing = set(self.result) - found.keys()
        if missing:
            raise ProgramError(f"no operand of the einsum has the result's axes {', '.join(sorted(missing))}")
        return found


def _hidden(count: int) -> str:
    return "".join(reversed(_ELLIPSIS[:count]))


@op("einsum", onnx="Einsum", attributes={"equation": REQUIRED})
class Einsum(Op):
    """y[result letters] = sum(all other letters; product of the operands at their letters). ONNX Einsum."""

    ring = True

    def presumes(self, call: Typed) -> bool:
        """Where open sizes meet others at a letter."""
        shapes = [t.shape for t in call.types if t is not None]
        if not all(shape is not None for shape in shapes):
            return True
        known = [shape for shape in shapes if shape is not None]
        equation = Equation.parse(call.attrs["equation"], [len(shape) for shape in known])
        met: dict[str, list[Dim]] = {}
        for letters, shape in zip(equation.operands, known):
            for letter, size in zip(letters, shape):
                met.setdefault(letter, []).append(size)
        return not all(surely_broadcast(*((size,) for size in sizes)) for sizes in met.values())

    def infer(self, call: Typed) -> tuple[TensorType | None, ...]:
        """The sizes of the result's letters."""
        first = call.type(0)
        if any(t is None or t.shape is None for t in call.types):
            return (first.with_shape(None),)
        shapes = [t.dims for t in call.types if t is not None]
        equation = Equation.parse(call.attrs["equation"], [len(shape) for shape in shapes])
        sizes = equation.sizes(shapes)
        return (first.with_shape([sizes[letter] for letter in equation.result]),)

    def run(self, call: Run, arith: Arith) -> tuple[Array, ...]:
        """Operands from the left, two at a time, each letter summed as soon as nothing needs it."""
        arrays = [np.asarray(x) for x in call.inputs]
        equation = Equation.parse(call.attrs["equation"], [x.ndim for x in arrays])
        sizes: dict[str, Any] = equation.sizes([x.shape for x in arrays])
        terms = [_diagonal(term, x, sizes) for term, x in zip(equation.operands, arrays)]
        letters, value = terms[0]
        for position, (other, array) in enumerate(terms[1:], start=2):
            later = set(equation.result).union(*(term for term, _ in terms[position:]))
            letters, value = _contract(arith, (letters, value), (other, array), later, sizes)
        return (_sum_to(arith, letters, value, equation.result),)

    def formula(self, call: Symbolic) -> tuple[Formula, ...]:
        """One sum of products."""
        tensors = [t for t in call.inputs if t is not None]
        equation = Equation.parse(call.attrs["equation"], [t.rank for t in tensors])
        sizes = equation.sizes([t.shape for t in tensors])
        summed = [letter for letter in sizes if letter not in equation.result]

        def element(*at: Poly) -> Expr:
            def product(*inner: Poly) -> Expr:
                position = {**dict(zip(equation.result, at)), **dict(zip(summed, inner))}
                reads = [
                    tensor[tuple(Poly.of(0) if n == 1 else position[a] for a, n in zip(term, tensor.shape))]
                    for term, tensor in zip(equation.operands, tensors)
                ]
                return fold(operator.mul, reads)

            return total([sizes[letter] for letter in summed], product)

        return (compute([sizes[letter] for letter in equation.result], element),)

    def cost(self, call: Typed, outputs: tuple[TensorType | None, ...]) -> int:
        """The product of all sizes, for each product of two operands."""
        shapes = [t.static for t in call.types if t is not None]
        if any(shape is None for shape in shapes):
            return 0
        known = [shape for shape in shapes if shape is not None]
        sizes = Equation.parse(call.attrs["equation"], [len(s) for s in known]).sizes(known)
        return int(np.prod(as_ints(sizes.values()))) * max(1, len(known) - 1)


def _diagonal(term: str, x: Array, sizes: dict[str, Any]) -> tuple[str, Array]:
    """Each letter once, and in its full size."""
    letters = "".join(dict.fromkeys(term))
    if letters != term:
        codes = [letters.index(letter) for letter in term]
        x = np.asarray(np.einsum(x, codes, list(range(len(letters)))))
    return letters, np.broadcast_to(x, [sizes[letter] for letter in letters])


def _sum_to(arith: Arith, letters: str, x: Array, result: str) -> Array:
    """Sums letters not in `result` and orders the rest as there."""
    gone = tuple(axis for axis, letter in enumerate(letters) if letter not in result)
    kept = [letter for letter in letters if letter in result]
    y = arith.sum(x, gone) if gone else x
    return y.transpose([kept.index(letter) for letter in result])


def _contract(
    arith: Arith, left: tuple[str, Array], right: tuple[str, Array], later: set[str], sizes: dict[str, Any]
) -> tuple[str, Array]:
    """The product of two operands, letters not in `later` summed: a batched matrix product."""
    (a, x), (b, y) = left, right
    batch = "".join(c for c in a if c in b and c in later)
    inner = "".join(c for c in a if c in b and c not in later)
    rows = "".join(c for c in a if c not in b and c in later)
    columns = "".join(c for c in b if c not in a and c in later)

    def shape(letters: str) -> list[int]:
        return [sizes[c] for c in letters]

    def flat(letters: str) -> int:
        return int(np.prod(shape(letters), dtype=np.int64))

    m1 = _sum_to(arith, a, x, batch + rows + inner).reshape(*shape(batch), flat(rows), flat(inner))
    m2 = _sum_to(arith, b, y, batch + inner + columns).reshape(*shape(batch), flat(inner), flat(columns))
    return batch + rows + columns, arith.matmul(m1, m2).reshape(shape(batch + rows + columns))
