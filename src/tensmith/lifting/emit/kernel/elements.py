"""Each value of a program as the expression of its element, from the ops' own formulas where types allow.

Elementwise ops and conversions are typed here one by one; ops that move or sum elements of one type are read
from the formulas they declare, so that a convolution needs no word of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce as fold_left

import numpy as np

from tensmith.ctext.typed import Bounds, Typing
from tensmith.errors import ProgramError
from tensmith.formula import expr as formula
from tensmith.formula.bounds import Ranges
from tensmith.formula.expr import PICKED, Call, Choose, Expr, Let, Num, Read, Size, fresh
from tensmith.formula.poly import Div, Poly
from tensmith.ir.infer import Facts
from tensmith.ir.op import Node, Symbolic
from tensmith.ir.ops.shared import normal_axis
from tensmith.ir.ops.sizes import flat_position, onnx_dtype
from tensmith.ir.ops.slicing import full_pads
from tensmith.lifting.emit.kernel.parameters import length_symbol
from tensmith.lifting.lifted import Input, Lifted, View
from tensmith.lifting.refusal import Refusal

# TensIR's elementwise ops whose operands have one type, and the operator each is.
PLAIN = {
    "add": "add", "sub": "sub", "mul": "mul", "div": "div", "neg": "neg", "abs": "abs", "sign": "sign",
    "less": "less", "greater": "greater", "less_or_equal": "less_equal",
    "greater_or_equal": "greater_equal", "equal": "equal",
    "and": "and", "or": "or", "xor": "xor", "not": "not", "where": "where", "pow": "pow", "isnan": "isnan",
    "bitwise_and": "bitwise_and", "bitwise_or": "bitwise_or", "bitwise_xor": "bitwise_xor",
    "bitwise_not": "bitwise_not",
    "exp": "exp", "log": "log", "sqrt": "sqrt", "sin": "sin", "cos": "cos", "tan": "tan", "tanh": "tanh",
    "floor": "floor", "ceil": "ceil", "round": "round", "erf": "erf", "asin": "asin", "acos": "acos",
    "atan": "atan", "sinh": "sinh", "cosh": "cosh", "asinh": "asinh", "acosh": "acosh", "atanh": "atanh",
}  # fmt: skip
_MANY = {"max": "maximum", "min": "minimum", "sum": "add"}
CUMULATIVE = {"cum_sum": "sum", "cum_prod": "prod"}


def place(view: View, indices: Sequence[Poly]) -> Poly:
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


class Elements:
    """The elements of a program's values; those of `stored` are read from buffers named like the values.

    flat: whether reads are of row-major memory, with one subscript, or of values at positions.
    """

    def __init__(self, lifted: Lifted, stored: frozenset[str] = frozenset(), flat: bool = True) -> None:
        self.lifted, self.stored, self.flat = lifted, stored, flat
        self.program = lifted.program
        self.facts: Mapping[str, Facts] = lifted.program.facts
        self.inputs: Mapping[str, Input] = {entry.name: entry for entry in lifted.inputs}
        self.bounds = Bounds(Ranges({}, least(lifted)))
        self._made: dict[tuple[str, tuple[Poly, ...]], Expr] = {}

    def refuse(self, reason: str) -> Refusal:
        """A refusal of the function."""
        return Refusal(reason, self.lifted.function.position, self.lifted.function.name)

    def variable(self, base: str, extent: Poly) -> Poly:
        """A fresh loop variable, 0 <= it < extent."""
        name = fresh(base)
        self.bounds.ranges = self.bounds.ranges.having([(name, extent)])
        return Poly.symbol(name)

    def shape(self, value: str) -> tuple[Poly, ...]:
        """The extents of a value."""
        return tuple(map(Poly.of, self.program.type(value).dims))

    def at(self, value: str, indices: Sequence[Poly]) -> Expr:
        """The element at a position, read from its buffer where the value is stored."""
        key = (value, tuple(map(self._simplified, indices)))
        if key not in self._made:
            if value in self.stored:
                self._made[key] = self._load(value, key[1])
            else:
                self._made[key] = self.define(value, key[1])
        return self._made[key]

    def define(self, value: str, indices: tuple[Poly, ...]) -> Expr:
        """The element at a position, computed."""
        if value in self.inputs:
            return self._input(self.inputs[value], indices)
        if value in self.program.constants:
            return self._constant(value, indices)
        return self._node(self.program.producers[value], value, indices)

    def _simplified(self, index: Poly) -> Poly:
        divided = any(isinstance(atom, Div) for monomial, _ in index.terms for atom, _ in monomial)
        return self.bounds.ranges.simplify(index) if divided else index

    def _input(self, entry: Input, indices: tuple[Poly, ...]) -> Expr:
        dtype = self.program.type(entry.name).dtype
        if entry.view is not None and self.flat:
            when = self.at(entry.when, ()) if entry.when else None
            return Read(entry.view.array, (place(entry.view, indices),), dtype, when)
        if entry.view is not None:
            return self._load(entry.name, indices)
        return Size(indices[0], dtype) if entry.scalar is None else Read(entry.scalar, (), dtype)

    def _load(self, value: str, indices: tuple[Poly, ...]) -> Expr:
        """An element of dense memory."""
        at = (Poly.of(flat_position(indices, self.shape(value))),) if self.flat else indices
        return Read(value, at or (Poly.of(0),), self.program.type(value).dtype)

    def _constant(self, value: str, indices: tuple[Poly, ...]) -> Expr:
        array, dtype = self.program.constants[value], self.program.type(value).dtype
        fixed = [index.constant for index in indices]
        if array.size == 1 or all(index is not None for index in fixed):
            element = array.reshape(-1)[0] if array.size == 1 else array[tuple(fixed)]
            return Num(float(element) if dtype[0] == "f" else element.item(), dtype)
        return self._load(value, indices)

    # Nodes

    def _node(self, node: Node, value: str, indices: tuple[Poly, ...]) -> Expr:
        if node.opaque is not None or node.outputs[0] != value:
            raise self.refuse(f"op '{node.op}' cannot be written as loops; use another target")
        rule: Callable[..., Expr] | None = getattr(self, f"_{node.op}", None)
        dtype = self.program.type(value).dtype
        if node.op in PLAIN:
            return Call(PLAIN[node.op], self._reads(node, indices), dtype, value)
        if node.op in _MANY:
            args = self._reads(node, indices)
            return fold_left(lambda a, b: Call(_MANY[node.op], (a, b), dtype, value), args)
        if rule is not None:
            return rule(node, indices, dtype)
        return self._by_formula(node, indices, dtype, value)

    def _reads(self, node: Node, indices: tuple[Poly, ...]) -> tuple[Expr, ...]:
        """The broadcast operands at a position."""
        return tuple(self._read(name, indices) for name in node.inputs if name)

    def _read(self, name: str, indices: tuple[Poly, ...]) -> Expr:
        shape = self.shape(name)
        tail = indices[len(indices) - len(shape) :]
        return self.at(name, [Poly.of(0) if size == 1 else i for size, i in zip(shape, tail)])

    def _identity(self, node: Node, indices: tuple[Poly, ...], dtype: str) -> Expr:
        return self.at(node.inputs[0], indices)

    def _cast(self, node: Node, indices: tuple[Poly, ...], dtype: str) -> Expr:
        inner = self.at(node.inputs[0], indices)
        target = onnx_dtype(node.attrs["to"])
        if isinstance(inner, Size) and target[0] in "iu" and target.endswith("64"):
            return Size(inner.poly, target)
        return inner if inner.type == target else Call("cast", (inner,), target, node.output)

    def _mod(self, node: Node, indices: tuple[Poly, ...], dtype: str) -> Expr:
        operator = "fmod" if node.attrs["fmod"] else "mod"
        return Call(operator, self._reads(node, indices), dtype, node.output)

    def _bit_shift(self, node: Node, indices: tuple[Poly, ...], dtype: str) -> Expr:
        operator = "left_shift" if node.attrs["direction"] == "LEFT" else "right_shift"
        return Call(operator, self._reads(node, indices), dtype, node.output)

    def _shape(self, node: Node, indices: tuple[Poly, ...], dtype: str) -> Expr:
        sizes = self.shape(node.inputs[0])[node.attrs["start"] or 0 : node.attrs["end"]]
        which = indices[0].constant if len(sizes) > 1 else 0
        if which is None:
            raise self.refuse("a shape is read at a position known only at run time; use another target")
        return Size(sizes[which], dtype)

    def _size(self, node: Node, indices: tuple[Poly, ...], dtype: str) -> Expr:
        return Size(fold_left(lambda a, b: a * b, self.shape(node.inputs[0]), Poly.of(1)), dtype)

    def _constant_of_shape(self, node: Node, indices: tuple[Poly, ...], dtype: str) -> Expr:
        given = node.attrs["value"]
        element = 0.0 if given is None else np.asarray(given).reshape(-1)[0].item()
        return Num(element, dtype)

    def _concat(self, node: Node, indices: tuple[Poly, ...], dtype: str) -> Expr:
        """The part that holds the position; parts are tried in order."""
        axis = normal_axis(node.attrs["axis"], len(indices))
        starts, start = [], Poly.of(0)
        for name in node.inputs:
            starts.append(start)
            start = start + self.shape(name)[axis]

        def part(position: int) -> Expr:
            local = (*indices[:axis], indices[axis] - starts[position], *indices[axis + 1 :])
            return self.at(node.inputs[position], local)

        result = part(len(starts) - 1)
        for position in reversed(range(len(starts) - 1)):
            inside = starts[position + 1] - 1 - indices[axis]
            known = inside.constant
            if known is None:
                result = Choose((inside,), part(position), result, dtype)
            elif known >= 0:
                result = part(position)
        return result

    def _gather(self, node: Node, indices: tuple[Poly, ...], dtype: str) -> Expr:
        """The element at the index read, which counts from the back where it is negative."""
        x, chosen = node.inputs
        axis, width = normal_axis(node.attrs["axis"], len(self.shape(x))), len(self.shape(chosen))
        inner = indices[axis : axis + width]
        index = self.at(chosen, inner)
        around = (indices[:axis], indices[axis + width :])
        known = index.poly if isinstance(index, Size) else None
        if isinstance(index, Num):
            known = Poly.of(int(index.value)) + (self.shape(x)[axis] if index.value < 0 else 0)
        if known is not None:
            return self.at(x, (*around[0], known, *around[1]))
        symbol = fresh(PICKED)
        size = Size(self.shape(x)[axis], "i64")
        wide = index if index.type == "i64" else Call("cast", (index,), "i64", node.output)
        behind = Call("less", (wide, Num(0, "i64")), "bool", node.output)
        back = Call("add", (wide, size), "i64", node.output)
        position = Call("where", (behind, back, wide), "i64", node.output)
        self.bounds.ranges = self.bounds.ranges.having([(symbol, self.shape(x)[axis])])
        read = self.at(x, (*around[0], Poly.symbol(symbol), *around[1]))
        return Let(symbol, position, read, dtype)

    def _pad(self, node: Node, indices: tuple[Poly, ...], dtype: str) -> Expr:
        """The element inside, the constant outside."""
        known = [self.facts[name].value if name else None for name in (*node.inputs, "", "")[1:4]]
        if node.attrs["mode"] != "constant" or known[0] is None:
            return self._by_formula(node, indices, dtype, node.output)
        x, rank = node.inputs[0], len(indices)
        begins, ends = full_pads(rank, known[0], known[2])
        source = [index - begin for index, begin in zip(indices, begins)]
        bounds: list[Poly] = []
        for place, extent, begin, end in zip(source, self.shape(x), begins, ends):
            bounds += [place] if begin != 0 else []
            bounds += [extent - 1 - place] if end != 0 else []
        fill = self.at(node.inputs[2], ()) if len(node.inputs) > 2 and node.inputs[2] else Num(0, dtype)
        return Choose(tuple(bounds), self.at(x, source), fill, dtype) if bounds else self.at(x, source)

    # Formulas

    def _by_formula(self, node: Node, indices: tuple[Poly, ...], dtype: str, value: str) -> Expr:
        """The op's own formula, where it is over elements of one type."""
        values = tuple(self.facts[name].value if name else None for name in node.inputs)
        tensors: list[formula.Formula | None] = []
        for name, known in zip(node.inputs, values):
            if not name:
                tensors.append(None)
                continue
            type_ = self.program.type(name)
            if type_.dtype != dtype and known is None:
                raise self.refuse(
                    f"op '{node.op}' on {type_.dtype} giving {dtype} cannot be written as loops; "
                    f"use another target"
                )
            tensors.append(formula.tensor(name, *self.shape(name)))
        try:
            found = node.definition.formula(Symbolic(node.attrs, tuple(tensors), values, len(node.outputs)))[
                0
            ]
        except ProgramError as error:
            raise self.refuse(f"op '{node.op}' cannot be written as loops: {error}") from error
        whole = dtype if dtype[0] in "iu" else "i64"
        typing = Typing(
            self.at, self._no_loops, self.bounds, value,
            real="" if whole == dtype else dtype, whole="", narrow=whole,
        )  # fmt: skip
        return typing.typed(found[indices], dtype)

    def _no_loops(self, reason: str) -> Refusal:
        return self.refuse(f"an op cannot be written as loops: {reason}; use another target")


def least(lifted: Lifted) -> dict[str, int]:
    """Lower bounds of symbols: sizes and lengths may be 0, integer parameters anything."""
    symbols = {symbol for entry in lifted.inputs for symbol in _symbols(entry)}
    symbols |= {size.symbol for size in lifted.sizes}
    scalars = {entry.scalar for entry in lifted.inputs if entry.scalar is not None}
    sizes = {size.symbol for size in lifted.sizes}
    return {s: 0 if s in sizes or s.startswith("len(") else -(2**63) for s in symbols | scalars}


def _symbols(entry: Input) -> frozenset[str]:
    if entry.view is None:
        return entry.positions.symbols() if entry.positions is not None else frozenset()
    polys = (*entry.view.offset, *entry.view.shape, *(step for row in entry.view.steps for step in row))
    return frozenset[str]().union(*(poly.symbols() for poly in polys))
