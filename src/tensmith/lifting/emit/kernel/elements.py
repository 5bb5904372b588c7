"""Each value of a program as the typed expression of its element."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from tensmith.ctext.typed import KnownRanges, Typing
from tensmith.formula.bounds import Ranges
from tensmith.formula.expr import PICKED, Call, Choose, Expr, Formula, Let, Num, Read, Reduce, Size, fresh
from tensmith.formula.poly import Dim, Poly
from tensmith.formula.types import BOOL, I64, UNTYPED, MachineType
from tensmith.ir.elements import PolyElements
from tensmith.ir.op import Node
from tensmith.ir.ops.sizes import flat_position
from tensmith.lifting.lifted import ArrayView, Input, Lifted, lookups, reads_arrays
from tensmith.lifting.refusal import Refusal
from tensmith.lifting.summary import length_of, length_symbol


def place(view: ArrayView, indices: Sequence[Poly]) -> Poly:
    """Where an element of a view lies, counted in elements of row-major memory."""
    position = Poly.of(0)
    for axis, (offset, steps) in enumerate(zip(view.offset, view.steps)):
        subscript = offset
        for step, index in zip(steps, indices):
            subscript = subscript + step * index
        if axis:
            position = position * Poly.symbol(length_symbol(view.array, axis))
        position = position + subscript
    return position


class KernelElements(PolyElements[Expr]):
    """The elements as typed expressions; those of `stored` are read from buffers named like the values.

    flat: whether reads are of row-major memory, with one subscript, or of values at positions.
    """

    def __init__(self, lifted: Lifted, stored: frozenset[str] = frozenset(), flat: bool = True) -> None:
        self.lifted, self.stored, self.flat = lifted, stored, flat
        self.program = lifted.program
        self.inputs: Mapping[str, Input] = {entry.name: entry for entry in lifted.inputs}
        self.bounds = KnownRanges(Ranges({}, least(lifted)))
        self._made: dict[tuple[str, tuple[Poly, ...]], Expr] = {}

    def refused(self, reason: str) -> Refusal:
        """A refusal of the function."""
        return Refusal(reason, self.lifted.function.position, self.lifted.function.name)

    def refuse(self, node: Node, reason: str) -> Refusal:
        """See Elements."""
        return self.refused(f"op '{node.op}' cannot be written as loops: {reason}; use another target")

    def variable(self, base: str, extent: Poly) -> Poly:
        """A fresh loop variable, 0 <= it < extent."""
        name = fresh(base)
        self.bounds.ranges = self.bounds.ranges.having([(name, extent)])
        return Poly.symbol(name)

    def shape(self, value: str) -> tuple[Poly, ...]:
        """The extents of a value."""
        return tuple(map(Poly.of, self.dims(value)))

    # Leaves and numbers

    def at(self, value: str, indices: Sequence[Poly]) -> Expr:
        """The element at a position, read from its buffer where the value is stored."""
        key = (value, tuple(map(self.bounds.ranges.simplify, indices)))
        if key not in self._made:
            make = self._load if value in self.stored else self.define
            self._made[key] = make(value, key[1])
        return self._made[key]

    def define(self, value: str, indices: tuple[Poly, ...]) -> Expr:
        """The element at a position, computed."""
        if value in self.inputs:
            return self._input(self.inputs[value], indices)
        if value in self.program.constants:
            return self._constant(value, indices)
        return self.element(value, indices)

    def _input(self, entry: Input, indices: tuple[Poly, ...]) -> Expr:
        dtype = self.dtype(entry.name)
        if entry.view is not None and self.flat:
            when = self.at(entry.when, ()) if entry.when else None
            return Read(entry.view.array, (place(entry.view, indices),), dtype, when)
        if entry.view is not None:
            return self._load(entry.name, indices)
        return Size(indices[0], dtype) if entry.scalar is None else Read(entry.scalar, (), dtype)

    def _load(self, value: str, indices: tuple[Poly, ...]) -> Expr:
        """An element of dense memory."""
        at = (Poly.of(flat_position(indices, self.shape(value))),) if self.flat else indices
        return Read(value, at or (Poly.of(0),), self.dtype(value))

    def _constant(self, value: str, indices: tuple[Poly, ...]) -> Expr:
        array, dtype = self.program.constants[value], self.dtype(value)
        fixed = [index.constant for index in indices]
        if array.size == 1 or all(index is not None for index in fixed):
            element = array.reshape(-1)[0] if array.size == 1 else array[tuple(fixed)]
            return self.literal(float(element) if dtype[0] == "f" else element.item(), dtype)
        return self._load(value, indices)

    def literal(self, value: bool | int | float, dtype: MachineType) -> Expr:
        """See Elements."""
        return Num(value, dtype)

    def size(self, size: Dim, dtype: MachineType) -> Expr:
        """See Elements."""
        return Size(Poly.of(size), dtype)

    def apply(self, function: str, args: tuple[Expr, ...], node: Node) -> Expr:
        """See Elements."""
        return Call(function, args, self.dtype(node.output), node.output)

    def cast(self, x: Expr, node: Node) -> Expr:
        """See Elements."""
        target = self.dtype(node.output)
        if isinstance(x, Size) and target in ("i64", "u64"):
            return Size(x.poly, target)
        return x if x.type == target else self.apply("cast", (x,), node)

    def choose(
        self,
        conditions: Sequence[Poly],
        then: Callable[[], Expr],
        otherwise: Callable[[], Expr],
        dtype: MachineType,
    ) -> Expr:
        """See Elements; what is known is not asked for."""
        known = [condition.constant for condition in conditions]
        if any(value is not None and value < 0 for value in known):
            return otherwise()
        left = tuple(condition for condition, value in zip(conditions, known) if value is None)
        return Choose(left, then(), otherwise(), dtype) if left else then()

    def pick(self, node: Node, index: Expr, size: Dim, read: Callable[[Poly], Expr]) -> Expr:
        """See Elements."""
        if isinstance(index, Size):
            return read(index.poly)
        if isinstance(index, Num):
            return read(Poly.of(int(index.value)) + (size if index.value < 0 else 0))
        symbol, of = fresh(PICKED), node.output
        wide = index if index.type == "i64" else Call("cast", (index,), I64, of)
        self.bounds.ranges = self.bounds.ranges.having([(symbol, Poly.of(size))])
        found = read(Poly.symbol(symbol))
        required = lookups(self.lifted, node.inputs[0])
        if required and reads_arrays(self.program, self.lifted.inputs, node.inputs[1]):
            if not isinstance(found, Read) or found.when is not None:
                raise self.refuse(node, "it reads what is computed, or not always there, where data says")
            status = self.lifted.requires.index(required[0]) + 1
            asked = (Size(Poly.symbol(symbol), I64), Size(Poly.of(size), I64), Num(status, I64))
            inside = Call("inside", asked, BOOL, of)
            return Let(symbol, wide, replace(found, when=inside), self.dtype(of))
        behind = Call("less", (wide, Num(0, I64)), BOOL, of)
        back = Call("add", (wide, Size(Poly.of(size), I64)), I64, of)
        return Let(symbol, Call("where", (behind, back, wide), I64, of), found, self.dtype(of))

    def fold(self, kind: str, count: Poly, element: Callable[[Poly], Expr], node: Node) -> Expr:
        """See Elements."""
        (index,) = self.variable("k", count).symbols()
        body = element(Poly.symbol(index))
        return Reduce(kind, index, count, body, self.dtype(node.output), node.output)

    def read_formula(self, formula: Formula, indices: Sequence[Poly], node: Node) -> Expr:
        """See Elements."""
        dtype = self.dtype(node.output)
        whole = dtype if dtype[0] in "iu" else I64
        typing = Typing(
            self.at, lambda reason: self.refuse(node, reason), self.bounds, node.output,
            real=UNTYPED if whole == dtype else dtype, whole=UNTYPED, narrow=whole,
        )  # fmt: skip
        return typing.typed(formula[tuple(indices)], dtype)


def least(lifted: Lifted) -> dict[str, int]:
    """Lower bounds of symbols: sizes and lengths may be 0, integer parameters anything."""
    sizes = {size.symbol for size in lifted.sizes}
    symbols = {symbol for entry in lifted.inputs for poly in entry.polys for symbol in poly.symbols()}
    scalars = {entry.scalar for entry in lifted.inputs if entry.scalar is not None}
    return {s: 0 if s in sizes or length_of(s) else -(2**63) for s in symbols | sizes | scalars}
