"""What is known of an element of a program of tokens, from the formulas of ops: an algebra of ir.elements."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from tensmith.errors import ProgramError
from tensmith.formula.arith import COMPARISONS, FUNCTIONS, Array
from tensmith.formula.bounds import Ranges
from tensmith.formula.expr import Call, Choose, Expr, Formula, Num, Pow, Read, Reduce, Size, substitute
from tensmith.formula.functions import BITWISE, MIRRORED, PREDICATES
from tensmith.formula.poly import Dim, Poly
from tensmith.formula.types import MachineType
from tensmith.ir import Node
from tensmith.ir.elements import PolyElements
from tensmith.ir.ops.softmax import LEFT_OUT
from tensmith.rewrite.tokens.rows import MASK

if TYPE_CHECKING:
    from tensmith.rewrite.tokens.causal import Causality

# From this magnitude on, numbers stand for infinite ones, as masks have them.
_LARGE = -LEFT_OUT
SWALLOWED = "numbers beyond 1e30 stay what they are whatever is added to them, as floats do"
UNPADDED = f"{MASK} is 1 everywhere: no text is padded"


@dataclass(frozen=True)
class Late:
    """An element that is not known to be settled, and why; `unsure` as in Settled."""

    reason: str
    unsure: bool = False


class Settled(Enum):
    """Some number, settled: FINITE as the model's own are, or UNSURE, perhaps a large one of a mask."""

    FINITE = "finite"
    UNSURE = "perhaps infinite"


FINITE, UNSURE = Settled.FINITE, Settled.UNSURE
# A number, a position or size, or else what is known of it.
Element: TypeAlias = float | Poly | Settled | Late

_NEUTRAL = {"sum": 0.0, "prod": 1.0, "max": -np.inf, "min": np.inf}
_ARITHMETIC: dict[str, Callable[..., Any]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "neg": np.negative,
    "and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor, "not": np.logical_not,
    **COMPARISONS,
    **{name: FUNCTIONS[name] for name in FUNCTIONS.keys() - BITWISE - {"left_shift", "right_shift"}},
}  # fmt: skip
_WHOLE: dict[str, Callable[..., Poly]] = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b, "neg": lambda a: -a,
}  # fmt: skip
# Finite whatever they are of; perhaps infinite of finite numbers.
_BOUNDED, _UNBOUNDED = {"exp", "tanh", "erf", *COMPARISONS, *PREDICATES}, {"log", "log1p"}
# Whole numbers of these types hold all positions.
_WIDE = ("i64", "i32")
# The largest constant of which single elements are looked at.
_MOST = 1 << 24


