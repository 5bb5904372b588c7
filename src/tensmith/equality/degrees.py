"""How large the polynomials are that a program computes: the program is run in an arithmetic of sizes.

Between random functions a program is arithmetic, so each of its values is a quotient N / D of polynomials in
the inputs and the random functions' values. `Degrees` is an arithmetic whose arrays hold, instead of numbers,
references to bounds on N and D. Running a program's own ops in it bounds them all, without a table of ops.

A polynomial's Size is its total degree and the range of powers of two that its coefficients lie in: high, the
logarithm of the sum of their magnitudes, and low, such that coefficients divided by 2**low are integers.
Sizes add when polynomials multiply. D is a product of powers of *sites*: one site a division, whose
polynomial is the product of every divisor in the tensor, so that all elements of a tensor share one D and
sums of them do not multiply denominators.

Values of positive functions are never zero, so a product of them with a power of two as its coefficient is a
unit: dividing by it subtracts exponents, and `degree` counts magnitudes of exponents (Laurent polynomials).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce as fold

import numpy as np

from tensmith.formula.arith import Array
from tensmith.formula.functions import POSITIVE


@dataclass(frozen=True)
class PolynomialBound:
    """Bounds on a polynomial: total degree, and powers of two around its coefficients."""

    degree: float = 0.0
    high: float = 0.0
    low: float = 0.0

    def __mul__(self, other: PolynomialBound) -> PolynomialBound:
        return PolynomialBound(self.degree + other.degree, self.high + other.high, self.low + other.low)

    def __pow__(self, power: float) -> PolynomialBound:
        return PolynomialBound(self.degree * power, self.high * power, self.low * power)

    def __add__(self, other: PolynomialBound) -> PolynomialBound:
        joined = self | other
        return PolynomialBound(joined.degree, joined.high + 1, joined.low)

    def __or__(self, other: PolynomialBound) -> PolynomialBound:
        """Bounds on either."""
        return PolynomialBound(
            max(self.degree, other.degree), max(self.high, other.high), min(self.low, other.low)
        )  # fmt: skip

    @property
    def bits(self) -> float:
        """The length of the largest coefficient as an integer."""
        return max(self.high - self.low, 0.0)


@dataclass(frozen=True)
class Quotient:
    """Bounds on a value N / D. `den`: division site -> power in D. `unit`: see the module."""

    num: PolynomialBound = PolynomialBound()
    den: Mapping[int, int] = field(default_factory=dict)
    unit: bool = False


@dataclass(frozen=True)
class Calls:
    """One use of a random function: on `count` lots of arguments, each a set of up to `width` numbers."""

    function: str
    count: int
    args: tuple[Quotient, ...]
    width: int = 1


_ZERO, _VARIABLE, _UNIT = 0, 1, 2


class Degrees:
    """An exact `Arith` on arrays of references to Quotients.

    `calls` lists the random functions used; `compares` tells whether real numbers were compared.
    """

    exact = True

    def __init__(self) -> None:
        variable = PolynomialBound(1.0)
        self.table = [Quotient(), Quotient(variable), Quotient(variable, unit=True)]
        self.sites: list[PolynomialBound] = []
        self.calls: list[Calls] = []
        self.compares = False
        self._constants: dict[float, int] = {0.0: _ZERO}
        # The site of every division by a constant that is one number.
        self._scalars: dict[int, int] = {}

    # Values

    def variable(self, shape: tuple[int, ...]) -> Array:
        """A tensor of inputs."""
        return _filled(_VARIABLE, shape)

    def bound(self, array: Array) -> Quotient:
        """Bounds on every element."""
        return self.table[self._joined(array)]

    def common(self, a: Quotient, b: Quotient) -> tuple[PolynomialBound, PolynomialBound, dict[int, int]]:
        """Both numerators over one denominator."""
        den = {site: max(a.den.get(site, 0), b.den.get(site, 0)) for site in {*a.den, *b.den}}
        return a.num * self._missing(a, den), b.num * self._missing(b, den), den

    def product(self, den: Mapping[int, int]) -> PolynomialBound:
        """The size of a denominator."""
        return fold(
            PolynomialBound.__mul__,
            (self.sites[site] ** power for site, power in den.items()),
            PolynomialBound(),
        )

    def _missing(self, a: Quotient, den: Mapping[int, int]) -> PolynomialBound:
        missing = ((site, power - a.den.get(site, 0)) for site, power in den.items())
        return self.product({site: power for site, power in missing if power})

    def _new(self, quotient: Quotient) -> int:
        self.table.append(quotient)
        return len(self.table) - 1

    def _site(self, size: PolynomialBound) -> int:
        self.sites.append(size)
        return len(self.sites) - 1

    def _joined(self, array: Array) -> int:
        """One reference whose bounds hold for all elements."""
        if array.size == 0:
            return _ZERO
        first = int(array.flat[0])
        if array.strides == (0,) * array.ndim or bool(np.all(array == first)):
            return first
        found = np.flatnonzero(np.bincount(array.ravel(), minlength=1)).tolist()
        return self._new(self._any_of([self.table[index] for index in found]))

    def _any_of(self, quotients: Sequence[Quotient]) -> Quotient:
        """Bounds on each of some; those of a tensor of constants are thousands, over one denominator."""
        den = quotients[0].den
        if any(quotient.den != den for quotient in quotients):
            return fold(self._either, quotients)
        nums = [quotient.num for quotient in quotients]
        joined = PolynomialBound(
            max(num.degree for num in nums), max(num.high for num in nums), min(num.low for num in nums)
        )
        return Quotient(joined, den, all(quotient.unit for quotient in quotients))

    def _either(self, a: Quotient, b: Quotient) -> Quotient:
        first, second, den = self.common(a, b)
        return Quotient(first | second, den, a.unit and b.unit)

    # Arithmetic

    def const(self, value: Array | float, like: Array | None = None) -> Array:
        """Equal references for equal constants, of which there may be a few thousand in a tensor."""
        array = np.asarray(value)
        if array.size == 0:
            return _filled(_ZERO, array.shape)
        if array.size > 1 and not bool(np.all(array == array.flat[0])):
            if array.size > 4096:
                return _filled(self._new(_weights(array.astype(np.float64))), array.shape)
            distinct, places = np.unique(array, return_inverse=True)
            return np.array(self._references(distinct.astype(np.float64)))[places].reshape(array.shape)
        return _filled(self._references(array.reshape(-1)[:1].astype(np.float64))[0], array.shape)

    def _references(self, values: Array) -> list[int]:
        """The reference of each of some numbers, float64 [values]; what is no number is a variable."""
        known = self._constants
        new = np.array([v for v in values.tolist() if v not in known and math.isfinite(v)])
        for value, bounds in zip(new.tolist(), _each_weight(new)):
            if value not in known:
                known[value] = index = self._new(bounds)
                self._scalars[index] = self._site(bounds.num)
        return [known.get(value, _VARIABLE) for value in values.tolist()]

    def add(self, a: Array, b: Array) -> Array:
        """See Arith."""
        left, right = self.bound(a), self.bound(b)
        first, second, den = self.common(left, right)
        return _filled(self._new(Quotient(first + second, den)), np.broadcast_shapes(a.shape, b.shape))

    def sub(self, a: Array, b: Array) -> Array:
        """See Arith."""
        return self.add(a, b)

    def mul(self, a: Array, b: Array) -> Array:
        """See Arith."""
        return _filled(self._new(self._times(a, b)), np.broadcast_shapes(a.shape, b.shape))

    def _times(self, a: Array, b: Array) -> Quotient:
        left, right = self.bound(a), self.bound(b)
        return Quotient(left.num * right.num, _merged(left.den, right.den), left.unit and right.unit)

    def div(self, a: Array, b: Array) -> Array:
        """N_a/D_a / (N_b/D_b) = N_a D_b**2 rest / (D_a D_b all); all: the product of N_b's, rest: all / N_b.

        D_b stays below, so that D is zero wherever a divisor on the way is.
        """
        shape = np.broadcast_shapes(a.shape, b.shape)
        top, index = self.bound(a), self._joined(b)
        bottom = self.table[index]
        if bottom.unit:
            num = PolynomialBound(
                top.num.degree + bottom.num.degree,
                top.num.high - bottom.num.low,
                top.num.low - bottom.num.high,
            )
            return _filled(self._new(Quotient(num, _merged(top.den, bottom.den), top.unit)), shape)
        if index in self._scalars:
            rest, site = PolynomialBound(), self._scalars[index]
        else:
            rest, site = bottom.num ** (b.size - 1), self._site(bottom.num**b.size)
        num = top.num * self.product(bottom.den) ** 2 * rest
        return _filled(self._new(Quotient(num, _merged(top.den, bottom.den, {site: 1}))), shape)

    def matmul(self, a: Array, b: Array) -> Array:
        """See Arith."""
        rows, columns = a.shape[-2:-1], b.shape[-1:] if b.ndim > 1 else ()
        shape = (*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), *rows, *columns)
        return _filled(self._new(_summed(self._times(a, b), a.shape[-1])), shape)

    def sum(self, a: Array, axis: int | tuple[int, ...] | None, keepdims: bool = False) -> Array:
        """See Arith."""
        shape, count = _reduced(a.shape, axis, keepdims)
        return _filled(self._new(_summed(self.bound(a), count)), shape)

    # Random functions

    def max(self, a: Array, axis: int | tuple[int, ...] | None, keepdims: bool = False) -> Array:
        """See Arith."""
        shape, count = _reduced(a.shape, axis, keepdims)
        self.calls.append(Calls("max", math.prod(shape), (self.bound(a),), count))
        return _filled(_VARIABLE, shape)

    def call(self, function: str, *args: Array) -> Array:
        """See Arith."""
        shape = np.broadcast_shapes(*(arg.shape for arg in args))
        bounds = tuple(map(self.bound, args))
        symmetric = function in ("maximum", "minimum")
        if symmetric:
            bounds = (fold(self._either, bounds),)
        self.calls.append(Calls(function, math.prod(shape), bounds, 2 if symmetric else 1))
        return _filled(_UNIT if function in POSITIVE else _VARIABLE, shape)

    def compare(self, relation: str, a: Array, b: Array) -> Array:
        """Truth values have no size, and what uses them has no bound: this is only noted."""
        self.compares = True
        return np.zeros(np.broadcast_shapes(a.shape, b.shape), dtype=np.bool_)


class Quotients:
    """Many quotients as arrays, so that differences are bounded for many at once.

    A bound is a row (degree, high, low); powers [quotients, sites].
    """

    def __init__(self, degrees: Degrees, quotients: Sequence[Quotient]) -> None:
        used = sorted({site for quotient in quotients for site in quotient.den})
        place = {site: column for column, site in enumerate(used)}
        self._sites = np.array([_row(degrees.sites[site]) for site in used]).reshape(-1, 3)
        self._tops = np.array([_row(quotient.num) for quotient in quotients])
        self._powers = np.zeros((len(quotients), len(used)))
        for quotient, powers in zip(quotients, self._powers):
            for site, power in quotient.den.items():
                powers[place[site]] = power

    def differences(self, first: int) -> Array:
        """Of the one at `first` and each from there on: bounds on the numerator of their difference times the
        common denominator, [quotients - first, 3].
        """
        one, others = self._powers[first], self._powers[first:]
        den = np.maximum(one, others)
        tops = (
            self._tops[first] + (den - one) @ self._sites,
            self._tops[first:] + (den - others) @ self._sites,
        )
        largest, lowest = np.maximum(*tops), np.minimum(*tops)
        joined = np.stack([largest[:, 0], largest[:, 1] + 1, lowest[:, 2]], axis=1)
        found: Array = joined + den @ self._sites
        return found


def _row(bound: PolynomialBound) -> tuple[float, float, float]:
    return bound.degree, bound.high, bound.low


def _filled(index: int, shape: Iterable[int]) -> Array:
    return np.broadcast_to(np.int64(index), tuple(shape))


def _merged(*dens: Mapping[int, int]) -> dict[int, int]:
    total: dict[int, int] = {}
    for den in dens:
        for site, power in den.items():
            total[site] = total.get(site, 0) + power
    return total


def _summed(value: Quotient, count: int) -> Quotient:
    """A sum of `count` such values."""
    growth = math.log2(max(count, 1))
    return Quotient(PolynomialBound(value.num.degree, value.num.high + growth, value.num.low), value.den)


def _reduced(
    shape: tuple[int, ...], axis: int | tuple[int, ...] | None, keep: bool
) -> tuple[tuple[int, ...], int]:
    """The shape after a reduction, and the number of elements reduced into one."""
    axes = range(len(shape)) if axis is None else (axis,) if isinstance(axis, int) else axis
    over = {x % len(shape) for x in axes}
    kept = tuple(1 if x in over else size for x, size in enumerate(shape) if keep or x not in over)
    return kept, math.prod(shape[x] for x in over)


def _weights(values: Array) -> Quotient:
    """Bounds on any of some constants."""
    found = values[np.logical_and(np.isfinite(values), values != 0)]
    if found.size == 0:
        return Quotient(
            PolynomialBound(1.0) if values.size and not np.all(values == 0) else PolynomialBound()
        )
    degree = 0.0 if found.size == np.count_nonzero(values) else 1.0
    high = float(np.log2(np.max(np.abs(found))))
    return Quotient(PolynomialBound(degree, high, int(np.min(_lowest_bits(found)))))


def _each_weight(values: Array) -> list[Quotient]:
    """Bounds on each of some numbers that are not 0, [values]; powers of two are units."""
    highs, lows = np.log2(np.abs(values)).tolist(), _lowest_bits(values).tolist()
    return [Quotient(PolynomialBound(0.0, high, low), unit=high == low) for high, low in zip(highs, lows)]


def _lowest_bits(values: Array) -> Array:
    """The power of two of the last bit of each of some numbers that are finite and not 0, int64 [values]."""
    mantissa, exponent = np.frexp(np.abs(values))
    whole = (mantissa * 2.0**53).astype(np.int64)
    found: Array = exponent - 53 + np.log2(whole & -whole).astype(np.int64)
    return found
