"""Does no row of a decoder's values depend on a later token? Shown for texts of every length, or not.

A value's rows are its axes whose size is made of the number of tokens. An element is settled where it is the
same in every text that begins with the tokens up to its last row, however long the text. Whether all elements
of a value are, its op's formula tells: what it reads must be settled and lie no later, and of a sum or
maximum over all rows the later terms must be what joining leaves as it is, as behind a causal mask.

That is so for real numbers of which none is infinite but in masks, and exp(-inf) is 0. What else is taken for
granted is said in a sentence each (`Causality.assumed`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from tensmith.errors import ProgramError
from tensmith.formula.arith import FUNCTIONS, RELATIONS, Array
from tensmith.formula.bounds import Ranges
from tensmith.formula.expr import Call, Choose, Expr, Formula, Num, Pow, Read, Reduce, Size, fresh, substitute
from tensmith.formula.functions import MIRRORED
from tensmith.formula.poly import Dim, Poly, split_multiple
from tensmith.formula.types import MachineType
from tensmith.ir import Node, Program
from tensmith.ir.elements import Elements
from tensmith.ir.ops.softmax import LEFT_OUT, MASKED
from tensmith.rewrite.token_rows import TokenRows

SOME_LEFT = "of no row the inputs leave out all tokens up to it, as padding alone would"


@dataclass(frozen=True)
class Late:
    """An element that is not known to be settled, and why."""

    reason: str


class Settled(Enum):
    """Some number, settled. What may stand for minus infinity is OPEN where inputs decide that, VEILED where
    its place does and both are possible; so are truth values that its place decides."""

    SETTLED = "settled"
    OPEN = "settled, left out by some inputs"
    VEILED = "settled, left out at some places"


SETTLED, OPEN, VEILED = Settled.SETTLED, Settled.OPEN, Settled.VEILED
# A number, a position or size, or else what is known of it.
Element: TypeAlias = float | Poly | Settled | Late

_NEUTRAL = {"sum": 0.0, "prod": 1.0, "max": -np.inf, "min": np.inf}
_ARITHMETIC: dict[str, Callable[..., Any]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "neg": np.negative,
    "and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor, "not": np.logical_not,
    **RELATIONS, **FUNCTIONS,
}  # fmt: skip
_WHOLE: dict[str, Callable[..., Poly]] = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b, "neg": lambda a: -a,
}  # fmt: skip
# Elements of a constant that are looked at.
_MOST = 1 << 24
# What makes a result whatever the other operand is.
_ABSORBING = {"mul": 0.0, "and": 0.0, "or": 1.0}


@dataclass
class Causality:
    """What is known of a program of tokens. assumed: what was taken for granted, a sentence each."""

    rows: TokenRows
    assumed: set[str] = field(default_factory=set)
    _found: dict[str, Late | None] = field(default_factory=dict)
    _subscripts: set[str] = field(default_factory=set)
    _axes: dict[str, dict[int, Poly]] = field(default_factory=dict)

    @staticmethod
    def of(program: Program) -> Causality:
        """ModelError where the program does not read tokens [batch, length]."""
        return Causality(TokenRows(program))

    @cached_property
    def late(self) -> str:
        """Why a value that outputs depend on may depend on later tokens, by its node; "" if none does."""
        needed = {self.rows.tokens, *self.program.outputs}
        for node in reversed(self.program.nodes):
            if needed.intersection(node.outputs):
                needed.update(node.inputs)
        reasons = []
        for node in self.program.nodes:
            for value in filter(needed.intersection(self.rows.told).__contains__, node.outputs):
                found = self._found[value] = self._settled(value)
                reasons += [] if found is None else [f"{node.label}: {found.reason}"]
        return next(iter(reasons), "")

    @property
    def program(self) -> Program:
        """The program."""
        return self.rows.program

    @cached_property
    def length(self) -> Poly:
        """The number of tokens."""
        return Poly.symbol(self.rows.length)

    def why_late(self, value: str) -> Late | None:
        """None of a value whose elements are all settled, as far as `late` has come."""
        return self._found.get(value)

    def axes(self, value: str) -> dict[int, Poly]:
        """The axes of rows of a value, and how many times all rows lie along each.

        ProgramError where rows lie there with something else.
        """
        if value in self._axes:
            return self._axes[value]
        found: dict[int, Poly] = {}
        for axis in self.rows.axes(value):
            size = Poly.of(self.program.type(value).dims[axis])
            found[axis], rest = split_multiple(size, self.length)
            if rest.terms or self.counts(found[axis]):
                raise ProgramError(f"'{value}' has an axis of {size}")
        self._axes[value] = found
        return found

    def counts(self, number: Poly) -> bool:
        """Whether a number may be made of the number of tokens, or of what they are: all that is no subscript
        and no other size of an input."""
        return not number.symbols() <= self._subscripts | self._sizes

    def subscript(self, kind: str) -> str:
        """The name of a new one."""
        name = fresh(kind)
        self._subscripts.add(name)
        return name

    @cached_property
    def _sizes(self) -> frozenset[str]:
        dims = (Poly.of(dim) for type_ in self.program.inputs.values() for dim in type_.dims)
        return frozenset(symbol for dim in dims for symbol in dim.symbols()) - {self.rows.length}

    def _settled(self, value: str) -> Late | None:
        """None where every element of a value is settled: those whose last row is along one axis, and along
        the next."""
        try:
            rows = {axis: Poly.symbol(self.subscript("row")) for axis in self.axes(value)}
            for last in rows.values() or [Poly.of(-1)]:
                found = self._element(value, rows, last)
                if isinstance(found, Late):
                    return found
                if isinstance(found, Poly) and self.counts(found):
                    return Late("it is made of the number of tokens")
        except ProgramError as error:
            return Late(str(error))
        return None

    def _element(self, value: str, rows: dict[int, Poly], last: Poly) -> Element:
        extents: dict[str, Poly] = {}
        at: list[Poly] = []
        times = self.axes(value)
        for axis, size in enumerate(self.program.type(value).dims):
            if size == 1:
                at.append(Poly.of(0))
                continue
            other = self.subscript("at")
            if axis not in rows:
                extents[other] = Poly.of(size)
                at.append(Poly.symbol(other))
                continue
            (name,) = rows[axis].symbols()
            extents[name] = self.length if rows[axis] == last else last + 1
            at.append(rows[axis])
            if times[axis] != 1:
                extents[other] = times[axis]
                at[-1] = Poly.symbol(other) * self.length + rows[axis]
        return _Elements(self, Ranges(extents), [*rows.values()], last).element(value, tuple(at))


@dataclass(eq=False)
class _Elements(Elements[Element, Poly]):
    """Elements at subscripts of which `ranges` are known, some `of_rows`; the `last` of these is that up to
    which elements are settled."""

    of: Causality
    ranges: Ranges
    of_rows: Sequence[Poly]
    last: Poly

    def __post_init__(self) -> None:
        self.program, self.zero = self.of.program, Poly.of(0)

    # Leaves

    def at(self, value: str, indices: Sequence[Poly]) -> Element:
        """See Elements."""
        indices = [self.ranges.simplify(index) for index in indices]
        if value in self.program.constants:
            return self._constant(value, indices)
        if value not in self.of.rows.told:
            return self.element(value, tuple(indices))
        late = self.of.why_late(value)
        rows = [self._row(indices[axis], times) for axis, times in self.of.axes(value).items()]
        found: Element = SETTLED
        if len(rows) > 1 and value in self.program.producers:
            found = self.element(value, tuple(indices))
            if _number(found) is not None:
                return found
        if late is None and rows and all(self._surely(self.last - row) for row in rows):
            return found if isinstance(found, Settled) else SETTLED
        return late or Late(f"it reads rows of '{value}' that may be later ones")

    def _row(self, index: Poly, times: Poly) -> Poly:
        return index if times == 1 else self.ranges.simplify(index % self.of.length)

    def _constant(self, value: str, indices: Sequence[Poly]) -> Element:
        """A number where all elements that may be meant are the same."""
        if any(map(self.of.counts, indices)):
            return Late(f"which element of '{value}' it reads depends on the number of tokens")
        meant = array = self.program.constants[value]
        if array.dtype.kind not in "iufb" or not 0 < array.size <= _MOST:
            return SETTLED
        for axis, index in enumerate(indices):
            if index.constant is not None:
                meant = np.take(meant, [index.constant], axis)
        for a, b in ((a, b) for a in range(array.ndim) for b in range(array.ndim) if a != b):
            apart = self._least(indices[b] - indices[a]) if meant.shape[a] > 1 < meant.shape[b] else None
            if apart is not None:
                places = np.indices(meant.shape, sparse=True)
                kept = np.broadcast_to(places[b] - places[a] >= apart, meant.shape)
                return _same(meant[kept])
        return _same(meant)

    def _least(self, apart: Poly) -> int | None:
        """What a distance is at least, if it is at least its constant term, above 0."""
        least = next((c for monomial, c in apart.terms if not monomial), 0)
        return least if least > 0 and self._surely(apart - least) else None

    def literal(self, value: bool | int | float, dtype: MachineType) -> Element:
        """See Elements."""
        return Poly.of(int(value)) if isinstance(value, (bool, int)) else float(value)

    def size(self, size: Dim, dtype: MachineType) -> Element:
        """See Elements."""
        return Poly.of(size)

    # Numbers

    def apply(self, function: str, args: tuple[Element, ...], node: Node) -> Element:
        """See Elements."""
        whole = self.dtype(node.output)[0] in "iu"
        return self._mixed(args) if function == "div" and whole else self._called(function, args)

    def cast(self, x: Element, node: Node) -> Element:
        """See Elements."""
        number, dtype = _number(x), self.dtype(node.output)
        if number is None:
            wide = dtype in ("i64", "i32", "f64", "f32")
            return x if isinstance(x, Poly) and wide else self._mixed((x,))
        if dtype == "bool":
            return Poly.of(int(number != 0))
        return Poly.of(int(number)) if dtype[0] in "iu" and np.isfinite(number) else x

    def _called(self, function: str, args: Sequence[Element]) -> Element:
        if function in MIRRORED:
            function, args = MIRRORED[function], tuple(reversed(args))
        if function == "where":
            return self._where(*args)
        whole = [arg for arg in args if isinstance(arg, Poly)]
        if len(whole) == len(args) and function in _WHOLE:
            found = whole[0]
            for other in whole[1:]:
                found = _WHOLE[function](found, other)
            return _WHOLE[function](found) if len(whole) == 1 else found
        if len(whole) == len(args) == 2 and function in ("less", "less_equal", "equal"):
            holds = self._related(function, *whole)
            return self._mixed((VEILED, *args)) if holds is None else Poly.of(int(holds))
        numbers = [_number(arg) for arg in args]
        known = [number for number in numbers if number is not None]
        if function in _ARITHMETIC and len(known) == len(args):
            with np.errstate(all="ignore"):
                compute = _ARITHMETIC[function]
                number = float(functools.reduce(compute, known) if len(known) > 1 else compute(*known))
            return SETTLED if np.isnan(number) else number
        if function == "exp" and isinstance(args[0], Settled):
            return SETTLED
        if function in _ABSORBING and _ABSORBING[function] in numbers:
            return _ABSORBING[function]
        if function in ("add", "sub") and self._left_out(numbers[:1] if function == "sub" else numbers):
            return -np.inf
        return self._mixed(args)

    def _left_out(self, numbers: Iterable[float | None]) -> bool:
        """Whether one of the terms of a sum stands for minus infinity."""
        known = [number for number in numbers if number is not None]
        found = any(number <= LEFT_OUT for number in known) and np.inf not in known
        if found and -np.inf not in known:
            self.of.assumed.add(MASKED)
        return found

    def _where(self, condition: Element, then: Element, otherwise: Element) -> Element:
        number = _number(condition)
        if number is not None:
            return then if number else otherwise
        return self._either(condition, then, otherwise)

    def _either(self, condition: Element, then: Element, otherwise: Element) -> Element:
        """One of two, by a condition that is open."""
        if _equal(then, otherwise):
            return then
        found = self._mixed((condition, then, otherwise))
        if found is VEILED and condition is VEILED:
            found = self._mixed((then, otherwise))
        numbers = [number for number in map(_number, (then, otherwise)) if number is not None]
        if isinstance(found, Settled) and any(number <= LEFT_OUT for number in numbers):
            return VEILED if condition is VEILED else OPEN
        return found

    def _related(self, relation: str, a: Poly, b: Poly) -> bool | None:
        """Whether a < b, a <= b or a = b; None where that is not known."""
        if relation == "equal":
            if a == b:
                return True
            return False if self._surely(a - b - 1) or self._surely(b - a - 1) else None
        strict = int(relation == "less")
        if self._surely(b - a - strict):
            return True
        return False if self._surely(a - b - 1 + strict) else None

    def _mixed(self, args: Collection[Element]) -> Element:
        """Some number made of others."""
        for arg in args:
            if isinstance(arg, Late):
                return arg
            if isinstance(arg, Poly) and self.of.counts(arg):
                return Late("it computes with the number of tokens")
        return VEILED if VEILED in args else OPEN if OPEN in args else SETTLED

    # Choices, folds

    def choose(
        self,
        conditions: Sequence[Poly],
        then: Callable[[], Element],
        otherwise: Callable[[], Element],
        dtype: MachineType,
    ) -> Element:
        """See Elements."""
        if any(self._surely(-condition - 1) for condition in conditions):
            return otherwise()
        open_ = [condition for condition in conditions if not self._surely(condition)]
        if not open_:
            return then()
        late = self._mixed(open_)
        return self._either(late if isinstance(late, Late) else VEILED, then(), otherwise())

    def pick(self, node: Node, index: Element, size: Dim, read: Callable[[Poly], Element]) -> Element:
        """See Elements."""
        if isinstance(index, Late):
            return index
        number = _number(index)
        place = Poly.of(int(number)) if number is not None else index
        if isinstance(place, Poly):
            if self.of.counts(place):
                return Late(f"what it reads of '{node.inputs[0]}' depends on the number of tokens")
            if self._surely(place):
                return read(place)
            if self._surely(-place - 1):
                return read(place + size)
        if self.of.counts(Poly.of(size)):
            return Late(f"it reads '{node.inputs[0]}' from the back, if what it reads at is negative")
        return read(Poly.symbol(self.of.subscript("any")))

    def fold(self, kind: str, count: Poly, element: Callable[[Poly], Element], node: Node) -> Element:
        """See Elements."""
        name, rows = self.of.subscript("k"), self.of.length
        k, up_to = Poly.symbol(name), self.last + 1
        if not self.of.counts(count):
            with self._inside(name, count):
                found = element(k)
            return _NEUTRAL[kind] if self._neutral(kind, found) else self._mixed((found,))
        if count != rows:
            return Late(f"{node.label} joins {count} terms")
        with self._inside(name, rows - up_to):
            later = element(up_to + k)
        if not self._neutral(kind, later):
            return later if isinstance(later, Late) else Late("it joins all rows")
        if up_to == 0:
            return _NEUTRAL[kind]
        with self._inside(name, up_to):
            found = element(k)
        if kind == "max":
            return self._largest([element(row) for row in self.of_rows], found)
        return _NEUTRAL[kind] if self._neutral(kind, found) else self._mixed((found,))

    def _largest(self, own: Sequence[Element], some: Element) -> Element:
        """The maximum of a row of which only places up to its own count: one of `own`, at the subscripts of
        rows, must not be left out, or the row is told by the others."""
        numbers = [number for number in map(_number, own) if number is not None]
        if SETTLED not in own and max(numbers, default=-np.inf) <= LEFT_OUT:
            if OPEN not in own:
                return Late("it may leave out all tokens of a row")
            self.of.assumed.add(SOME_LEFT)
        return some if isinstance(some, Late) else SETTLED

    def _neutral(self, kind: str, x: Element) -> bool:
        """Whether joining a term leaves everything as it is."""
        number = _number(x)
        if number is None:
            return False
        return number == _NEUTRAL[kind] or (kind == "max" and self._left_out([number]))

    @contextmanager
    def _inside(self, name: str, extent: Poly) -> Iterator[None]:
        """With one more subscript, below an extent."""
        before = self.ranges
        self.ranges = before.having([(name, extent)])
        try:
            yield
        finally:
            self.ranges = before

    def read_formula(self, formula: Formula, indices: Sequence[Poly], node: Node) -> Element:
        """See Elements."""
        return self._value(formula[tuple(indices)], node)

    def _value(self, expr: Expr, node: Node) -> Element:
        match expr:
            case Num(value):
                return Poly.of(int(value)) if value == int(value) else float(value)
            case Size(poly):
                return poly
            case Read(name, indices):
                return self.at(name, indices)
            case Pow(base, exponent):
                found = self._value(base, node)
                return self._called("pow", (found, float(exponent)))
            case Choose(conditions, then, otherwise):
                ways = (lambda: self._value(then, node)), (lambda: self._value(otherwise, node))
                return self.choose(conditions, *ways, self.dtype(node.output))
            case Call(function, args):
                return self._called(function, [self._value(arg, node) for arg in args])
            case Reduce(kind, var, extent, body, _, _, None):
                return self.fold(kind, extent, lambda k: self._value(substitute(body, {var: k}), node), node)
        raise self.refuse(node, f"a {type(expr).__name__} in its formula")

    def refuse(self, node: Node, reason: str) -> Exception:
        """See Elements."""
        return ProgramError(reason)

    # Subscripts

    def index(self, size: Dim) -> Poly:
        """See Elements."""
        return Poly.of(size)

    def plus(self, a: Poly, b: Poly) -> Poly:
        """See Elements."""
        return a + b

    def minus(self, a: Poly, b: Poly) -> Poly:
        """See Elements."""
        return a - b

    def fixed(self, index: Poly) -> int | None:
        """See Elements."""
        return index.constant

    def below(self, index: Poly, bound: Poly) -> Poly:
        """See Elements: a number that is 0 or more where that holds."""
        return bound - index - 1

    def reaches(self, index: Poly, bound: Poly) -> Poly:
        """See Elements: a number that is 0 or more where that holds."""
        return index - bound

    def _surely(self, number: Poly) -> bool:
        """Whether it is 0 or more, for all subscripts in range and all sizes."""
        return self.ranges.never_negative(self.ranges.simplify(number))


def _same(numbers: Array) -> Element:
    """The number that all of an array are, as an element."""
    if not numbers.size or not (numbers == numbers.flat[0]).all():
        return SETTLED
    found = numbers.flat[0].item()
    return float(found) if isinstance(found, float) else Poly.of(int(found))


def _equal(a: Element, b: Element) -> bool:
    return isinstance(a, (float, Poly)) and type(a) is type(b) and a == b


def _number(x: Element) -> float | None:
    """The number that an element is."""
    if isinstance(x, Poly):
        return None if x.constant is None else float(x.constant)
    return x if isinstance(x, float) else None
