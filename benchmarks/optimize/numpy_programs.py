"""`tensmith.optimize` on NumPy programs: how much faster each is, and by which rules it is equal.

    python -m benchmarks.optimize.numpy_programs [--seconds 8] [--only NAME,...]

Forty programs of our own in the style of suites that superoptimizers publish, and the kernels of
examples/lifting as people write them in NumPy. Ratios above 1 say that what `tensmith.optimize` gives is
faster than the function as it is written, calls through the dispatcher included, one thread each; where the
function itself comes back, the ratio is 1.
"""

from __future__ import annotations

import functools
import os
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

if __name__ == "__main__" and "OPENBLAS_NUM_THREADS" not in os.environ:
    alone = [sys.executable, "-m", "benchmarks.optimize.numpy_programs", *sys.argv[1:]]
    os.execve(sys.executable, alone, os.environ | {"OPENBLAS_NUM_THREADS": "1"})  # before NumPy is imported

import numpy as np

from benchmarks import parts, timing
from tensmith.superoptimize.admit import admit
from tensmith.superoptimize.domain import read_domain
from tensmith.superoptimize.pipeline import superoptimize

WANTED = 3.9  # times; published for such a suite: 3.8
LONGEST = 10.0  # seconds for one program
_RNG = np.random.default_rng(0)


@dataclass(frozen=True)
class Case:
    """A function with its arguments and what is promised of them."""

    function: Callable[..., Any]
    arguments: Sequence[Any]
    domain: dict[str, str]


CASES: dict[str, Case] = {}


def case(*arguments: Any, **domain: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Registers a function; tuples stand for arrays of random numbers from 0.5 to 1.5 of that shape."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        given = [_RNG.uniform(0.5, 1.5, a) if isinstance(a, tuple) else a for a in arguments]
        CASES[function.__name__] = Case(function, given, domain)
        return function

    return register


# Linear algebra


@case((300, 400), (400, 300))
def trace_of_product(a, b):
    return np.trace(a @ b)


@case((300, 400), (400, 300))
def diagonal_of_product(a, b):
    return np.diag(np.dot(a, b))


@case((400, 400), (400, 400), (400,))
def product_applied(a, b, x):
    return a @ b @ x


@case((300, 300), (300,))
def power_applied(a, x):
    return np.linalg.matrix_power(a / 400, 8) @ x


@case((500,), (500,), (500,))
def outer_applied(u, v, x):
    return np.outer(u, v) @ x


@case((600,), (600, 300))
def diagonal_applied(d, a):
    return np.diag(d) @ a


@case((200, 300), (300, 400))
def sum_of_product(a, b):
    return np.sum(a @ b)


@case((200, 200), (200, 200), (200, 200))
def common_factor(a, b, c):
    return a @ b + a @ c


@case((1000, 60), (60, 60))
def quadratic_forms(x, m):
    return np.diag(x @ m @ x.T)


@case((300, 300), (300,))
def residual_norm(a, x):
    return np.sum((a @ x - x) ** 2) ** 0.5


@case((400, 300), (300, 200), (200,))
def einsum_chain(a, b, x):
    return np.einsum("ij,jk,k->i", a, b, x)


@case((250, 250), (250, 250))
def frobenius_inner(a, b):
    return np.trace(a.T @ b)


# Sums of outer products and broadcasting


@case((1000,), (1500,))
def sum_of_outer(x, y):
    return np.sum(np.outer(x, y))


@case((1000,), (1000,))
def pair_sums(x, y):
    return np.sum(x[:, None] + y[None, :], axis=1)


@case((400, 8), (300, 8))
def squared_distances(x, y):
    return np.sum((x[:, None, :] - y[None, :, :]) ** 2, axis=2)


@case((300, 8), (300, 8))
def gaussian_kernel(x, y):
    return np.exp(-np.sum((x[:, None, :] - y[None, :, :]) ** 2, axis=-1) / 2)


@case((500, 300), (500,))
def weighted_rows(x, w):
    return np.sum(x * w[:, None], axis=1)


# Statistics


@case((2000, 60))
def standard_scores(x):
    return (x - np.mean(x, axis=0)) / np.std(x, axis=0)


@case((200000,))
def skewness(x):
    return np.mean((x - np.mean(x)) ** 3) / np.std(x) ** 3


@case((200000,))
def kurtosis(x):
    return np.mean((x - x.mean()) ** 4) / np.var(x) ** 2


@case((100000,), (100000,))
def correlation(x, y):
    a, b = x - np.mean(x), y - np.mean(y)
    return np.sum(a * b) / np.sqrt(np.sum(a**2) * np.sum(b**2))


@case((100000,), (100000,), x="positive")
def geometric_spread(x, y):
    return np.exp(np.log(x)) * np.sqrt(y * y) / np.abs(x)


@case((200000,), (200000,))
def root_mean_square_error(x, y):
    return np.sqrt(np.mean((x - y) ** 2))


@case((1000, 100), (1000, 100))
def cosine_similarity(x, y):
    return np.sum(x * y, axis=1) / (np.linalg.norm(x, axis=1) * np.linalg.norm(y, axis=1))


@case((100000,), (100000,))
def cross_entropy(p, q):
    return -np.sum(p * np.log(q) + (1 - p) * np.log(2 - q))


# Physics


@case((100000,), (100000,), (100000,))
def inverse_cube(x, y, z):
    return 1 / (x**2 + y**2 + z**2) ** 1.5


@case((100000,), r="positive")
def lennard_jones(r):
    return 4 * ((1 / r) ** 12 - (1 / r) ** 6)


@case((300, 3), (300,))
def gravity(position, mass):
    off = position[None, :, :] - position[:, None, :]
    cubed = (np.sum(off**2, axis=2) + 0.01) ** -1.5
    return np.sum(off * (cubed * mass[None, :])[:, :, None], axis=1)


@case((400, 400))
def laplacian(u):
    return u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4 * u[1:-1, 1:-1]


@case((500, 500), 0.1)
def heat_step(u, k):
    inner = u[1:-1, 1:-1]
    return inner + k * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4 * inner)


