"""Running maxima, minima and products."""

import numpy as np


def highest(a: list[float]) -> list[float]:
    out = []
    m = a[0]
    for x in a:
        m = max(m, x)
        out.append(m)
    return out


def highest_before(a: list[int], start: int) -> list[int]:
    out = [0] * len(a)
    m = start
    for i in range(len(a)):
        out[i] = m
        m = max(m, a[i])
    return out


def lowest(a: np.ndarray, out: np.ndarray) -> None:
    m = np.inf
    for i in range(len(a)):
        if a[i] < m:
            m = a[i]
        out[i] = m


def highest_and_lowest(a: list[float], high: list[float], low: list[float]) -> None:
    h = a[0]
    least = a[0]
    for i in range(len(a)):
        if a[i] > h:
            h = a[i]
        elif a[i] < least:
            least = a[i]
        high[i] = h
        low[i] = least


def product(a: list[float]) -> list[float]:
    out = []
    p = 1.0
    for x in a:
        p *= x
        out.append(p)
    return out


def product_before(a: list[float]) -> list[float]:
    out = [0.0] * len(a)
    p = 1.0
    for i in range(len(a)):
        out[i] = p
        p *= a[i]
    return out
