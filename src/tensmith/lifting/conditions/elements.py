"""The elements of a tensor program as nodes: what each op computes at an index, from its meaning or formula.

Ring operations of 32 and 64 bit integers are mathematical, as they agree modulo 2^bits whatever is in
between. Where an i32 leaves the ring (it is compared, divided, widened) it must be a value that the summary
computes too, so that the source has no overflow there; any other is wrapped, and then rarely proved.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import reduce as join

import numpy as np

from tensmith.errors import ProgramError
from tensmith.formula import expr as formula
from tensmith.formula.poly import Poly
from tensmith.ir import Node as Step
from tensmith.ir.op import Symbolic
from tensmith.ir.ops.shared import normal_axis
from tensmith.ir.ops.sizes import onnx_dtype
from tensmith.ir.ops.slicing import full_pads
from tensmith.lifting.conditions import operators
from tensmith.lifting.conditions.memory import Memory
from tensmith.lifting.conditions.nodes import Node, Sort
from tensmith.lifting.conditions.state import At
from tensmith.lifting.conditions.world import Malformed, Scope, World
from tensmith.lifting.lifted import Lifted, View
from tensmith.lifting.loops import I32, Scalar

# TensIR's elementwise ops, and the operators of the loop language that they are.
_ELEMENTWISE = {
    "add": "add", "sub": "sub", "mul": "mul", "neg": "neg", "abs": "abs", "less": "lt",
    "less_or_equal": "le", "equal": "eq", "and": "and", "or": "or", "not": "not", "where": "select",
    "pow": "pow", "exp": "exp", "log": "log", "sqrt": "sqrt", "sin": "sin", "cos": "cos", "tan": "tan",
    "tanh": "tanh", "floor": "floor", "ceil": "ceil", "round": "round", "max": "max", "min": "min",
    "bitwise_and": "band", "bitwise_or": "bor", "bitwise_xor": "bxor", "bitwise_not": "bnot",
}  # fmt: skip
_MIRRORED = {"greater": "lt", "greater_or_equal": "le"}
_CALLS = {
    "maximum": "max", "minimum": "min", "less": "lt", "less_equal": "le", "equal": "eq", "abs": "abs",
    "where": "select",
}  # fmt: skip
_SUMS = (
    "add", "sub", "mul", "neg", "matmul", "gemm", "einsum", "reduce_sum", "reduce_prod", "cum_sum",
    "cum_prod",
)  # fmt: skip
_MOVES = (
    "where", "identity", "transpose", "unsqueeze", "squeeze", "reshape", "expand", "slice", "concat",
    "gather", "pad",
)  # fmt: skip
# Ops whose result modulo 2^bits needs their operands only modulo 2^bits, and those of them that overflow.
_RING = frozenset((*_SUMS, *_MOVES, "conv"))
_WRAPPED = frozenset((*_SUMS, "conv", "bitwise_not"))
_MOST_CONSTANTS = 64


def scalar_of(dtype: str) -> Scalar:
    """The machine type of a TensIR element type."""
    if dtype == "bool":
        return Scalar("bool", 8, False)
    return Scalar("float" if dtype[0] == "f" else "int", int(dtype[1:]), dtype[0] != "u")


@dataclass(frozen=True)
class Extreme:
    """A maximum or minimum over elements 0, 1, ...: the first, and the extreme of a value and those from
    element n on."""

    kind: str
    first: Node
    joined: Callable[[Node, int], Node]


@dataclass
class Elements:
    """The values of a program at an index."""

    world: World
    lifted: Lifted
    memories: Mapping[str, Memory]
    demand: Callable[[str, Node], None]
    _made: dict[tuple[str, At], Node] = field(default_factory=dict)
    _places: dict[View, tuple[At, At, Node]] = field(default_factory=dict)
    _extremes: dict[Node, Extreme] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.program = self.lifted.program
        self.inputs = {given.name: given for given in self.lifted.inputs}
        self.wanted = {name for node in self.program.nodes for name in node.inputs}

    def shape(self, value: str) -> At:
        """The extents of a value."""
        return tuple(self.world.poly(Poly.of(dim), self.world.scope) for dim in self.program.type(value).dims)

    def dtype(self, value: str) -> str:
        """Its element type."""
        return self.program.type(value).dtype

    def at(self, value: str, indices: Sequence[Node]) -> Node:
        """The element at an index."""
        key = (value, tuple(indices))
        if key not in self._made:
            self._made[key] = self._define(value, key[1])
        return self._made[key]

    def _define(self, value: str, indices: At) -> Node:
        if value in self.inputs:
            return self._input(value, indices)
        if value in self.program.constants:
            return self._constant(value, indices)
        step = self.program.producers[value]
        if step.opaque is not None or step.outputs[0] != value:
            raise Malformed(f"the op '{step.op}' has no meaning here")
        node = self._step(step, indices)
        dtype = self.dtype(value)
        narrow = dtype[0] in "iu" and (dtype[0] == "u" or dtype in ("i8", "i16"))
        return (
            operators.wrap(self.world.arena, node, scalar_of(dtype))
            if narrow and step.op in _WRAPPED
            else node
        )

    # Leaves

    def _input(self, name: str, indices: At) -> Node:
        given = self.inputs[name]
        if given.view is not None:
            return self.world.read(given.view.array, self.place(given.view, indices)[0])
        if given.scalar is not None:
            return self.world.scalars[given.scalar][0]
        return indices[0]

    def place(self, view: View, indices: At) -> tuple[At, Node]:
        """The grid subscripts of an element of a view, and what makes them its place."""
        if view not in self._places:
            self._places[view] = self._place(view)
        symbols, digits, same = self._places[view]
        values = dict(zip(symbols, indices, strict=True))
        return tuple(self.world.arena.substitute(digit, values) for digit in digits), same

    def _place(self, view: View) -> tuple[At, At, Node]:
        """The subscripts at arbitrary indices in the view's box: what is put in later may hide strides."""
        world, arena = self.world, self.world.arena
        known = len(arena.known)
        symbols = [arena.symbol(f"view.{k}", "Int", natural=True) for k in range(len(view.shape))]
        for symbol, extent in zip(symbols, view.shape):
            arena.assume(arena.shift(arena.sub(world.poly(extent, world.scope), symbol), -1))
        found = []
        for offset, steps in zip(view.offset, view.steps):
            place = world.poly(offset, world.scope)
            for step, index in zip(steps, symbols, strict=True):
                place = arena.add(place, arena.mul(world.poly(step, world.scope), index))
            found.append(place)
        memory = self.memories[view.array]
        if memory.extents is None and len(found) == 1 and len(memory.declared) > 1:
            digits, same = memory.split(world, found[0])
        else:
            digits, same = memory.digits(world, tuple(found))
        arena.forget(known)
        return tuple(symbols), digits, same

    def _constant(self, name: str, indices: At) -> Node:
        array, arena = self.program.constants[name], self.world.arena
        dtype = self.dtype(name)
        if array.size == 1:
            return self._literal(array.reshape(-1)[0].item(), dtype)
        if array.size == 0 or array.size > _MOST_CONSTANTS:
            raise Malformed("a constant tensor is too large")
        result: Node | None = None
        for place in reversed(list(np.ndindex(array.shape))):
            here = arena.all(arena.eq(i, arena.number(p, "Int")) for i, p in zip(indices, place))
            element = self._literal(array[place].item(), dtype)
            result = element if result is None else arena.ite(here, element, result)
        assert result is not None
        return result

    def _literal(self, value: bool | int | float, dtype: str) -> Node:
        if isinstance(value, float) and math.isnan(value):
            return self.world.arena.symbol("not.a.number", "Real")
        return operators.constant(self.world.arena, value, scalar_of(dtype))

    def infinity(self, positive: bool) -> Node:
        """Above or below all numbers."""
        return operators.infinity(self.world.arena, positive)

    # Ops

    def _step(self, step: Step, indices: At) -> Node:
        arena, op = self.world.arena, step.op
        dtype = self.dtype(step.output)
        if op in _MIRRORED:
            return operators.apply(arena, _MIRRORED[op], self._reads(step, indices)[::-1], scalar_of(dtype))
        if op in _ELEMENTWISE:
            operands = self._reads(step, indices)
            if op in ("max", "min"):
                return join(lambda a, b: self._ordered(op, a, b, dtype), operands)
            return operators.apply(arena, _ELEMENTWISE[op], operands, scalar_of(dtype))
        rule: Callable[[Step, At, str], Node] | None = getattr(self, f"_op_{op}", None)
        return rule(step, indices, dtype) if rule is not None else self._by_formula(step, indices, dtype)

    def _ordered(self, op: str, a: Node, b: Node, dtype: str) -> Node:
        unit = self.infinity(op == "min")
        if unit in (a, b):
            return b if a is unit else a
        limits = operators.limits(scalar_of(dtype))
        for value, node in ((a, b), (b, a)):
            extreme = self._extremes.get(node)
            if extreme is None or extreme.kind != op:
                continue
            first = extreme.first
            if first is unit or (limits and first.constant == limits[op == "min"]):
                return extreme.joined(value, 1)
            if first.constant is None:
                return extreme.joined(value, 0)
        return operators.apply(self.world.arena, op, (a, b), scalar_of(dtype))

    def _reads(self, step: Step, indices: At) -> list[Node]:
        """The broadcast operands."""
        found = [self._read(name, indices) for name in step.inputs if name]
        return found if step.op in _RING else [self._solid(n, v) for n, v in zip(step.inputs, found)]

    def _read(self, name: str, indices: At) -> Node:
        dims = self.program.type(name).dims
        tail = indices[len(indices) - len(dims) :]
        return self.at(name, [self.world.zero if dim == 1 else i for dim, i in zip(dims, tail)])

    def _solid(self, name: str, node: Node) -> Node:
        """An i32 that leaves the ring: as it is if it is read, or if the summary computes it too."""
        return self._exact(node) if self.dtype(name) == "i32" else node

    def _exact(self, node: Node) -> Node:
        arena = self.world.arena
        known = self.world.exact.get(operators.unwrapped(arena, node, 32))
        if known is not None:
            return known
        if node.op == "ite":
            condition, a, b = node.args
            return arena.ite(condition, self._exact(a), self._exact(b))
        read = node.op != "poly" or node.constant is not None
        return node if read else operators.wrap(arena, node, I32)

    def _op_identity(self, step: Step, indices: At, dtype: str) -> Node:
        return self.at(step.inputs[0], indices)

    def _op_cast(self, step: Step, indices: At, dtype: str) -> Node:
        (name,) = step.inputs
        source, target = scalar_of(self.dtype(name)), scalar_of(onnx_dtype(step.attrs["to"]))
        node = self.at(name, indices)
        if not (target.kind == "int" and source.kind == "int" and (target.bits or 64) <= (source.bits or 64)):
            node = self._solid(name, node)
        return operators.cast(self.world.arena, node, source, target, True)

    def _op_div(self, step: Step, indices: At, dtype: str) -> Node:
        operator = "div" if dtype[0] == "f" else "tdiv"
        return operators.apply(self.world.arena, operator, self._reads(step, indices), scalar_of(dtype))

    def _op_mod(self, step: Step, indices: At, dtype: str) -> Node:
        operator = "tmod" if step.attrs["fmod"] else "fmod"
        return operators.apply(self.world.arena, operator, self._reads(step, indices), scalar_of(dtype))

    def _op_bit_shift(self, step: Step, indices: At, dtype: str) -> Node:
        operator = "shl" if step.attrs["direction"] == "LEFT" else "shr"
        return operators.apply(self.world.arena, operator, self._reads(step, indices), scalar_of(dtype))

    def _op_shape(self, step: Step, indices: At, dtype: str) -> Node:
        sizes = self.shape(step.inputs[0])[step.attrs["start"] or 0 : step.attrs["end"]]
        which = indices[0].constant if len(sizes) > 1 else 0
        if which is None:
            raise Malformed("a shape is read at a position that is not constant")
        return sizes[int(which)]

    def _op_size(self, step: Step, indices: At, dtype: str) -> Node:
        return join(self.world.arena.mul, self.shape(step.inputs[0]), self.world.arena.number(1, "Int"))

    def _op_constant_of_shape(self, step: Step, indices: At, dtype: str) -> Node:
        given = step.attrs["value"]
        return self._literal(0.0 if given is None else np.asarray(given).reshape(-1)[0].item(), dtype)

    def _op_concat(self, step: Step, indices: At, dtype: str) -> Node:
        arena = self.world.arena
        axis = normal_axis(step.attrs["axis"], len(indices))
        start, parts = self.world.zero, []
        for name in step.inputs:
            local = (*indices[:axis], arena.sub(indices[axis], start), *indices[axis + 1 :])
            start = arena.add(start, self.shape(name)[axis])
            parts.append((arena.gt(start, indices[axis]), self.at(name, local)))
        result = parts[-1][1]
        for inside, element in reversed(parts[:-1]):
            result = arena.ite(inside, element, result)
        return result

    def _op_gather(self, step: Step, indices: At, dtype: str) -> Node:
        """The element at the index read, which counts from the back where it is negative."""
        arena, (x, chosen) = self.world.arena, step.inputs
        sizes, width = self.shape(x), len(self.shape(chosen))
        axis = normal_axis(step.attrs["axis"], len(sizes))
        index = self._solid(chosen, self.at(chosen, indices[axis : axis + width]))
        ahead = arena.ge(index, self.world.zero)
        index = arena.ite(ahead, index, arena.add(index, sizes[axis]))
        return self.at(x, (*indices[:axis], index, *indices[axis + width :]))

    def _op_pad(self, step: Step, indices: At, dtype: str) -> Node:
        """The element inside, the constant outside."""
        arena = self.world.arena
        facts = self.program.facts
        known = [facts[name].value if name else None for name in (*step.inputs, "", "")[1:4]]
        if step.attrs["mode"] != "constant" or known[0] is None:
            return self._by_formula(step, indices, dtype)
        x, rank = step.inputs[0], len(indices)
        begins, ends = full_pads(rank, known[0], known[2])
        source, inside = [], []
        for index, extent, begin, end in zip(indices, self.shape(x), begins, ends):
            place = arena.sub(index, self.world.poly(Poly.of(begin), self.world.scope))
            source.append(place)
            inside += [] if begin == 0 else [arena.ge(place, self.world.zero)]
            inside += [] if end == 0 else [arena.gt(extent, place)]
        fill = step.inputs[2] if len(step.inputs) > 2 else ""
        outside = self.at(fill, ()) if fill else self._literal(0.0 if dtype[0] == "f" else 0, dtype)
        return arena.ite(arena.all(inside), self.at(x, source), outside)

    def _op_cum_sum(self, step: Step, indices: At, dtype: str) -> Node:
        return self._cumulative("sum", step, indices)

    def _op_cum_prod(self, step: Step, indices: At, dtype: str) -> Node:
        return self._cumulative("prod", step, indices)

    def _cumulative(self, kind: str, step: Step, indices: At) -> Node:
        """The join of the elements up to the index, or from it on, with or without its own."""
        arena, x = self.world.arena, step.inputs[0]
        given = self.program.facts[step.inputs[1]].value
        if given is None:
            raise Malformed("the axis of a running sum is not constant")
        axis = normal_axis(int(np.asarray(given).reshape(-1)[0]), len(indices))
        own = 0 if step.attrs["exclusive"] else 1
        first, extent = self.world.zero, arena.shift(indices[axis], own)
        if step.attrs["reverse"]:
            first = arena.shift(indices[axis], 1 - own)
            extent = arena.sub(self.shape(x)[axis], first)
        position = self.world.folds.placeholder()
        element = self.at(x, (*indices[:axis], arena.add(first, position), *indices[axis + 1 :]))
        return self._closed(kind, position, element, extent)

    def _closed(self, kind: str, position: Node, body: Node, extent: Node) -> Node:
        start = self.world.arena.number(0 if kind == "sum" else 1, body.sort)
        return self.world.folds.close(kind, position, body, start, extent)

    # Formulas

    def _by_formula(self, step: Step, indices: At, dtype: str) -> Node:
        """The op's own formula, where it is over elements of one type."""
        facts = self.program.facts
        values = tuple(facts[name].value if name else None for name in step.inputs)
        tensors = [
            formula.tensor(name, *self.program.type(name).dims) if name else None for name in step.inputs
        ]
        for name, value in zip(step.inputs, values):
            if name and value is None and self.dtype(name) != dtype:
                raise Malformed(f"the op '{step.op}' mixes element types")
        try:
            found = step.definition.formula(Symbolic(step.attrs, tuple(tensors), values, len(step.outputs)))[
                0
            ]
        except ProgramError as error:
            raise Malformed(f"the op '{step.op}' has no formula: {error}") from error
        sort = operators.sort_of(scalar_of(dtype))
        scope = {**self.world.scope, **dict(zip(found.indices, indices, strict=True))}
        return self._expression(found.body, scope, sort)

    def _expression(self, expr: formula.Expr, scope: Scope, sort: Sort) -> Node:
        arena, world = self.world.arena, self.world
        match expr:
            case formula.Num(number):
                return arena.number(Fraction(number), sort)
            case formula.Size(poly):
                node = world.poly(poly, scope)
                return arena.real(node) if sort == "Real" else node
            case formula.Read(name, indices):
                return self.at(name, [world.poly(index, scope) for index in indices])
            case formula.Call("add", args):
                return arena.add(*(self._expression(arg, scope, sort) for arg in args))
            case formula.Call("mul", args):
                return join(arena.mul, [self._expression(arg, scope, sort) for arg in args])
            case formula.Pow(base, exponent) if exponent.denominator == 1:
                inner = self._expression(base, scope, sort)
                power = arena.power(inner, abs(exponent.numerator))
                return power if exponent > 0 else operators.inverse(arena, power)
            case formula.Choose(conditions, then, otherwise):
                inside = world.at_least(conditions, scope)
                sides = (self._expression(side, scope, sort) for side in (then, otherwise))
                return arena.ite(inside, *sides)
            case formula.Reduce(_, var, extent, body) if extent == 1:
                return self._expression(body, {**scope, var: world.zero}, sort)
            case formula.Reduce():
                return self._reduce(expr, scope, sort)
            case formula.Call(function, args) if function in _CALLS:
                inner_args = [self._expression(arg, scope, sort) for arg in args]
                return operators.apply(arena, _CALLS[function], inner_args, Scalar("float", 64))
        raise Malformed("a formula has no meaning here")

    def _reduce(self, expr: formula.Reduce, scope: Scope, sort: Sort) -> Node:
        """Sums from 0; maxima from the first element, which must be there, or what they are joined to."""
        arena, folds = self.world.arena, self.world.folds
        extent = self.world.poly(expr.extent, scope)
        if expr.kind in ("sum", "prod"):
            position = folds.placeholder()
            body = self._inside(position, extent, expr.body, {**scope, expr.var: position}, sort)
            return self._closed(expr.kind, position, body, extent)
        self.demand("a reduction has elements", arena.claim(extent, arena.number(1, "Int")))
        start = self._expression(expr.body, {**scope, expr.var: self.world.zero}, sort)

        def from_(first: Node, begin: int) -> Node:
            """The extreme of a first value and of the elements from `begin` on."""
            position, count = folds.placeholder(), arena.shift(extent, -begin)
            at = {**scope, expr.var: arena.shift(position, begin)}
            body = self._inside(position, count, expr.body, at, sort)
            return folds.close(expr.kind, position, body, first, count)

        found = from_(start, 1)
        self._extremes[found] = Extreme(expr.kind, start, from_)
        return found

    def _inside(self, position: Node, extent: Node, body: formula.Expr, scope: Scope, sort: Sort) -> Node:
        """A body at a position that is known to lie below the extent."""
        known = len(self.world.arena.known)
        self.world.arena.assume(self.world.arena.shift(self.world.arena.sub(extent, position), -1))
        node = self._expression(body, scope, sort)
        self.world.arena.forget(known)
        return node
