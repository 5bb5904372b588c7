"""Two of the basic linear algebra subprograms."""


def dot(a: list[float], b: list[float], n: int) -> float:
    total = 0.0
    for i in range(n):
        total += a[i] * b[i]
    return total


def gemv(m, n, a, x):
    y = [0] * m
    for i in range(m):
        for j in range(n):
            y[i] += a[i][j] * x[j]
    return y
