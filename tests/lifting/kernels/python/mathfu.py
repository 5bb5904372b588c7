"""Vector operators of a geometry library."""


def len(a, n):
    total = 0
    for i in range(n):
        total += a[i] * a[i]
    return total


def len_sq(a: list[float], n: int) -> float:
    return sum(a[i] * a[i] for i in range(n))


def negate(a, n):
    out = []
    for i in range(n):
        out.append(-a[i])
    return out


def pluseq(a, b, n):
    for i in range(n):
        a[i] += b[i]
    return a


def subeq(a, b, n):
    for i in range(n):
        a[i] -= b[i]
    return a


def muleq(a: list[float], b: list[float], n: int):
    for i in range(n):
        a[i] *= b[i]
    return a


def diveq(a: list[float], b: list[float], n: int):
    for i in range(n):
        a[i] /= b[i]
    return a


def subeq_sca(a, b, n):
    for i in range(n):
        a[i] = a[i] - b


def muleq_sca(a, b, n):
    for i in range(n):
        a[i] = a[i] * b


def diveq_sca(a, b, n):
    for i in range(n):
        a[i] //= b


def matmul_sca(a: list[list[float]], v: float, m: int, n: int):
    for i in range(m):
        for j in range(n):
            a[i][j] *= v
