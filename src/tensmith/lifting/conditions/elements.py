"""The elements of a tensor program as nodes: what each op computes at an index, from its meaning or formula.

Ring operations of 32 and 64 bit integers are mathematical, as they agree modulo 2^bits whatever is in
between. Where one leaves the ring (it is compared, divided, widened) it must fit its type: by the ranges of
what it is made of, or as a value that the summary computes too, so that the source has no overflow there. Any
other is wrapped, and then rarely proved.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from functools import reduce as join
from typing import TypeVar

import numpy as np

from tensmith.formula.expr import Call, Choose, Expr, Formula, Num, Pow, Read, Reduce, Size
from tensmith.formula.functions import BITWISE, ELEMENTARY, EXTREMES, JOINS, MIRRORED, RELATIONS
from tensmith.formula.poly import Dim, Poly
from tensmith.formula.types import F64, I32, I64, MachineType
from tensmith.ir import Node as Step
from tensmith.ir.elements import Elements
from tensmith.ir.tensors import neutral
from tensmith.ir.types import DTYPES
from tensmith.lifting.assumptions import REGROUPED
from tensmith.lifting.conditions import operators
from tensmith.lifting.conditions.memory import ArrayMemory
from tensmith.lifting.conditions.nodes import ProofTerm, Sort
from tensmith.lifting.conditions.state import At
from tensmith.lifting.conditions.world import Malformed, ProofWorld, Scope
from tensmith.lifting.lifted import ArrayView, Lifted
from tensmith.lifting.ranges import MOST_ELEMENTS, Interval, floored, unbounded

T = TypeVar("T")
# The scalar functions that mean something here.
_FUNCTIONS = RELATIONS | EXTREMES | BITWISE | {
    *ELEMENTARY, "add", "sub", "mul", "div", "mod", "fmod", "neg", "abs", "and", "or", "not", "where",
    "left_shift", "right_shift", "pow", "floor", "ceil", "round",
}  # fmt: skip
# What the formulas of other ops may call.
_CALLED = frozenset({"maximum", "minimum", "less", "less_equal", "equal", "abs", "where"})
_MOST_CONSTANTS = 64


@dataclass(frozen=True)
class ExtremeFold:
    """A maximum or minimum over elements 0, 1, ...: the first, and the extreme of a value and those from
    element n on."""

    kind: str
    first: ProofTerm
    joined: Callable[[ProofTerm, int], ProofTerm]


@dataclass
class ProofElements(Elements[ProofTerm, ProofTerm]):
    """The values of a program at an index."""

    world: ProofWorld
    lifted: Lifted
    memories: Mapping[str, ArrayMemory]
    demand: Callable[[str, ProofTerm], None]
    # By what was known when they were made.
    _made: dict[tuple[str, At, At], ProofTerm] = field(default_factory=dict)
    _places: dict[tuple[ArrayView, At], tuple[At, At, ProofTerm]] = field(default_factory=dict)
    _extremes: dict[ProofTerm, ExtremeFold] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.program, self.zero = self.lifted.program, self.world.zero
        self.inputs = {given.name: given for given in self.lifted.inputs}
        positions = Interval(0, MOST_ELEMENTS - 1)
        counted = {name: positions for name, given in self.inputs.items() if given.positions is not None}
        self.unbounded = unbounded(self.program, counted)

    def shape(self, value: str) -> At:
        """The extents of a value."""
        return tuple(map(self.index, self.dims(value)))

    def refuse(self, node: Step, reason: str) -> Malformed:
        """See Elements."""
        return Malformed(f"the op '{node.op}' has no meaning here: {reason}")

    def at(self, value: str, indices: Sequence[ProofTerm]) -> ProofTerm:
        """The element at an index."""
        key = (value, tuple(indices), tuple(self.world.arena.known))
        if key not in self._made:
            self._made[key] = self._define(value, key[1])
        return self._made[key]

    def _define(self, value: str, indices: At) -> ProofTerm:
        if value in self.inputs:
            return self._input(value, indices)
        if value in self.program.constants:
            return self._constant(value, indices)
        made = self.program.producers[value]
        if made.op == "slice":
            self._demand_inside(made)
        node = self.element(value, indices)
        dtype = self.dtype(value)
        narrow = dtype[0] in "iu" and (dtype[0] == "u" or dtype in ("i8", "i16"))
        shifts = made.op == "bit_shift" and made.attrs["direction"] == "LEFT"
        wraps = narrow and (made.traits.ring or shifts)
        return operators.wrap(self.world.arena, node, dtype) if wraps else node

    def _demand_inside(self, node: Step) -> None:
        """What the type of a slice says: that its first and last place lie in what it cuts."""
        x, *bounds = node.inputs
        if len(bounds) != 3 or not self.program.constants.keys() >= {*bounds}:
            raise self.refuse(node, "it has steps, or bounds that are computed")
        starts, _, axes = (self.program.constants[name].tolist() for name in bounds)
        arena, sizes, left = self.world.arena, self.shape(x), self.shape(node.output)
        rest = [arena.shift(arena.sub(sizes[axis], left[axis]), -start) for axis, start in zip(axes, starts)]
        firsts = [arena.number(start, "Int") for start in starts]
        self.demand(
            "a slice lies inside", arena.all(arena.claim(p, self.zero) for p in (*firsts, *rest, *left))
        )

    # Leaves

    def _input(self, name: str, indices: At) -> ProofTerm:
        given = self.inputs[name]
        if given.view is not None:
            return self.world.read(given.view.array, self.place(given.view, indices)[0])
        if given.scalar is not None:
            return self.world.scalars[given.scalar][0]
        return indices[0]

    def place(self, view: ArrayView, indices: At) -> tuple[At, ProofTerm]:
        """The grid subscripts of an element of a view, and what makes them its place."""
        key = (view, tuple(self.world.arena.known))
        if key not in self._places:
            self._places[key] = self._place(view)
        symbols, digits, same = self._places[key]
        values = dict(zip(symbols, indices, strict=True))
        return tuple(self.world.arena.substitute(digit, values) for digit in digits), same

    def _place(self, view: ArrayView) -> tuple[At, At, ProofTerm]:
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

    def _constant(self, name: str, indices: At) -> ProofTerm:
        array, arena = self.program.constants[name], self.world.arena
        dtype = self.dtype(name)
        if array.size == 1:
            return self.literal(array.reshape(-1)[0].item(), dtype)
        if array.size == 0 or array.size > _MOST_CONSTANTS:
            raise Malformed("a constant tensor is too large")
        result: ProofTerm | None = None
        for place in reversed(list(np.ndindex(array.shape))):
            here = arena.all(arena.eq(i, arena.number(p, "Int")) for i, p in zip(indices, place))
            element = self.literal(array[place].item(), dtype)
            result = element if result is None else arena.ite(here, element, result)
        assert result is not None
        return result

    def literal(self, value: bool | int | float, dtype: MachineType) -> ProofTerm:
        """See Elements."""
        if isinstance(value, float) and math.isnan(value):
            return self.world.arena.symbol("not.a.number", "Real")
        return operators.constant(self.world.arena, value, dtype)

    def infinity(self, positive: bool) -> ProofTerm:
        """Above or below all numbers."""
        return operators.infinity(self.world.arena, positive)

    # Numbers

    def size(self, size: Dim, dtype: MachineType) -> ProofTerm:
        """See Elements."""
        return self.index(size)

    def knows(self, function: str) -> bool:
        """See Elements."""
        return function in _FUNCTIONS

    def operands(self, node: Step, indices: Sequence[ProofTerm]) -> At:
        """See Elements: whole values, where they leave the ring."""
        dividend = floored(self.program, node)
        names = node.inputs if dividend is None else (dividend, node.inputs[1])
        found = tuple(self.broadcast(name, indices) for name in names if name)
        return found if node.modular else tuple(map(self._solid, names, found))

    def apply(self, function: str, args: At, node: Step) -> ProofTerm:
        """See Elements."""
        arena, dtype = self.world.arena, self.dtype(node.output)
        if function in EXTREMES:
            first, second = args
            return self._ordered(function, first, second, dtype)
        if floored(self.program, node) is not None:
            function = "floor_div"
        if function == "div" and dtype.kind == "int" and (whole := operators.divided(arena, *args)):
            return whole  # programs refuse to divide by 0
        turned = args[::-1] if function in MIRRORED else args
        return operators.apply(arena, MIRRORED.get(function, function), turned, dtype)

    def _ordered(self, op: str, a: ProofTerm, b: ProofTerm, dtype: MachineType) -> ProofTerm:
        unit = self.infinity(op == "minimum")
        if unit in (a, b):
            return b if a is unit else a
        limits = dtype.limits
        for value, node in ((a, b), (b, a)):
            extreme = self._extremes.get(node)
            if extreme is None or JOINS[extreme.kind] != op:
                continue
            first = extreme.first
            if first is unit or (limits and first.constant == limits[op == "minimum"]):
                return extreme.joined(value, 1)
            if first.constant is None:
                return extreme.joined(value, 0)
        return operators.apply(self.world.arena, op, (a, b), dtype)

    def _solid(self, name: str, node: ProofTerm) -> ProofTerm:
        """What leaves the ring: as it is if it fits its type, or if the summary computes it too."""
        return self._exact(node, self.dtype(name)) if name in self.unbounded else node

    def _exact(self, node: ProofTerm, dtype: MachineType) -> ProofTerm:
        arena = self.world.arena
        if dtype not in (I32, I64):
            return node
        known = self.world.computed(node, dtype)
        if known is not None:
            return known
        if node.op == "ite":
            condition, a, b = node.args
            return arena.ite(condition, self._exact(a, dtype), self._exact(b, dtype))
        read = node.op != "poly" or node.constant is not None
        assumed = REGROUPED() in self.lifted.assumes and operators.position(node)
        return node if read or assumed else operators.wrap(arena, node, dtype)

    def cast(self, x: ProofTerm, node: Step) -> ProofTerm:
        """See Elements."""
        (name,) = node.inputs
        source, target = self.dtype(name), self.dtype(node.output)
        narrows = (target.bits or 64) <= (source.bits or 64)
        if not (target.kind == "int" and source.kind == "int" and narrows):
            x = self._solid(name, x)
        return operators.cast(self.world.arena, x, source, target, True)

    def choose(
        self,
        conditions: Sequence[ProofTerm],
        then: Callable[[], ProofTerm],
        otherwise: Callable[[], ProofTerm],
        dtype: MachineType,
    ) -> ProofTerm:
        """See Elements."""
        arena = self.world.arena
        return arena.ite(arena.all(conditions), then(), otherwise())

    def pick(
        self, node: Step, index: ProofTerm, size: Dim, read: Callable[[ProofTerm], ProofTerm]
    ) -> ProofTerm:
        """See Elements."""
        made = self.program.producers.get(node.inputs[0])
        padded = made is not None and made.op == "pad"
        return self._picked(self._solid(node.inputs[1], index), size, read, padded)

    def _picked(
        self, index: ProofTerm, size: Dim, read: Callable[[ProofTerm], ProofTerm], padded: bool
    ) -> ProofTerm:
        """What is read at a subscript. Of what is padded, where one side of a choice may lie behind the rest,
        by sides."""
        arena = self.world.arena
        if padded and index.op == "ite":
            return arena.ite(index.args[0], *self._sides(index, lambda i: self._picked(i, size, read, True)))
        ahead = arena.true if self._ahead(index) else arena.ge(index, self.zero)
        return read(arena.ite(ahead, index, arena.add(index, self.index(size))))

    def _ahead(self, index: ProofTerm) -> bool:
        """Whether an index is chosen among such that are not negative where they are."""
        if index.op != "ite" or index in self.world.arena.known:
            return index in self.world.arena.known or self.world.arena.never_negative(index)
        return all(self._sides(index, self._ahead))

    def _sides(self, index: ProofTerm, make: Callable[[ProofTerm], T]) -> list[T]:
        """What is made of the sides of a choice, knowing when each is chosen."""
        arena, (condition, *sides), found = self.world.arena, index.args, list[T]()
        for holds, side in zip((condition, arena.negate(condition)), sides, strict=True):
            known = len(arena.known)
            facts = holds.args if holds.op == "and" else (holds,)
            arena.assume(*(f.args[0] for f in facts if f.op == "ge0" and f.args[0].sort == "Int"))
            found.append(make(side))
            arena.forget(known)
        return found

    def fold(
        self, kind: str, count: ProofTerm, element: Callable[[ProofTerm], ProofTerm], node: Step
    ) -> ProofTerm:
        """See Elements; where there is a last, it is joined by itself, as loops do."""
        arena, folds, dtype = self.world.arena, self.world.folds, self.dtype(node.output)
        before = count if node.attrs["exclusive"] else arena.shift(count, -1)
        position = folds.placeholder()
        body = element(position)
        unit = self.literal(neutral(kind, DTYPES[dtype]), dtype)
        total = folds.close(kind, position, body, unit, before)
        last = None if before is count else element(before)

        def joined(total: ProofTerm) -> ProofTerm:
            return total if last is None else operators.apply(arena, JOINS[kind], (total, last), dtype)

        found = joined(total)
        if kind in ("max", "min"):
            again = partial(folds.fold, kind, position, body)
            self._extremes[found] = ExtremeFold(kind, unit, lambda first, _: joined(again(first, before)))
        return found

    def _closed(self, kind: str, position: ProofTerm, body: ProofTerm, extent: ProofTerm) -> ProofTerm:
        start = self.world.arena.number(0 if kind == "sum" else 1, body.sort)
        return self.world.folds.close(kind, position, body, start, extent)

    # Subscripts

    def index(self, size: Dim) -> ProofTerm:
        """See Elements."""
        return self.world.poly(Poly.of(size), self.world.scope)

    def plus(self, a: ProofTerm, b: ProofTerm) -> ProofTerm:
        """See Elements."""
        return self.world.arena.add(a, b)

    def minus(self, a: ProofTerm, b: ProofTerm) -> ProofTerm:
        """See Elements."""
        return self.world.arena.sub(a, b)

    def fixed(self, index: ProofTerm) -> int | None:
        """See Elements."""
        return None if index.constant is None else int(index.constant)

    def below(self, index: ProofTerm, bound: ProofTerm) -> ProofTerm:
        """See Elements."""
        return self.world.arena.gt(bound, index)

    def reaches(self, index: ProofTerm, bound: ProofTerm) -> ProofTerm:
        """See Elements."""
        return self.world.arena.ge(index, bound)

    # Formulas

    def read_formula(self, formula: Formula, indices: Sequence[ProofTerm], node: Step) -> ProofTerm:
        """See Elements."""
        scope = {**self.world.scope, **dict(zip(formula.indices, indices, strict=True))}
        return self._expression(formula.body, scope, operators.sort_of(self.dtype(node.output)))

    def _expression(self, expr: Expr, scope: Scope, sort: Sort) -> ProofTerm:
        arena, world = self.world.arena, self.world
        match expr:
            case Num(number):
                return arena.number(Fraction(number), sort)
            case Size(poly):
                node = world.poly(poly, scope)
                return arena.real(node) if sort == "Real" else node
            case Read(name, indices):
                return self.at(name, [world.poly(index, scope) for index in indices])
            case Call("add", args):
                return arena.add(*(self._expression(arg, scope, sort) for arg in args))
            case Call("mul", args):
                return join(arena.mul, [self._expression(arg, scope, sort) for arg in args])
            case Pow(base, exponent) if exponent.denominator == 1:
                inner = self._expression(base, scope, sort)
                power = arena.power(inner, abs(exponent.numerator))
                return power if exponent > 0 else operators.inverse(arena, power)
            case Choose(conditions, then, otherwise):
                inside = world.at_least(conditions, scope)
                sides = (self._expression(side, scope, sort) for side in (then, otherwise))
                return arena.ite(inside, *sides)
            case Reduce(_, var, extent, body) if extent == 1:
                return self._expression(body, {**scope, var: world.zero}, sort)
            case Reduce():
                return self._reduce(expr, scope, sort)
            case Call(function, args) if function in _CALLED:
                inner_args = [self._expression(arg, scope, sort) for arg in args]
                return operators.apply(arena, function, inner_args, F64)
        raise Malformed("a formula has no meaning here")

    def _reduce(self, expr: Reduce, scope: Scope, sort: Sort) -> ProofTerm:
        """Sums from 0; maxima from the first element, which must be there, or what they are joined to."""
        arena, folds = self.world.arena, self.world.folds
        extent = self.world.poly(expr.extent, scope)
        if expr.kind in ("sum", "prod"):
            position = folds.placeholder()
            body = self._inside(position, extent, expr.body, {**scope, expr.var: position}, sort)
            return self._closed(expr.kind, position, body, extent)
        self.demand("a reduction has elements", arena.claim(extent, arena.number(1, "Int")))
        start = self._expression(expr.body, {**scope, expr.var: self.world.zero}, sort)

        def from_(first: ProofTerm, begin: int) -> ProofTerm:
            """The extreme of a first value and of the elements from `begin` on."""
            position, count = folds.placeholder(), arena.shift(extent, -begin)
            at = {**scope, expr.var: arena.shift(position, begin)}
            body = self._inside(position, count, expr.body, at, sort)
            return folds.close(expr.kind, position, body, first, count)

        found = from_(start, 1)
        self._extremes[found] = ExtremeFold(expr.kind, start, from_)
        return found

    def _inside(
        self, position: ProofTerm, extent: ProofTerm, body: Expr, scope: Scope, sort: Sort
    ) -> ProofTerm:
        """A body at a position that is known to lie below the extent."""
        known = len(self.world.arena.known)
        self.world.arena.assume(self.world.arena.shift(self.world.arena.sub(extent, position), -1))
        node = self._expression(body, scope, sort)
        self.world.arena.forget(known)
        return node
