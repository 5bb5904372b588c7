"""NumPy's two kinds of maximum differ where one side is NaN."""

import numpy as np


def by_fmax(a: np.ndarray, b: np.ndarray):
    c = np.zeros(len(a))
    for i in range(len(a)):
        c[i] = np.fmax(a[i], b[i])
    return c


def by_fmin(a: np.ndarray, b: np.ndarray):
    c = np.zeros(len(a))
    for i in range(len(a)):
        c[i] = np.fmin(a[i], b[i])
    return c


def by_maximum(a: np.ndarray, b: np.ndarray):
    c = np.zeros(len(a))
    for i in range(len(a)):
        c[i] = np.maximum(a[i], b[i])
    return c


def from_minus_infinity(a: np.ndarray):
    m = -np.inf
    for i in range(len(a)):
        m = max(m, a[i])
    return m
