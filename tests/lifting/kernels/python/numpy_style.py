"""Kernels of several suites over NumPy arrays, element by element."""

import math

import numpy as np
from numpy.typing import NDArray


def multiply_blend_8(base: NDArray[np.uint8], active: NDArray[np.uint8]) -> NDArray[np.uint8]:
    out = np.empty_like(base)
    for i in range(base.shape[0]):
        for j in range(base.shape[1]):
            out[i, j] = (int(base[i, j]) * int(active[i, j])) // 255
    return out


def darken_blend_8(base: NDArray[np.uint8], active: NDArray[np.uint8]) -> NDArray[np.uint8]:
    rows, cols = base.shape
    out = np.zeros((rows, cols), dtype=np.uint8)
    for i in range(rows):
        for j in range(cols):
            out[i, j] = min(base[i, j], active[i, j])
    return out


def gemv(a: NDArray[np.float64], x: NDArray[np.float64]) -> NDArray[np.float64]:
    y = np.zeros(a.shape[0])
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            y[i] += a[i, j] * x[j]
    return y


def scale_matrix(m: NDArray[np.float32], scale: float) -> None:
    for i in range(m.shape[0]):
        for j in range(m.shape[1]):
            m[i, j] *= scale


def softmax_part2(x: NDArray[np.float64], max_val: float, out: NDArray[np.float64]) -> None:
    for i in range(len(x)):
        out[i] = math.exp(x[i] - max_val)


def transformer_part3(x: NDArray[np.float64]) -> NDArray[np.float64]:
    out = np.empty(x.shape[0])
    for i in range(x.shape[0]):
        out[i] = x[i] / (1.0 + np.exp(-x[i]))
    return out


def matadd(a: NDArray[np.int64], b: NDArray[np.int64], out: NDArray[np.int64]) -> None:
    m, n = out.shape
    for i in range(m):
        for j in range(n):
            out[i, j] = a[i, j] + b[i, j]


def n_real_updates(a: NDArray[np.float64], b: NDArray[np.float64], c: NDArray[np.float64]):
    d = c.copy()
    for i in range(len(c)):
        d[i] += a[i] * b[i]
    return d


def matmul(weight: NDArray[np.float64], x: NDArray[np.float64]):
    out = np.zeros(weight.shape[0])
    for i, row in enumerate(weight):
        for j, w in enumerate(row):
            out[i] += w * x[j]
    return out


def sum_array(a: NDArray[np.float64]) -> float:
    total = 0.0
    for value in a:
        total += value
    return total
