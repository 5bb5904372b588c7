"""Arithmetics a program can be run in: floats as NumPy has them, and a prime field.

An op's meaning is written once, over one of these. In the field, arithmetic is exact, and every function
that is not arithmetic (exp, max, a comparison) is a fresh random function, the same for every program run
with the same seed. Two programs that agree there for random inputs are equal as formulas, up to a false
pass of probability at most degree / p for each prime (Schwartz 1980, Zippel 1979).
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from tensmith.formula.functions import EXTREMES, MIRRORED, POSITIVE

Array: TypeAlias = npt.NDArray[Any]


class Arith(Protocol):
    """What an op's meaning may do with real numbers. Arrays broadcast as NumPy's do."""

    exact: bool

    def const(self, value: Array | float, like: Array | None = None) -> Array:
        """A constant, in the dtype of `like` where floats have one."""

    def add(self, a: Array, b: Array) -> Array:
        """a + b."""

    def sub(self, a: Array, b: Array) -> Array:
        """a - b."""

    def mul(self, a: Array, b: Array) -> Array:
        """a * b."""

    def div(self, a: Array, b: Array) -> Array:
        """a / b, real division."""

    def matmul(self, a: Array, b: Array) -> Array:
        """Matrix product over the last two axes, leading axes broadcast."""

    def sum(self, a: Array, axis: int | tuple[int, ...] | None, keepdims: bool = False) -> Array:
        """Sum over axes."""

    def max(self, a: Array, axis: int | tuple[int, ...] | None, keepdims: bool = False) -> Array:
        """Maximum over axes."""

    def call(self, function: str, *args: Array) -> Array:
        """A named scalar function: one of FUNCTIONS, or any name in an exact arithmetic."""

    def compare(self, relation: str, a: Array, b: Array) -> Array:
        """Booleans of less, less_equal, greater, greater_equal or equal."""


def _erf(x: Array) -> Array:
    """erf to float64 precision, vectorised (W. J. Cody 1969 through math.erf)."""
    return np.asarray(np.vectorize(math.erf, otypes=[np.float64])(x)).astype(x.dtype)


def _round_even(x: Array) -> Array:
    return x if x.dtype.kind in "iub" else np.asarray(np.rint(x))


def _of_machine(value: Array) -> Array:
    """An array of machine numbers; TypeError for Python's: powers and shifts of these have no end."""
    array = np.asarray(value)
    if array.dtype == object:
        raise TypeError("no power or shift of sizes")
    return array


def _left_shift(a: Array, b: Array) -> Array:
    return np.asarray(np.left_shift(_of_machine(a), _of_machine(b)))


def power(base: Array, exponent: Array) -> Array:
    """NumPy's; whole numbers by negative ones are quotients, and as these rounded toward 0, and 0 is 0."""
    base, exponent = _of_machine(base), _of_machine(exponent)
    whole = base.dtype.kind in "iu" and exponent.dtype.kind == "i"
    if not whole or not (exponent < 0).any():
        return np.asarray(np.power(base, exponent))
    sign = np.where(exponent % 2, base, base * base)  # of 1 and -1
    inverse = np.where(abs(base) == 1, sign, 0) if base.dtype.kind == "i" else base == 1
    return np.asarray(np.where(exponent < 0, inverse, np.power(base, np.maximum(exponent, 0))))


FUNCTIONS: dict[str, Any] = {
    "exp": np.exp, "log": np.log, "log1p": np.log1p, "sqrt": np.sqrt, "erf": _erf,
    "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan,
    "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh,
    "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
    "floor": np.floor, "ceil": np.ceil, "round": _round_even, "sign": np.sign, "abs": np.abs,
    "maximum": np.maximum, "minimum": np.minimum, "pow": power,
    "fmod": np.fmod, "mod": np.mod, "trunc": np.trunc,
    "isnan": np.isnan, "isinf": np.isinf, "isposinf": np.isposinf, "isneginf": np.isneginf,
    "bitwise_and": np.bitwise_and, "bitwise_or": np.bitwise_or, "bitwise_xor": np.bitwise_xor,
    "bitwise_not": np.bitwise_not, "left_shift": _left_shift, "right_shift": np.right_shift,
}  # fmt: skip

_LOWEST, _HIGHEST = -1200, 1100


@lru_cache(maxsize=64)
def _powers_of_two(p: int) -> Array:
    """2**e mod p for every exponent e from _LOWEST on that a float64 needs."""
    return np.array([pow(2, e, p) for e in range(_LOWEST, _HIGHEST)], dtype=np.int64)


