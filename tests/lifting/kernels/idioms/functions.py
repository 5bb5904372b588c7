import math

import numpy as np


def bent(x):
    y = np.zeros(len(x))
    for i in range(len(x)):
        y[i] = x[i] * math.erf(x[i] / math.sqrt(2))
    return y


def turned(x: np.ndarray) -> np.ndarray:
    y = np.zeros(len(x))
    for i in range(len(x)):
        y[i] = np.arcsinh(x[i]) + np.arctan(x[i])
    return y


def decibels(a: list[float]) -> list[float]:
    return [10.0 * math.log10(abs(v) + 1e-6) for v in a]


def lengths_of_pairs(a: list[float], b: list[float]) -> list[float]:
    out = []
    for i in range(len(a)):
        out.append(np.hypot(a[i], b[i]))
    return out
