"""A graph under construction: nodes and constants are made once, polynomials become integer arithmetic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce as fold
from typing import Any

import numpy as np

from tensmith.formula.arith import Array
from tensmith.formula.bounds import Ranges
from tensmith.formula.poly import Dim, FloorDiv, Poly
from tensmith.ir import Node
from tensmith.ir.names import take
from tensmith.ir.onnx_schema import ELEMENT_CODES
from tensmith.ir.program import make_node
from tensmith.lifting.lifted import TO_THE_END
from tensmith.lifting.summary import length_of


class Graph:
    """Nodes so far. `symbols`: symbol of polynomials -> the i64 value (0-d) that holds it."""

    def __init__(self, taken: frozenset[str]) -> None:
        self.nodes: list[Node] = []
        self.constants: dict[str, Array] = {}
        self.symbols: dict[str, str] = {}
        self._taken = set(taken)
        self._made: dict[Any, str] = {}

    def fresh(self, base: str) -> str:
        """A value name that nothing else has."""
        return take(base, self._taken)

    def const(self, value: Any, dtype: Any = np.int64) -> str:
        """A constant."""
        array = np.asarray(value, dtype)
        key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self._made:
            self._made[key] = self.fresh("constant")
            self.constants[self._made[key]] = array
        return self._made[key]

    def op(self, op: str, inputs: Sequence[str], attrs: Mapping[str, Any] | None = None) -> str:
        """The output of a node."""
        key = (op, tuple(inputs), tuple(sorted((attrs or {}).items())))
        if key not in self._made:
            self._made[key] = self.fresh(op)
            self.nodes.append(make_node(op, inputs, (self._made[key],), attrs))
        return self._made[key]

    def named(
        self, op: str, inputs: Sequence[str], name: str, attrs: Mapping[str, Any] | None = None
    ) -> None:
        """A node whose output has a name of its own."""
        self.nodes.append(make_node(op, inputs, (name,), attrs))

    def cast(self, value: str, dtype: str) -> str:
        """A value in another element type."""
        return self.op("cast", [value], {"to": ELEMENT_CODES[dtype]})

    # Sizes

    def size(self, poly: Dim) -> str:
        """A polynomial as an i64 scalar."""
        poly = Poly.of(poly)
        if poly.constant is not None:
            return self.const(poly.constant)
        terms = []
        for monomial, coefficient in poly.terms:
            factors = [self._atom(atom) for atom, power in monomial for _ in range(power)]
            if coefficient != 1 or not factors:
                factors.append(self.const(coefficient))
            terms.append(fold(lambda a, b: self.op("mul", [a, b]), factors))
        return fold(lambda a, b: self.op("add", [a, b]), terms)

    def _atom(self, atom: str | FloorDiv) -> str:
        if isinstance(atom, str):
            return self.symbols[atom]
        top, bottom = self.size(atom.top), self.size(atom.bottom)
        if atom.bottom.constant is not None:
            return self._floored(atom, top, bottom)
        none = self.op(
            "equal", [bottom, self.const(0)]
        )  # on a path that is not taken: a graph takes them all
        quotient = self._floored(atom, top, self.op("where", [none, self.const(1), bottom]))
        return self.op("where", [none, self.const(0), quotient])

    def _floored(self, atom: FloorDiv, top: str, bottom: str) -> str:
        lower = {name: 0 if length_of(name) else -(2**63) for name in atom.top.symbols()}
        if not Ranges({}, lower).never_negative(atom.top):  # div rounds towards zero, mod is of the floor
            top = self.op("sub", [top, self.op("mod", [top, bottom])])
        return self.op("div", [top, bottom])

    def vector(self, polys: Sequence[Dim]) -> str:
        """Polynomials as an i64 vector."""
        if all(Poly.of(poly).constant is not None for poly in polys):
            return self.const([Poly.of(poly).constant for poly in polys])
        parts = [self._one(poly) for poly in polys]
        return parts[0] if len(parts) == 1 else self.op("concat", parts, {"axis": 0})

    def _one(self, poly: Dim) -> str:
        constant = Poly.of(poly).constant
        if constant is not None:
            return self.const([constant])
        return self.op("reshape", [self.size(poly), self.const([1])])

    # Moving data

    def reshape(self, value: str, shape: Sequence[Dim]) -> str:
        """A value under another shape, sizes of 0 meant as they are."""
        return self.op("reshape", [value, self.vector(shape)], {"allowzero": 1})

    def slice(self, value: str, axis: int, start: Dim, end: Dim | None) -> str:
        """value[start:end] along an axis; to the end where `end` is None."""
        stop = self.const([TO_THE_END]) if end is None else self.vector([end])
        return self.op("slice", [value, self.vector([start]), stop, self.const([axis])])

    def range(self, extent: Dim) -> str:
        """0, 1, ..., extent-1."""
        return self.op("range", [self.const(0), self.size(extent), self.const(1)])
