"""Vectors and matrices of a signal processing library."""


def vadd(a, b, n):
    out = []
    for i in range(n):
        out.append(a[i] + b[i])
    return out


def vsub(a, b, n):
    return [a[i] - b[i] for i in range(n)]


def vmul(a, b, n):
    out = [0] * n
    for i in range(n):
        out[i] = a[i] * b[i]
    return out


def vcopy(a, n):
    out = []
    for i in range(n):
        out.append(a[i])
    return out


def vneg(a, n):
    out = []
    for i in range(n):
        out.append(-a[i])
    return out


def voffset(a, v, n):
    out = []
    for i in range(n):
        out.append(a[i] + v)
    return out


def vrecip(a, n):
    out = []
    for i in range(n):
        out.append(1 // a[i])
    return out


def vscal(a, v, n):
    out = [0 for _ in range(n)]
    for i in range(n - 1, -1, -1):
        out[i] = a[i] * v
    return out


def wvec(a, b, m, n):
    out = []
    for i in range(n):
        out.append(m * a[i] + b[i])
    return out


def matadd(a, b, m, n):
    out = []
    for i in range(m):
        row = []
        for j in range(n):
            row.append(a[i][j] + b[i][j])
        out.append(row)
    return out


def matsub(a, b, m, n):
    out = [[0] * n for _ in range(m)]
    for i in range(m):
        for j in range(n):
            out[i][j] = a[i][j] - b[i][j]
    return out


def matscal(a, v, m, n):
    return [[v * a[i][j] for j in range(n)] for i in range(m)]