@dataclass(eq=False)
class SettledElements(PolyElements[Element]):
    """Elements at subscripts of which `ranges` are known, some `of_rows`; the `last` of these is that up to
    which elements are settled."""

    typed = False

    of: Causality
    ranges: Ranges
    of_rows: Sequence[Poly]
    last: Poly

    def __post_init__(self) -> None:
        self.program = self.of.program
        # What was found, by value, subscripts and ranges, which are kept so that no others get their id.
        self._known: dict[tuple[str, tuple[Poly, ...], int], Element] = {}
        self._kept = [self.ranges]

    # Leaves

    def at(self, value: str, indices: Sequence[Poly]) -> Element:
        place = tuple(self.ranges.simplify(index) for index in indices)
        if value in self.program.constants:
            return self._constant(value, place)
        if value == MASK and value in self.program.inputs:
            self.of.assumed.add(UNPADDED)
            return Poly.of(1)
        if value not in self.of.rows.told:
            return self._again(value, place)
        state = found = self.of.of_all(value)
        if number_of(state) is not None:
            return state
        times, rows = self.of.axes(value), []
        for axis, index in enumerate(place):
            if axis in times:
                rows.append(self._part(index, times[axis], behind=False))
            if self.of.counts(self._part(index, times[axis], behind=True) if axis in times else index):
                return Late(f"which element of '{value}' it reads depends on the number of tokens", True)
        if len(rows) > 1 and value in self.program.producers:
            found = self._again(value, place)
            if number_of(found) is not None:  # whatever it was made of
                return found
        if not isinstance(state, Late) and rows and all(self._surely(self.last - row) for row in rows):
            return found if isinstance(found, Settled) else state
        reason = f"it reads rows of '{value}' that may be later ones"
        return Late(state.reason if isinstance(state, Late) else reason, is_unsure(found))

    def _part(self, index: Poly, times: Poly, behind: bool) -> Poly:
        """The row of a subscript along blocks of rows, or the block."""
        if times == 1:
            return Poly.of(0) if behind else index
        return self.ranges.simplify(index // self.of.length if behind else index % self.of.length)

    def _again(self, value: str, place: tuple[Poly, ...]) -> Element:
        """An element as its op makes it, which is found once."""
        key = value, place, id(self.ranges)
        if key not in self._known:
            self._known[key] = self.element(value, place)
        return self._known[key]

    def _constant(self, value: str, place: tuple[Poly, ...]) -> Element:
        """A number where all elements that may be meant are the same."""
        if any(map(self.of.counts, place)):
            return Late(f"which element of '{value}' it reads depends on the number of tokens", True)
        array = self.program.constants[value]
        if array.ndim == 0 or array.size > _MOST:
            return self.of.same(value)
        meant = array
        for axis, index in enumerate(place):
            if index.constant is not None:
                meant = np.take(meant, [index.constant], axis)
        for a, b in ((a, b) for a in range(array.ndim) for b in range(array.ndim) if a != b):
            apart = place[b] - place[a]
            least = next((c for monomial, c in apart.terms if not monomial), 0)
            if meant.shape[a] == 1 or meant.shape[b] == 1:
                continue
            if apart.constant is not None or (least > 0 and self._surely(apart - least)):
                places: Any = np.indices(meant.shape, sparse=True)
                between = places[b] - places[a]
                kept = between >= least if apart.constant is None else between == least
                return same_number(meant[np.broadcast_to(kept, meant.shape)])
        return self.of.same(value) if meant is array else same_number(meant)

    def literal(self, value: bool | int | float, dtype: MachineType) -> Element:
        return Poly.of(int(value)) if isinstance(value, (bool, int)) else float(value)

    def size(self, size: Dim, dtype: MachineType) -> Element:
        return Poly.of(size)

    # Numbers

    def apply(self, function: str, args: tuple[Element, ...], node: Node) -> Element:
        if function == "div" and self.dtype(node.output)[0] in "iu":
            return self._mixed(args)
        return self._fitting(self._called(function, args), node)

    def cast(self, x: Element, node: Node) -> Element:
        number, dtype = number_of(x), self.dtype(node.output)
        if dtype == "bool":
            return self._mixed((x,)) if number is None else Poly.of(int(number != 0))
        if dtype[0] in "iu" and isinstance(x, float) and np.isfinite(x):
            x = Poly.of(int(x))
        return self._fitting(x, node)

    def _fitting(self, x: Element, node: Node) -> Element:
        """A whole number that the type of a node's output holds as it is; else some number."""
        dtype = self.dtype(node.output)
        if dtype[0] not in "iu" or not isinstance(x, (float, Poly)):
            return x
        if isinstance(x, float):
            if not x.is_integer():
                return FINITE
            x = Poly.of(int(x))
        if x.constant is None:
            return x if dtype in _WIDE else self._mixed((x,))
        return x if dtype.wrapped(x.constant) == x.constant else FINITE

    def _called(self, function: str, args: Sequence[Element]) -> Element:
        if function in MIRRORED:
            function, args = MIRRORED[function], tuple(reversed(args))
        if function == "where":
            number = number_of(args[0])
            return self._either(*args) if number is None else args[1] if number else args[2]
        whole = [arg for arg in args if isinstance(arg, Poly)]
        if len(whole) == len(args) and function in _WHOLE:
            compute = _WHOLE[function]
            return functools.reduce(compute, whole) if len(whole) > 1 else compute(*whole)
        if len(whole) == len(args) == 2 and function in ("less", "less_equal", "equal"):
            holds = self._related(function, *whole)
            return self._mixed(args) if holds is None else Poly.of(int(holds))
        known = [number for number in map(number_of, args) if number is not None]
        if function in _ARITHMETIC and len(known) == len(args):
            with np.errstate(all="ignore"):
                makes = _ARITHMETIC[function]
                number = float(functools.reduce(makes, known) if len(known) > 1 else makes(*known))
            return UNSURE if np.isnan(number) else number
        others = [arg for arg in args if number_of(arg) is None]
        return self._partly_known(function, known, others, args)

    def _partly_known(
        self, function: str, known: Sequence[float], others: Sequence[Element], args: Sequence[Element]
    ) -> Element:
        """A function of numbers and others."""
        found, sure = self._mixed(args), not any(map(is_unsure, others))
        if (function == "and" and 0 in known) or (function == "mul" and 0 in known and sure):
            return 0.0
        if function == "or" and any(known):
            return 1.0
        if function in ("add", "sub") and sure and known:
            first = function == "sub" and number_of(args[0]) is None
            total = -known[0] if first else sum(known)
            if abs(total) >= _LARGE:
                if np.isfinite(total):
                    self.of.assumed.add(SWALLOWED)
                return total
        if isinstance(found, Late):
            return found
        least = {"maximum": -_LARGE, "minimum": _LARGE}.get(function)
        if least is not None and sure and all(number * least > 0 for number in known):
            return FINITE
        return FINITE if function in _BOUNDED else UNSURE if function in _UNBOUNDED else found

    def _either(self, condition: Element, then: Element, otherwise: Element) -> Element:
        """One of two, by a condition that is open."""
        return then if _equal(then, otherwise) else self._mixed((condition, then, otherwise))

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
        unsure = any(map(is_unsure, args))
        for arg in args:
            if isinstance(arg, Late):
                return Late(arg.reason, unsure)
            if isinstance(arg, Poly) and self.of.counts(arg):
                return Late("it computes with the number of tokens", unsure)
        return UNSURE if unsure else FINITE

    # Choices, folds

    def choose(
        self,
        conditions: Sequence[Poly],
        then: Callable[[], Element],
        otherwise: Callable[[], Element],
        dtype: MachineType,
    ) -> Element:
        if any(self._surely(-condition - 1) for condition in conditions):
            return otherwise()
        open_ = [condition for condition in conditions if not self._surely(condition)]
        return self._either(self._mixed(open_), then(), otherwise()) if open_ else then()

    def pick(self, node: Node, index: Element, size: Dim, read: Callable[[Poly], Element]) -> Element:
        if isinstance(index, Late):
            return index
        number = number_of(index)
        place = Poly.of(int(number)) if number is not None else index
        if isinstance(place, Poly):
            if self.of.counts(place):
                return Late(f"what it reads of '{node.inputs[0]}' depends on the number of tokens", True)
            if self._surely(place):
                return read(place)
            if self._surely(-place - 1):
                return read(place + size)
        if self.of.counts(Poly.of(size)):
            return Late(f"it reads '{node.inputs[0]}' from the back, if at a negative place", True)
        return read(Poly.symbol(self.of.subscript("any")))

    def fold(self, kind: str, count: Poly, element: Callable[[Poly], Element], node: Node) -> Element:
        name, rows = self.of.subscript("k"), self.of.length
        k, up_to = Poly.symbol(name), self.last + 1
        if not self.of.counts(count):
            with self._inside(name, count):
                found = element(k)
            if self._neutral(kind, found):
                return _NEUTRAL[kind]
            some = np.isfinite(_NEUTRAL[kind]) or self._surely(count - 1)
            return self._mixed((found,) if some else (found, UNSURE))
        if count != rows:
            return Late(f"{node.label} joins {count} terms", True)
        with self._inside(name, rows - up_to):
            later = element(up_to + k)
        if not self._neutral(kind, later):
            return Late(later.reason if isinstance(later, Late) else "it joins all rows", is_unsure(later))
        if up_to == 0:
            return _NEUTRAL[kind]
        with self._inside(name, up_to):
            found = element(k)
        if kind in ("max", "min"):
            return self._extreme(found, [element(row) for row in self.of_rows])
        return _NEUTRAL[kind] if self._neutral(kind, found) else self._mixed((found,))

    def _extreme(self, some: Element, own: Sequence[Element]) -> Element:
        """The extreme of a row of which only places up to its own count. One of its `own` places, at
        subscripts of rows, must be finite: where all are left out, the others tell what comes of it."""
        if isinstance(some, Late):
            return some
        if all(isinstance(x, Late) or is_unsure(x) for x in own):
            return Late("it may leave out all tokens of a row", True)
        return FINITE

    def _neutral(self, kind: str, x: Element) -> bool:
        """Whether joining a term leaves everything as it is."""
        number, neutral = number_of(x), _NEUTRAL[kind]
        if number is None or number == neutral or np.isfinite(neutral):
            return number == neutral
        if abs(number) < _LARGE or number * neutral < 0:
            return False
        self.of.assumed.add(SWALLOWED)
        return True

    @contextmanager
    def _inside(self, name: str, extent: Poly) -> Iterator[None]:
        """With one more subscript, below an extent."""
        before = self.ranges
        self.ranges = before.having([(name, extent)])
        self._kept.append(self.ranges)
        try:
            yield
        finally:
            self.ranges = before

    def read_formula(self, formula: Formula, indices: Sequence[Poly], node: Node) -> Element:
        return self._fitting(self._value(formula[tuple(indices)], node), node)

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
        return ProgramError(reason)

    def _surely(self, number: Poly) -> bool:
        """Whether it is 0 or more, for all subscripts in range and all sizes."""
        return self.ranges.never_negative(self.ranges.simplify(number))


def same_number(numbers: Array) -> Element:
    """The number that all of an array are; else what is known of them."""
    if numbers.dtype.kind not in "iufbV":
        return FINITE
    if numbers.dtype.kind == "V":  # small floats and whole numbers, which NumPy does not know
        numbers = numbers.astype(np.float32)
    if numbers.size and (numbers == numbers.flat[0]).all():
        found = numbers.flat[0].item()
        return float(found) if isinstance(found, float) else Poly.of(int(found))
    if numbers.dtype.kind != "f":
        return FINITE
    return FINITE if bool((np.abs(numbers.astype(np.float64)) < _LARGE).all()) else UNSURE


def _equal(a: Element, b: Element) -> bool:
    return isinstance(a, (float, Poly)) and type(a) is type(b) and a == b


def number_of(x: Element) -> float | None:
    """The number that an element is."""
    if isinstance(x, Poly):
        return None if x.constant is None else float(x.constant)
    return x if isinstance(x, float) else None


def is_unsure(x: Element) -> bool:
    """Whether an element may stand for an infinite number."""
    number = number_of(x)
    if number is not None:
        return not abs(number) < _LARGE
    return x is UNSURE or (isinstance(x, Late) and x.unsure)
