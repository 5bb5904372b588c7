def blur(x: list[float], n: int):
    y = [0.0] * n
    for i in range(n):
        s = 0.0
        for k in range(-1, 2):
            s += x[max(0, min(n - 1, i + k))]
        y[i] = s / 3
    return y


def neighbours(x: list[float]):
    n = len(x)
    return [x[max(i - 1, 0)] + x[min(i + 1, n - 1)] for i in range(n)]


def box(x: list[list[float]]):
    h, w = len(x), len(x[0])
    y = [[0.0] * w for _ in range(h)]
    for i in range(h):
        for j in range(w):
            s = 0.0
            for a in range(-1, 2):
                for b in range(-1, 2):
                    s += x[min(max(i + a, 0), h - 1)][min(max(j + b, 0), w - 1)]
            y[i][j] = s / 9
    return y


def next_within(x: list[float], m: int):
    n = len(x)
    y = [0.0] * n
    for i in range(n):
        j = i + 1
        if j >= m:
            j = m - 1
        y[i] = x[j]
    return y


def next_as_in(x: list[float], z: list[float]):
    y = [0.0] * len(x)
    for i in range(len(x)):
        y[i] = x[min(i + 1, len(z) - 1)]
    return y


def clamped_by(x: list[float], lo: int, hi: int):
    n = len(x)
    y = [0.0] * n
    for i in range(n):
        y[i] = x[min(max(i, lo), hi)]
    return y
