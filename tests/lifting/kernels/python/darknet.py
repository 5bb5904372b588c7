"""Array helpers of a convolutional network library."""


def mag_array(a: list[float], n: int) -> float:
    total = 0.0
    for i in range(n):
        total += a[i] * a[i]
    return total


def mse_array(a: list[float], n: int) -> float:
    total = 0.0
    for i in range(n):
        total += a[i] ** 2
    return total


def sum_array(a, n):
    total = 0
    for i in range(n):
        total += a[i]
    return total


def scale_array(a: list[float], n: int, s: float) -> None:
    for i in range(n):
        a[i] *= s


def translate_array(a: list[float], n: int, s: float) -> None:
    for i in range(n):
        a[i] += s


def mult_add_into_cpu(n: int, x: list[float], y: list[float], z: list[float]) -> None:
    for i in range(n):
        z[i] += x[i] * y[i]


def ol_l2_cpu1(n, pred, truth):
    error = []
    for i in range(n):
        diff = truth[i] - pred[i]
        error.append(diff * diff)
    return error


def ol_l2_cpu2(n, pred, truth):
    delta = []
    for i in range(n):
        diff = truth[i] - pred[i]
        delta.append(diff)
    return delta


def matrix_add_matrix(source: list[list[float]], target: list[list[float]]) -> None:
    for i in range(len(source)):
        for j in range(len(source[0])):
            target[i][j] += source[i][j]


def scale_matrix(m: list[list[float]], scale: float) -> None:
    for i in range(len(m)):
        for j in range(len(m[0])):
            m[i][j] *= scale
