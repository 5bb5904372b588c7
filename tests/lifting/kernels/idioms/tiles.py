def each_pixel_four_times(x: list[list[float]]):
    return [[x[i // 2][j // 2] for j in range(2 * len(x[0]))] for i in range(2 * len(x))]


def enlarged(x: list[list[float]], s: int):
    return [[x[i // s][j // s] for j in range(len(x[0]) * s)] for i in range(len(x) * s)]


def both_rolled(x: list[list[float]], s: int, t: int):
    n = len(x)
    m = len(x[0])
    return [[x[(i + s) % n][(j + t) % m] for j in range(m)] for i in range(n)]


def repeated(x: list[list[float]], n: int, m: int):
    return [[x[i % len(x)][j % len(x[0])] for j in range(m)] for i in range(n)]
