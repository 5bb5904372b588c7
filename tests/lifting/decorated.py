"""Functions for the decorator's tests: it reads its functions from a file."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import List  # noqa: UP035
from typing import Sequence as Several  # noqa: UP035

import numpy as np
from numpy import float64 as Number
from numpy.typing import NDArray
from numpy.typing import NDArray as Numbers

import tensmith

BIAS = 3
WEIGHTS = [1, 2, 1]
GRID = [[1, 2], [3, 4]]
runs: list[str] = []


def squared(x):
    return x * x


@tensmith.lift
def plain(a, n):
    total = 0
    for i in range(n):
        total += squared(a[i]) + BIAS
    return total


@tensmith.lift(to="torch")
def scaled(a, s: float):
    out = []
    for x in a:
        out.append(math.exp(x) * s)
    return out


@tensmith.lift(to="numpy")
def in_place(a: NDArray[np.float32], b, n: int):
    for i in range(n):
        a[i] = a[i] + b[i]


@tensmith.lift
def smoothed(a):
    out = np.zeros(len(a) - 2)
    for i in range(len(a) - 2):
        out[i] = a[i] * WEIGHTS[0] + a[i + 1] * WEIGHTS[1] + a[i + 2] * WEIGHTS[2]
    return out


@tensmith.lift
def early(a):
    total = 0
    for x in a:
        if x < 0:
            return total
        total += x
    return 0


@tensmith.lift
def counted(a):
    runs.append("run")
    return a[0]


def outer(wrapped):
    """Wraps without the syntax of a decorator, so that nothing of it shows in the source."""

    @functools.wraps(wrapped)
    def call(*arguments):
        return wrapped(*arguments) + 100

    return call


def tripled(x: int) -> int:
    return 3 * x


tripled = outer(tripled)


def uses_a_wrapper(x: int) -> int:
    return tripled(x) + 1


def sum_of_squares(a) -> int:
    return sum(a)


def sum(a) -> int:
    total = 0
    for x in a:
        total += x * x
    return total


def closed(k):
    """A function over a variable of its maker."""

    def times(x: int) -> int:
        return x * k

    return times


def first_is_one(a):
    a[0] = 1


@tensmith.lift
def multiplied(x):
    product = 1
    for v in x:
        product *= v
    return product


@tensmith.lift
def differences(x, y, k):
    out = [0] * len(x)
    for i in range(1, len(x)):
        out[i] = (x[i] - x[i - 1]) * y[i] * k
    return out


@tensmith.lift
def mean(x: list[float]):
    total = 0.0
    for v in x:
        total += v
    return total / len(x)


@tensmith.lift
def shift(x, y):
    for i in range(len(x) - 1):
        x[i + 1] = y[i]


@tensmith.lift
def first_column(rows, v: int):
    for i in range(len(rows)):
        rows[i][0] = v + i


@tensmith.lift
def logistic(x: list[float]):
    return [1.0 / (1.0 + math.exp(-v)) for v in x]


@tensmith.lift
def above(x: list[float], y: list[float]):
    count = 0
    for i in range(len(x)):
        if x[i] / y[i] > 1.0:
            count += 1
    return count


@tensmith.lift
def asserted(x: list[float]):
    assert len(x) > 0
    total = 0.0
    for v in x:
        total += v
    return total


@tensmith.lift
def widest(x: list[float], n: int):
    return max(x[i] for i in range(n))


@tensmith.lift
def halves(x):
    return [(v >> 1) + (v & 255) for v in x]


@tensmith.lift
def whole(x: list[float]):
    return [int(v) for v in x]


@tensmith.lift
def rests(x: list[float], y: float):
    return [v % y for v in x]


@tensmith.lift
def dot(a, b):
    found = np.int64(0)
    for i in range(len(a)):
        found += a[i] * b[i]
    return found


@tensmith.lift
def steps(n, m):
    found = 0
    for _ in range(n * m):
        found += 1
    return found


@tensmith.lift
def digits(x: list[float]):
    return [int(math.log10(v)) + 1 for v in x]


def largest(x: list[int]):
    found = 0
    for v in x:
        if v > found:
            found = v
    return found


def total(x: list[float]):
    found = 0.0
    for v in x:
        found += v
    return found


def total_of_rows(rows: list[list[float]]):
    found = 0.0
    for row in rows:
        for v in row:
            found += v
    return found


@tensmith.lift(to="numpy")
def raised_by(a: list[float], k: bool) -> list[float]:
    return [v + k for v in a]


@tensmith.lift
def grid_written(n: int):
    for row in GRID:
        row[0] = n
    return n


def to_count(a: list[float], n: int):
    found = 0.0
    i = 0
    while i < n:
        found += a[i]
        i += 1
    return found


def shares_before(a, b):
    out = []
    total = 0.0
    for i in range(len(a)):
        out.append(total)
        total += a[i] / b[i]
    return out


def largest_product(a: list[float], b: list[float]):
    found = 0.0
    for i in range(len(a)):
        found = max(found, a[i] * b[i])
    return 1 if found > 1.0 else 0


def heavy_rows(a: list[list[float]], x: list[float]):
    count = 0
    for i in range(len(x)):
        total = 0.0
        for j in range(i + 1):
            total += a[i][j] * x[j]
        if total > 1.0:
            count += 1
    return count


def named_otherwise(k: int):
    """A function whose name is not that of its def."""

    def times(x: int) -> int:
        return x * k

    times.__name__ = f"times_{k}"
    return times


def total_of_whole(x: list[int]):
    found = 0
    for v in x:
        found += v
    return found


def typed(x: List[float], y: Sequence[float], z: NDArray[np.float64]):  # noqa: UP006
    found = 0.0
    for i in range(len(x)):
        found += x[i] * y[i] * z[i]
    return found


def typed_by_other_names(x: Several[float], y: Numbers[Number]):
    return Number(x[0]) * y[0]


RATE = np.float64(0.5)


RATES = [np.float32(0.5), np.float32(0.25)]
MIXED = [np.float64(0.5), 0.25]


def rated(x: NDArray[np.float32]):
    return [v * RATE for v in x]


def rated_each(x: NDArray[np.float32]):
    return x[0] * RATES[0] + x[1] * RATES[1]


def rated_by_several(x: NDArray[np.float32]):
    return x[0] * MIXED[1]


def with_length_1(x: NDArray[np.float64]):
    found = np.zeros(len(x))
    total = np.float64(0)
    for v in x:
        total += v * v
    for i in range(len(x)):
        found[i] = x[i] / total**0.5
    return found


def rows_with_length_1(x: NDArray[np.float64], n: int, m: int):
    found = np.zeros((n, m))
    for i in range(n):
        total = np.float64(0)
        for j in range(m):
            total += x[i, j] * x[i, j]
        for j in range(m):
            found[i, j] = x[i, j] / total**0.5
    return found


def is_long(x: NDArray[np.float64]):
    total = np.float64(0)
    for v in x:
        total -= v
    return 1 if total**0.5 > 1.0 else 0