@case((100000,), (100000,))
def rotation(x, y):
    return np.sqrt((x * np.cos(0.3) - y * np.sin(0.3)) ** 2 + (x * np.sin(0.3) + y * np.cos(0.3)) ** 2)


@case((200000,), (200000,), (200000,))
def kinetic_energy(m, v, w):
    return np.sum(0.5 * m * v**2 + 0.5 * m * w**2)


@case((100000,))
def polynomial(x):
    return 3 * x**5 + 2 * x**4 - x**3 + 7 * x**2 - x + 1


# Finance


@case((100000,), (100000,), (100000,), 0.05, 0.2)
def option_price(s, k, t, r, sigma):
    root = sigma * np.sqrt(t)
    d1 = (np.log(s / k) + (r + sigma * sigma / 2) * t) / root
    d2 = d1 - root
    return s / (1 + np.exp(-1.702 * d1)) - k * np.exp(-r * t) / (1 + np.exp(-1.702 * d2))


@case((250, 400))
def log_returns(prices):
    return np.log(prices[1:]) - np.log(prices[:-1])


@case((500, 40), (40,))
def portfolio_variance(returns, weights):
    off = returns - np.mean(returns, axis=0)
    return weights @ (off.T @ off) @ weights / 499


@case((100000,))
def drawdown(returns):
    worth = np.cumsum(returns - 1)
    return np.min(worth - np.max(worth))


# Machine learning


@case((100000,), (100000,))
def logistic_gradient(x, y):
    return (1 / (1 + np.exp(-x)) - y) * x


@case((1000, 64))
def row_softmax(x):
    e = np.exp(x - np.max(x, axis=1, keepdims=True))
    return e / np.sum(e, axis=1, keepdims=True)


@case((100000,))
def gelu_by_tanh(x):
    return 0.5 * x * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x**3)))


# The kernels of examples/lifting, as they are written in NumPy


@case((480, 640))
def blur(image):
    rows = image[:, :-2] + image[:, 1:-1] + image[:, 2:]
    return (rows[:-2] + rows[1:-1] + rows[2:]) / 9


@case((640, 480), (640, 480), 77)
def blend(base, active, opacity):
    return (base * (255 - opacity) + active * opacity) / 255


@case((4096,), (4096,))
def rms_norm(x, weight):
    return weight * (x / np.sqrt(np.mean(x**2) + 1e-5))


@case((64, 64), (512, 64), (512, 64))
def attention(q, k, v):
    scores = q @ k.T / 8.0
    e = np.exp(scores - np.max(scores, axis=1, keepdims=True))
    return e / np.sum(e, axis=1, keepdims=True) @ v


def measured(case: Case, seconds: float) -> parts.Found:
    """One program: its figures, and a sentence where one is not what it should be."""
    admitted = admit(case.function)
    domain = read_domain(case.domain, admitted.parameters)
    began = time.perf_counter(), sum(os.times()[:4])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = superoptimize(admitted, tuple(case.arguments), domain, seconds)
    spent, busy = time.perf_counter() - began[0], sum(os.times()[:4]) - began[1]
    faster = found.speedup if found.program is not None else None
    row = {
        "ratio": faster.value if faster else 1.0,
        "low": faster.low if faster else 1.0,
        "high": faster.high if faster else 1.0,
        "difference": found.difference,
        "seconds": spent,
        "processor_seconds": busy,
        "rules": list(dict.fromkeys(step.rule for step in found.trail)),
        "reason": found.reason,
    }
    wrong = []
    if found.speedup is None:
        wrong.append(f"{admitted.name} was not optimized at all: {found.reason}")
    if busy > LONGEST:
        wrong.append(f"{admitted.name} took {busy:.1f} s of processors")
    return parts.Found({"programs": 1, "optimized": int(faster is not None)}, tuple(wrong), row)


def main() -> int:
    """1 if a figure is not reached."""
    parser = parts.arguments(__doc__)
    parser.add_argument("--seconds", type=float, default=8.0, help="for each program")
    parser.add_argument("--only", type=parts.names, default=[*CASES], help="programs, as A,B")
    options = parser.parse_args()
    document = parts.run(
        {name: CASES[name] for name in options.only},
        functools.partial(measured, seconds=options.seconds),
        options.output,
        {"bench": "numpy_programs", "seconds": options.seconds},
    )
    rows = document["rows"]
    value, low, high = timing.geometric([row["ratio"] for row in rows.values()])
    slower = [name for name, row in rows.items() if row["high"] < 1]
    print(f"{len(rows)} programs: {value:.2f}x of NumPy, 95 % interval {low:.2f} to {high:.2f}", end="; ")
    print(f"slower: {', '.join(slower) or 'none'}")
    return parts.ended(document) or int(value < WANTED or bool(slower))


if __name__ == "__main__":
    sys.exit(main())
