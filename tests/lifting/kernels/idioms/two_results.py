def sum_and_squares(x: list[float], n: int):
    s = 0.0
    q = 0.0
    for i in range(n):
        s += x[i]
        q += x[i] * x[i]
    return s, q


def extremes_of(x: list[int]) -> tuple[int, int]:
    low, high = x[0], x[0]
    for each in x:
        low = min(low, each)
        high = max(high, each)
    return low, high


def mean_and_deviations(x: list[float]) -> tuple[float, list[float]]:
    mean = sum(x) / len(x)
    return mean, [each - mean for each in x]


def complex_product(a: list[float], b: list[float], c: list[float], d: list[float]):
    n = len(a)
    re = [0.0] * n
    im = [0.0] * n
    for i in range(n):
        re[i] = a[i] * c[i] - b[i] * d[i]
        im[i] = a[i] * d[i] + b[i] * c[i]
    return re, im


def sum_and_count(x: list[float], n: int):
    if n == 0:
        return 0.0, 0
    s = 0.0
    count = 0
    for i in range(n):
        if x[i] > 0.0:
            s += x[i]
            count += 1
    return s, count


def place_and_found(x: list[int], wanted: int):
    for i in range(len(x)):
        if x[i] == wanted:
            return i, True
    return -1, False


def scaled_in_place(x: list[float], f: float):
    s = 0.0
    for i in range(len(x)):
        x[i] = x[i] * f
        s += x[i]
    return x, s


def the_same_twice(x: list[int]):
    y = [each + 1 for each in x]
    return y, y


def middle_and_size(low: float, high: float):
    return (low + high) / 2.0, high - low


def taken_apart(x: list[float], y: list[float], n: int):
    out = [0.0] * n
    for i in range(n):
        middle, size = middle_and_size(x[i], y[i])
        out[i] = middle * size
    return out


def handed_on(x: list[float], n: int):
    s, q = sum_and_squares(x, n)
    return q + 1.0, s, n


def rows_and_columns(a: list[list[float]]):
    return a[0], len(a)