COMPARISONS: dict[str, Any] = {
    "less": np.less,
    "less_equal": np.less_equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
    "equal": np.equal,
}


class Floats:
    """NumPy's own arithmetic, in the dtype of the operands; also serves integers and object arrays."""

    exact = False

    def const(self, value: Array | float, like: Array | None = None) -> Array:
        """See Arith."""
        return np.asarray(value, dtype=None if like is None else like.dtype)

    def add(self, a: Array, b: Array) -> Array:
        """See Arith."""
        return np.asarray(a + b)

    def sub(self, a: Array, b: Array) -> Array:
        """See Arith."""
        return np.asarray(a - b)

    def mul(self, a: Array, b: Array) -> Array:
        """See Arith."""
        return np.asarray(a * b)

    def div(self, a: Array, b: Array) -> Array:
        """See Arith."""
        return np.asarray(a / b)

    def matmul(self, a: Array, b: Array) -> Array:
        """See Arith."""
        return np.asarray(np.matmul(a, b))

    def sum(self, a: Array, axis: int | tuple[int, ...] | None, keepdims: bool = False) -> Array:
        """See Arith."""
        return np.asarray(np.sum(a, axis=axis, keepdims=keepdims, dtype=a.dtype))

    def max(self, a: Array, axis: int | tuple[int, ...] | None, keepdims: bool = False) -> Array:
        """See Arith."""
        return np.asarray(np.max(a, axis=axis, keepdims=keepdims))

    def call(self, function: str, *args: Array) -> Array:
        """See Arith."""
        return np.asarray(FUNCTIONS[function](*args))

    def compare(self, relation: str, a: Array, b: Array) -> Array:
        """See Arith."""
        return np.asarray(COMPARISONS[relation](a, b))


# Multiply-adds of one tile: what OpenBLAS does in the calling thread. Its own threads spin while they wait,
# which costs more than they give where fields already run in threads, or where the machine is busy.
_TILE = 2**18


def _product(a: Array, b: Array) -> Array:
    """The float64 product of stacks of matrices, tile by tile."""
    rows, depth, columns = a.shape[-2], a.shape[-1], b.shape[-1]
    if rows * depth * columns <= _TILE:
        return np.asarray(np.matmul(a, b))
    tall, deep = min(rows, 32), min(depth, 256)
    wide = _TILE // (tall * deep)
    result = np.zeros((*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), rows, columns))
    for j in range(0, columns, wide):
        for k in range(0, depth, deep):
            block = np.ascontiguousarray(b[..., k : k + deep, j : j + wide])
            for i in range(0, rows, tall):
                result[..., i : i + tall, j : j + wide] += np.matmul(
                    a[..., i : i + tall, k : k + deep], block
                )
    return result


