"""Filters of a signal processing benchmark."""


def fir_small(taps, signal, coefficient):
    total = 0
    for i in range(taps):
        total += signal[i] * coefficient[i]
    return total


def lmsfir1(taps, signal, coefficient):
    total = 0
    i = 0
    while i < taps:
        total += signal[i] * coefficient[i]
        i += 1
    return total


def lmsfir2(taps: int, signal: list[float], coefficient: list[float], error: float) -> list[float]:
    out = []
    for i in range(taps - 1):
        out.append(coefficient[i] + signal[i] * error)
    return out
