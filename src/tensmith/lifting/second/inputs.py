"""Random arguments for a lifted function: what its requirements allow, and at times what they do not.

Sizes are mostly small, with 0, 1 and negative numbers among them; integers are small, of the whole range of
their type, at its ends, or at constants of the function; floats are small dyadic numbers, normal ones, of
many magnitudes, or NaN and infinities among normal ones.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from tensmith.errors import ProgramError
from tensmith.formula.expr import Call, Num, Read
from tensmith.formula.poly import Poly
from tensmith.formula.types import INT, MachineType
from tensmith.lifting.assumptions import REGROUPED, Excuse, excused
from tensmith.lifting.lifted import Lifted
from tensmith.lifting.loops import Array, nodes
from tensmith.lifting.second.values import dtype, folded, is_flat
from tensmith.lifting.summarize.constants import cast_constant, fold_constants, number
from tensmith.lifting.summary import Path, Requirement, Term, length_symbol

SIZES = (0, 1, 2, 3, 5, 17)
FEWER = (0, 1, 2, 3, 4, 6)  # where loops are deep
SLACK = (0, 0, 1, 3)  # elements of flat memory beyond those needed
EDGES = (-2, -1, 0, 1, 2, 5)  # of counts; unsigned ones have no negative edges
LARGEST = 2**20  # elements that the arrays of a parameter may have in all draws of a plan
ENDS = (-(2**63), 2**63 - 1)
STYLES = ("small", "small", "wide", "ends", "special")


@dataclass(frozen=True)
class Draw:
    """Arguments by parameter, structs as `Fields`."""

    arguments: Mapping[str, Any]
    values: Mapping[str, Any]  # the arguments with structs taken apart
    plan: DrawPlan
    place: int  # among the draws of its plan


@dataclass(frozen=True)
class DrawPlan:
    """What several draws have in common: sizes, scalars, the kind of elements, the requirements not met.

    A symbol in a requirement is a size, max(0, n); where n < 0 the sentence may be read with n itself as
    well: `doubtful` are those that only one of the readings finds met.
    """

    known: Mapping[str, int]
    scalars: Mapping[str, Any]
    style: str
    unmet: tuple[Requirement, ...]
    doubtful: tuple[Requirement, ...]
    absent: bool  # pass None for outputs that are written whole


def holds(path: Path, scalars: Mapping[str, Any]) -> bool:
    """Whether conditions on scalar parameters are as given; also where that cannot be told."""
    found = [(_known(condition, scalars), truth) for condition, truth in path]
    return all(value is None or bool(value.value) == truth for value, truth in found)


def _known(term: Term, scalars: Mapping[str, Any]) -> Num | None:
    """A term over scalar parameters; None for other terms, and for arithmetic that rounds."""
    match term:
        case Num():
            return term
        case Read(name, ()) if math.isfinite(scalars.get(name, math.nan)):
            return number(scalars[name], term.type)
        case Call(function, arguments):
            values = [_known(each, scalars) for each in arguments]
            known = [Fraction(each.value) for each in values if each is not None]
            if len(known) < len(arguments):
                return None
            if function == "cast":
                return cast_constant(known[0], arguments[0].type, term.type)
            return fold_constants(function, known, term.type)
    return None


def evaluated(lifted: Lifted, poly: Poly, known: Mapping[str, int], plain: bool = False) -> int:
    """A polynomial over parameters, lengths and size symbols; plain: over parameters as they are, below 0
    too, where a size has a parameter's name."""
    values = symbols(lifted, known)
    return _at(poly, {**values, **known} if plain else values)


def symbols(lifted: Lifted, known: Mapping[str, int]) -> dict[str, int]:
    """What every symbol of a function is worth, from parameters and lengths; a size's name means the size."""
    values = dict(known)
    for size in lifted.sizes:  # over parameters as they are, and sizes before it
        values[size.symbol] = max(0, _at(size.poly, {**values, **known}))
    return values


def _at(poly: Poly, values: Mapping[str, int]) -> int:
    """A polynomial's value; 0 where it divides by 0, by a step that another requirement asks not to be."""
    try:
        return int(poly.evaluate(values))
    except ProgramError:
        return 0


def shape(name: str, kind: Array, known: Mapping[str, int]) -> tuple[int, ...]:
    """The extents of an array parameter as it is passed."""
    return tuple(max(0, known[length_symbol(name, axis)]) for axis in range(kind.axes))