@dataclass(frozen=True)
class PrimeField:
    """Arithmetic modulo a prime p < 2**21, on int64 arrays holding 0 .. p-1.

    Products of matrices go through float64 BLAS in slices of at most 2**53 / p**2 terms, which is exact.
    """

    p: int
    seed: int
    exact = True

    def const(self, value: Array | float, like: Array | None = None) -> Array:
        """The residues of exact binary values: m * 2**e becomes m * (2**e mod p)."""
        array = np.asarray(value)
        if array.dtype.kind in "iub":
            whole = array.astype(np.int64)
            least, most = whole.min(initial=0), whole.max(initial=0)
            return whole if least >= 0 and most < self.p else np.asarray(whole % self.p)
        values = array.astype(np.float64)
        finite = np.isfinite(values)
        bounded = bool(np.all(finite))
        mantissa, exponent = np.frexp(values if bounded else np.where(finite, values, 0.0))
        digits = np.asarray(mantissa * 2.0**53).astype(np.int64)
        residues = (digits % self.p) * _powers_of_two(self.p)[exponent - (53 + _LOWEST)] % self.p
        if bounded:
            return np.asarray(residues)
        # Infinities and NaN are no field elements: each gets one fixed value of its own.
        codes = np.where(np.isnan(values), 0, np.where(values > 0, 1, 2))
        return np.where(finite, residues, self._mix("non-finite", codes))

    def add(self, a: Array, b: Array) -> Array:
        """See Arith."""
        return np.asarray((a + b) % self.p)

    def sub(self, a: Array, b: Array) -> Array:
        """See Arith."""
        return np.asarray((a - b) % self.p)

    def mul(self, a: Array, b: Array) -> Array:
        """See Arith."""
        return np.asarray((a * b) % self.p)

    def div(self, a: Array, b: Array) -> Array:
        """a times the inverse of b (b ** (p-2), Fermat); 1/0 is 0."""
        result = np.asarray(a, dtype=np.int64)
        power, square = self.p - 2, np.asarray(b, dtype=np.int64)
        while power:
            if power & 1:
                result = result * square % self.p
            square = square * square % self.p
            power >>= 1
        return np.asarray(result)

    def matmul(self, a: Array, b: Array) -> Array:
        """See Arith."""
        terms = 2**53 // (self.p * self.p)
        left, right = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
        if right.ndim == 1:
            return np.asarray(self.matmul(a, np.asarray(b)[:, None])[..., 0])
        if left.ndim == 1:
            return np.asarray(self.matmul(np.asarray(a)[None, :], b)[..., 0, :])
        total = np.zeros((), dtype=np.int64)
        for start in range(0, max(left.shape[-1], 1), terms):
            part = _product(left[..., start : start + terms], right[..., start : start + terms, :])
            total = (total + part.astype(np.int64)) % self.p
        return np.asarray(total)

    def sum(self, a: Array, axis: int | tuple[int, ...] | None, keepdims: bool = False) -> Array:
        """See Arith."""
        return np.asarray(np.sum(a, axis=axis, keepdims=keepdims, dtype=np.int64) % self.p)

    def max(self, a: Array, axis: int | tuple[int, ...] | None, keepdims: bool = False) -> Array:
        """A random function of the set of elements: order and repetition do not matter."""
        # Canonical representatives: the maximum of hashed values, then hashed back, is order-free.
        hashed = self._mix("max", a)
        return np.asarray(np.max(hashed, axis=axis, keepdims=keepdims))

    def call(self, function: str, *args: Array) -> Array:
        """A random function of that name; extremes are symmetric and idempotent, some never 0."""
        if function in EXTREMES:
            a, b = np.broadcast_arrays(*args)
            first, second = np.minimum(a, b), np.maximum(a, b)
            return np.where(first == second, first, self._mix(function, first, second))
        if function in POSITIVE:
            return np.asarray(1 + self._mix(function, *args) % (self.p - 1))
        return self._mix(function, *args)

    def compare(self, relation: str, a: Array, b: Array) -> Array:
        """Random booleans, except that `equal` is equality and mirrored relations agree."""
        if relation == "equal":
            return np.asarray(a == b)
        if relation in MIRRORED:
            relation, a, b = MIRRORED[relation], b, a
        return np.asarray(self._mix(relation, a, b) & 1 == 1)

    def random(self, name: str, shape: tuple[int, ...]) -> Array:
        """Uniform residues that depend only on the seed, the name and the shape."""
        digest = hashlib.sha256(f"{self.seed}/{self.p}/{name}/{shape}".encode()).digest()
        generator = np.random.default_rng(int.from_bytes(digest[:16], "little"))
        return generator.integers(0, self.p, size=shape, dtype=np.int64)

    def _mix(self, function: str, *args: Array) -> Array:
        """A keyed hash of field elements into the field."""
        return np.asarray(self._hash(function, *args) % np.uint64(self.p)).astype(np.int64)

    def _hash(self, function: str, *args: Array) -> Array:
        """A keyed hash of field elements into 64 bits (splitmix64 finaliser, Steele et al. 2014)."""
        digest = hashlib.sha256(f"{self.seed}/{self.p}/{function}".encode()).digest()
        state: Any = np.uint64(int.from_bytes(digest[:8], "little"))
        for position, arg in enumerate(args):
            with np.errstate(over="ignore"):
                key = np.uint64(
                    int.from_bytes(digest[8:16], "little") ^ (position * 0x9E3779B97F4A7C15) & (2**64 - 1)
                )
                shift = state * np.uint64(0xD1342543DE82EF95) + key
                state = scramble(np.asarray(np.asarray(arg).astype(np.uint64) + shift))
        return np.asarray(state)


def scramble(state: Array) -> Array:
    """The finaliser of splitmix64, in place: a bijection of 64 bits under which close numbers part."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        state ^= state >> np.uint64(shift)
        state *= np.uint64(factor)
    state ^= state >> np.uint64(31)
    return state
