"""Maxima and minima that start beyond all numbers."""

import math


def from_minus_infinity(a: list[float]) -> float:
    m = -math.inf
    for x in a:
        if x > m:
            m = x
    return m


def by_max(a: list[float]) -> float:
    m = float("-inf")
    for x in a:
        m = max(m, x)
    return m


def by_min(a: list[float]) -> float:
    m = float("inf")
    for i in range(len(a)):
        m = min(m, a[i])
    return m