def rows(kind: Array, scalars: Mapping[str, Any]) -> list[int]:
    """How long the rows of flat memory are by its type, the outermost first; 1 where that is unclear."""
    found = []
    for extent in kind.extents[1:] if kind.memory == "flat" else ():
        name = extent.tensor if isinstance(extent, Read) else ""
        given = extent.value if isinstance(extent, Num) else scalars.get(name, 1)
        found.append(max(1, int(given)))
    return found


class Sampler:
    """Draws arguments for one function; sizes: what extents are drawn from; stray: the share of arrays of
    places that lie anywhere; twice: the share of draws that may pass one array as two arguments; turning: the
    share of integers, and of arrays of them, that lie at constants of the function, or hold such elements;
    farthest: the share of unbounded integers, where ends are drawn, that are those of 64 bits."""

    slack: Sequence[int] = SLACK
    stray: float = 0.05
    twice: float = 0.15
    turning: float = 0.4
    farthest: float = 0.3
    largest: int = LARGEST

    def __init__(self, lifted: Lifted, seed: int) -> None:
        self.lifted = lifted
        self.rng = np.random.default_rng(seed)
        self.fields = dict(lifted.function.fields)
        polys = [size.poly for size in lifted.sizes]
        polys += [r.poly for r in lifted.requires if r.poly is not None]
        self.counts = frozenset().union(*(poly.symbols() for poly in polys)) & self.fields.keys()
        deep = max([0, *(len(v.view.shape) for v in lifted.inputs if v.view)]) > 2 or len(self.counts) > 2
        self.sizes: Sequence[int] = FEWER if deep else SIZES
        self.places = {r.array: r.other for r in lifted.requires if r.kind == "there"}
        self.finite = Excuse.NOT_FINITE in excused(lifted.assumes)
        self.real = Excuse.COMPLEX in excused(lifted.assumes)
        self.regrouped = REGROUPED() in lifted.assumes
        numbers = {part for part in nodes(lifted.function) if isinstance(part, Num)}
        constants = sorted({int(each.value) for each in numbers if each.type.kind == "int"} - {-1, 0, 1})
        self.turns = [each + by for each in constants for by in (-1, 0, 0, 1)]

    def draws(self, count: int, repeat: int) -> Iterator[Draw]:
        """Draws, `repeat` of each plan; scalars alone make plans that are used once."""
        arrays = any(isinstance(kind, Array) for kind in self.fields.values())
        for start in range(0, count, repeat if arrays else 1):
            yield from self.planned(self.plan(), min(repeat, count - start) if arrays else 1)

    def boundaries(self, count: int) -> Iterator[Draw]:
        """At most `count` draws for whoever wants the edges: every count that a requirement or a size speaks
        of at each of its edges, arrays as long as they must be and no longer; then random plans.

        Draws whose requirements are not met are among them.
        """
        edges = [
            (name, edge) for name in sorted(self.counts) for edge in EDGES if edge >= 0 or self.signed(name)
        ]
        each = 2 if 2 * len(edges) <= count // 2 else 1
        made = 0
        for place, (name, edge) in enumerate(edges[: count // 2]):
            style = STYLES[place % len(STYLES)]
            for draw in self.planned(self.plan(style, {name: edge}), each):
                made += 1
                yield draw
        yield from self.draws(count - made, 4)

    def plan(self, style: str = "", fixed: Mapping[str, int] | None = None) -> DrawPlan:
        """The next sizes and scalars; about one random plan in twenty ignores the requirements.

        fixed: counts that stand, arrays then as long as they must be; only data says that of tables, which
        hold an element unless no count is above 0.
        """
        style = style or str(self.rng.choice(STYLES))
        if style == "special" and self.finite:
            style = "wide"
        known = self.symbols(style)
        if fixed is not None:
            read = any(count > 0 for count in fixed.values())
            for name, kind in self.fields.items():
                if is_flat(kind):
                    place = length_symbol(name, 0)
                    known[place] = max(1, known[place]) if read and name in self.places else 0
            known |= fixed
        if fixed is not None or self.rng.random() > 0.05:
            self.settle(known)
        for name, kind in self.fields.items():
            if isinstance(kind, MachineType) and kind.limits and name in known:
                known[name] = min(max(known[name], kind.limits[0]), kind.limits[1])
            if is_flat(kind) and fixed is None:
                known[length_symbol(name, 0)] += int(self.rng.choice(self.slack))
        scalars = self.scalars(known, style)
        for name in self.places:
            if is_flat(kind := self.fields[name]) and isinstance(kind, Array):
                known[length_symbol(name, 0)] *= math.prod(rows(kind, scalars))
        needed = [r for r in self.lifted.requires if holds(r.where, scalars)]
        readings = [(r, self.meets(r, known), self.meets(r, known, plain=True)) for r in needed]
        unmet = tuple(r for r, one, other in readings if not one and not other)
        doubtful = tuple(r for r, one, other in readings if one != other)
        return DrawPlan(known, scalars, style, unmet, doubtful, bool(self.rng.random() < 0.1))

    def planned(self, plan: DrawPlan, count: int) -> Iterator[Draw]:
        """Draws of a plan: every array of all of them at once; none where one would not fit in memory."""
        found = {name: kind for name, kind in self.fields.items() if isinstance(kind, Array)}
        shapes = {name: (count, *shape(name, kind, plan.known)) for name, kind in found.items()}
        if any(math.prod(extents) > self.largest for extents in shapes.values()):
            return
        arrays = {name: self.elements(kind.element, shapes[name], plan.style) for name, kind in found.items()}
        for name, places in self.places.items():
            if places in arrays and self.rng.random() >= self.stray:
                inner = rows(found[name], plan.scalars)
                least = min([shapes[name][1] // math.prod(inner), *inner])
                self.point_inside(arrays[places], least)
        for place in range(count):
            values = {
                name: arrays[name][place] if name in arrays else plan.scalars[name] for name in self.fields
            }
            if self.rng.random() < self.twice:
                self.share(values)
            yield Draw(folded(values), values, plan, place)

    def signed(self, name: str) -> bool:
        """Whether a count may be negative by its type."""
        kind = self.fields[name]
        return isinstance(kind, MachineType) and kind.signed

    # Sizes

    def symbols(self, style: str) -> dict[str, int]:
        """Integer parameters and lengths, before the requirements are looked at."""
        known: dict[str, int] = {}
        common = [int(self.rng.choice(self.sizes)) for _ in range(3)]
        for name, kind in self.fields.items():
            if isinstance(kind, Array):
                for axis in range(kind.axes):
                    start = common[axis] if kind.memory == "nested" or name in self.places else 0
                    if kind.axes < kind.rank and name in self.places:
                        start = max(common)
                    if name in self.places and self.rng.random() >= self.stray:
                        start = max(1, start)
                    known[length_symbol(name, axis)] = start
            elif name in self.counts:
                low = -2 if kind.signed and self.rng.random() < 0.05 else None
                known[name] = int(self.rng.choice(self.sizes)) if low is None else low
            elif kind.kind == "int":
                known[name] = self.whole(kind, style)
        return known

    def whole(self, kind: MachineType, style: str) -> int:
        """A scalar integer of a type: now and then the largest or least of 64 bits, where these may be summed
        as the source sums them alone."""
        if self.regrouped and kind.bits in (64, None):
            kind = INT
        elif kind == INT and style == "ends" and self.rng.random() < self.farthest:
            return int(self.rng.choice(np.array(ENDS)))
        return int(self.integers(kind, (), style))

    def scalars(self, known: Mapping[str, int], style: str) -> dict[str, Any]:
        """The scalar parameters: those that are known, and others."""
        return {
            name: known[name] if name in known else self.elements(kind, (), style).item()
            for name, kind in self.fields.items()
            if isinstance(kind, MachineType)
        }

    def meets(self, requirement: Requirement, known: Mapping[str, int], plain: bool = False) -> bool:
        """Whether a requirement about sizes holds; plain: with parameters as they are, below 0 too."""
        if requirement.poly is None:
            return True
        value = evaluated(self.lifted, requirement.poly, known, plain)
        match requirement.kind:
            case "at_least":
                return value >= 0
            case "equal":
                return value == 0
            case "length":
                return known[length_symbol(requirement.array, requirement.axis)] >= value
        return True

    def settle(self, known: dict[str, int]) -> None:
        """Change sizes so that requirements are met, as long as one change asks for another."""
        for _ in range(12):
            if not self.repair(known):
                return

    def repair(self, known: dict[str, int]) -> bool:
        """Change sizes so that each unmet requirement is met; whether anything was unmet."""
        unmet = [r for r in self.lifted.requires if not self.meets(r, known)]
        for requirement in unmet:
            assert requirement.poly is not None
            value = evaluated(self.lifted, requirement.poly, known)
            if requirement.kind == "length":
                name = length_symbol(requirement.array, requirement.axis)
                known[name] = max(known[name], value)
            else:
                self.move(requirement.poly, -value, known)
        return bool(unmet)

    def move(self, poly: Poly, by: int, known: dict[str, int]) -> None:
        """Add `by` to a polynomial's value through one of its variables."""
        symbols = {size.symbol: size.poly for size in self.lifted.sizes}
        inner = poly.substitute({name: p for name, p in symbols.items() if name in poly.symbols()})
        choices = []
        for name in sorted(inner.symbols() & known.keys()):
            factor = inner.coefficient(name)
            value = None if factor is None else int(factor.evaluate(known))
            if value and by % value == 0 and (name in self.fields or known[name] + by // value >= 0):
                choices.append((name, by // value))
        if choices:
            name, step = choices[int(self.rng.integers(len(choices)))]
            known[name] = known[name] + step

    # Values

    def elements(self, kind: MachineType, shape: tuple[int, ...], style: str) -> np.ndarray[Any, Any]:
        """An array of a type."""
        if kind.kind == "bool":
            return self.rng.random(shape) < 0.5
        if kind.kind == "int":
            return self.integers(kind, shape, style)
        found = np.asarray(self.floats(shape, style)).astype(dtype(kind))
        return np.abs(found) if self.real and self.rng.random() < 0.7 else found  # roots of them are real

    def integers(self, kind: MachineType, shape: tuple[int, ...], style: str) -> np.ndarray[Any, Any]:
        """Integers of a type; unbounded ones stay where their products fit in 64 bits."""
        limits = np.iinfo(np.int16 if kind.bits is None else dtype(kind))
        low, high = (limits.min, limits.max) if kind.bits is not None else (-1000, 1000)
        if style in ("wide", "special"):
            bits = int(self.rng.integers(2, max(3, int(math.log2(high)) + 1)))
            low, high = max(low, -(2**bits)), min(high, 2**bits - 1)
        elif style == "small" and self.rng.random() < 0.7:
            low, high = max(low, -9), min(high, 20)
        found = self.rng.integers(low, high, shape, dtype(kind), endpoint=True)
        if style == "ends":
            ends = np.array([limits.min, limits.max, limits.max - 1, 0, 1, 2], dtype(kind))
            if kind.signed:
                ends[3] = -1
            found = np.where(self.rng.random(shape) < 0.7, self.rng.choice(ends, shape), found)
        turns = [each for each in self.turns if limits.min <= each <= limits.max]
        if turns and self.rng.random() < self.turning:
            chosen = self.rng.choice(np.array(turns, dtype(kind)), shape)
            found = np.where(self.rng.random(shape) < 0.5, chosen, found) if shape else chosen
        return np.asarray(found, dtype(kind))

    def floats(self, shape: tuple[int, ...], style: str) -> Any:
        """Floats in double precision."""
        if style == "small":
            return self.rng.integers(-32, 32, shape) / 8
        found = self.rng.standard_normal(shape)
        if style == "ends":
            return found * 10.0 ** self.rng.integers(-3, 4, shape)
        if style == "special":
            odd = self.rng.choice([np.nan, np.inf, -np.inf, 0.0, -0.0], shape)
            found = np.where(self.rng.random(shape) < 0.08, odd, found)
        return found

    def point_inside(self, places: np.ndarray[Any, Any], length: int) -> None:
        """Makes elements places in an array of a length, or so few that what is made of them is one too."""
        most = max(1, length)
        places %= most if self.rng.random() < 0.5 else int(self.rng.integers(1, most, endpoint=True))

    def share(self, values: dict[str, Any]) -> None:
        """Pass one array as two arguments; where no place may stray, none of places."""
        apart = () if self.stray else self.places.values()
        arrays = [n for n, v in values.items() if isinstance(v, np.ndarray) and n not in apart]
        if len(arrays) < 2:
            return
        one, other = self.rng.permutation(arrays)[:2]
        if values[one].dtype == values[other].dtype and values[one].shape == values[other].shape:
            values[other] = values[one]
