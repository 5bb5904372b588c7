"""NumPy functions of all kinds, each with arguments: a name -> (function, arguments)."""

from __future__ import annotations

from typing import Any

import numpy as np

_RNG = np.random.default_rng(0)
FUNCTIONS: dict[str, tuple[Any, tuple[Any, ...]]] = {}
SCALE = 3.0


def on(*arguments: Any) -> Any:
    """Registers a function; tuples are shapes of arrays of positive numbers."""

    def register(function: Any) -> Any:
        given = tuple(_RNG.uniform(0.2, 1.8, a) if isinstance(a, tuple) else a for a in arguments)
        FUNCTIONS[function.__name__] = function, given
        return function

    return register


@on((3, 4), (4,))
def arithmetic(x, y):
    return -x * y + x / (y + 2) - np.abs(x - y) ** 3 + np.square(x) - 2**y


@on((5,), (5,))
def functions(x, y):
    z = np.exp(x) + np.log(x) + np.sqrt(y) + np.sin(x) * np.cos(y) + np.tanh(x) + np.arctan(y)
    return z + np.log2(x) + np.log10(y) + np.exp2(x) + np.hypot(x, y) + np.floor(4 * x) + np.sign(x - 1)


@on((4, 3), (4, 3))
def choices(x, y):
    return np.where((x > y) & ~(x >= 1.5), np.maximum(x, y), np.clip(x, 0.5, 1.0)) + np.where(
        x != y, 1.0, 0.0
    )


@on((4, 5))
def reductions(x):
    return x.sum(axis=0) + x.mean(axis=0) - x.max(axis=0) * np.min(x) + np.prod(x, axis=0) + np.ptp(x, axis=0)


@on((4, 5))
def spreads(x):
    return (
        x.std()
        + np.var(x, ddof=1)
        + np.linalg.norm(x)
        + np.linalg.norm(x[0], 1)
        + np.linalg.norm(x[1], np.inf)
    )


@on((4, 5), (4,))
def averages(x, w):
    return np.average(x, axis=0, weights=w) + np.sum(x, axis=(0,), keepdims=True)


@on((6,))
def running(x):
    return np.cumsum(x) + np.cumprod(x) + np.flip(x) + np.roll(x, 2) + x[::-1]


@on((3, 4, 5))
def axes(x):
    return (
        x.transpose(2, 0, 1) + np.swapaxes(np.moveaxis(x, 0, -1), 0, 1).reshape(5, 3, 4) + x.T.swapaxes(1, 2)
    )


@on((6, 5))
def parts(x):
    return x[1:-1, ::2] + x[2, None, [0, 2, 4]] if False else x[1:-1, ::2] * x[..., 1:4][:4] + x[-1, 2]


@on((6, 5))
def picked(x):
    return x[[0, 2, 2]] + np.take(x, [1, 1, 0], axis=0) + np.diff(x, axis=0)[:3] * x[np.arange(3), :]


@on((3, 4), (3, 4))
def joined(x, y):
    return (
        np.concatenate([x, y], axis=1).sum()
        + np.stack([x, y])
        + np.vstack((x, y))[:3]
        + np.hstack((x, y))[:, 4:]
    )


@on((3,), (4,))
def spread(x, y):
    return (
        np.outer(x, y)
        + np.multiply.outer(x, y)
        + np.broadcast_to(y, (3, 4))
        + x[:, np.newaxis]
        + np.tile(y, (3, 1))
    )


@on((3, 4), (4, 5), (5,))
def products(a, b, x):
    return a @ b @ x + np.dot(a, b).dot(x) + np.inner(a, b.T) @ x + np.tensordot(a, b, axes=1) @ x


@on((4, 4), (4,))
def diagonals(a, d):
    return (
        np.diag(d) @ a
        + np.trace(a)
        + np.diagonal(a) * np.diag(a)
        + np.vdot(d, d)
        + np.linalg.matrix_power(a, 3)
    )


@on((2, 3), (3, 4), (4,))
def einsums(a, b, x):
    return np.einsum("ij,jk,k->i", a, b, x) + np.einsum("ij->i", a) + np.linalg.multi_dot([a, b, x])


@on((4, 4), (4, 2))
def outside(a, b):
    return np.linalg.inv(a) @ b + np.linalg.det(a) + np.sort(b, axis=0) + np.cov(a)[:, :2]


@on((5,), 0.5)
def numbers(x, rate):
    return x * (1 + rate) ** 2 - rate * np.exp(-rate * np.pi)


@on((5,), 3)
def counted(x, n):
    total = np.zeros_like(x)
    for power in range(1, n + 1):
        total += x**power / power
    return total if n > 2 else x + 1


@on((4, 3))
def helped(x):
    return centered(x) / SCALE, centered(x.T).sum()


def centered(x):
    """A helper."""
    return x - x.mean(axis=0)


@on(np.arange(6).reshape(2, 3), (2, 3))
def whole(n, x):
    return n * x + n.sum() + (n * n - n).sum(axis=1, keepdims=True) / 2


@on(np.linspace(0, 1, 6, dtype=np.float32), 0.25)
def single(x, k):
    return x * k + np.float32(2) * np.sqrt(x)


@on((5,), (4,), 0.5)
def summed(x, y, rate):
    total, share = x.sum(), rate
    total += y.sum()
    share *= 2
    return (x * total).astype(np.float32) * share
