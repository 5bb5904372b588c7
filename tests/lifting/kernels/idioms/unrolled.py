"""Loops unrolled by hand, with another loop for what is left over."""


def unrolled_dot(a: list[float], b: list[float], n: int) -> float:
    s = 0.0
    i = 0
    while i + 4 <= n:
        s += a[i] * b[i]
        s += a[i + 1] * b[i + 1]
        s += a[i + 2] * b[i + 2]
        s += a[i + 3] * b[i + 3]
        i += 4
    while i < n:
        s += a[i] * b[i]
        i += 1
    return s


def unrolled_scale(a: list[int], c: int, out: list[int]) -> None:
    n = len(a)
    m = n // 4 * 4
    for i in range(0, m, 4):
        out[i] = c * a[i]
        out[i + 1] = c * a[i + 1]
        out[i + 2] = c * a[i + 2]
        out[i + 3] = c * a[i + 3]
    for i in range(m, n):
        out[i] = c * a[i]


def unrolled_into_two(a: list[float], b: list[float]) -> float:
    n = len(a)
    s0 = s1 = 0.0
    for i in range(0, n - n % 2, 2):
        s0 += a[i] * b[i]
        s1 += a[i + 1] * b[i + 1]
    for i in range(n - n % 2, n):
        s1 += a[i] * b[i]
    return s0 + s1
