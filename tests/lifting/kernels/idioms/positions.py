"""What lies at quotients and remainders of counters, and windows that end at the borders."""


def bias_of_each_channel(x: list[float], b: list[float]) -> list[float]:
    return [x[i] + b[i % len(b)] for i in range(len(x))]


def each_sample_twice(x: list[float]) -> list[float]:
    return [x[i // 2] for i in range(2 * len(x))]


def rotated(x: list[float], shift: int) -> list[float]:
    n = len(x)
    return [x[(i + shift) % n] for i in range(n)]


def window_inside(x: list[float], w: list[float], r: int) -> list[float]:
    n = len(x)
    out = [0.0] * n
    for i in range(n):
        for k in range(-r, r + 1):
            if 0 <= i + k < n:
                out[i] += x[i + k] * w[k + r]
    return out


def strided_convolution(x: list[float], w: list[float]) -> list[float]:
    out = []
    for i in range((len(x) - len(w)) // 2 + 1):
        s = 0.0
        for k in range(len(w)):
            s += x[2 * i + k] * w[k]
        out.append(s)
    return out
