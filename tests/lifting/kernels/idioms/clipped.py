def image_smoother(img: list[list[int]]):
    m, n = len(img), len(img[0])
    out = [[0] * n for _ in range(m)]
    for i in range(m):
        for j in range(n):
            total = count = 0
            for r in range(max(0, i - 1), min(m, i + 2)):
                for c in range(max(0, j - 1), min(n, j + 2)):
                    total += img[r][c]
                    count += 1
            out[i][j] = total // count
    return out


def erosion(img: list[list[int]]):
    h, w = len(img), len(img[0])
    out = [[0] * w for _ in range(h)]
    for i in range(h):
        for j in range(w):
            least = 255
            for r in range(max(0, i - 1), min(h, i + 2)):
                for c in range(max(0, j - 1), min(w, j + 2)):
                    least = min(least, img[r][c])
            out[i][j] = least
    return out


def moving_mean(x: list[float]):
    n = len(x)
    y = [0.0] * n
    for i in range(n):
        lo, hi = max(0, i - 2), min(n, i + 3)
        s = 0.0
        for j in range(lo, hi):
            s += x[j]
        y[i] = s / (hi - lo)
    return y


def whole_mean(x: list[int]):
    n = len(x)
    y = [0] * n
    for i in range(n):
        lo, hi = max(0, i - 1), min(n, i + 2)
        s = 0
        for j in range(lo, hi):
            s += x[j]
        y[i] = s // (hi - lo)
    return y


def sums_of_slices(x: list[float]):
    n = len(x)
    return [sum(x[max(0, i - 2) : min(n, i + 3)]) for i in range(n)]


def largest_of_slices(x: list[float]):
    n = len(x)
    y = [0.0] * n
    for i in range(n):
        y[i] = max(x[max(0, i - 2) : min(n, i + 3)])
    return y


def largest_nearby(x: list[int]):
    n = len(x)
    y = [0] * n
    for i in range(n):
        largest = x[i]
        for j in range(max(0, i - 2), min(n, i + 3)):
            if x[j] > largest:
                largest = x[j]
        y[i] = largest
    return y


def last_four(x: list[float]):
    y = [0.0] * len(x)
    for i in range(len(x)):
        for j in range(max(0, i - 3), i + 1):
            y[i] += x[j]
    return y


def last_k(x: list[float], k: int):
    out = []
    for i in range(len(x)):
        lo = max(0, i - k + 1)
        out.append(sum(x[lo : i + 1]) / (i + 1 - lo))
    return out


def within_k(x: list[float], k: int):
    n = len(x)
    y = [0.0] * n
    for i in range(n):
        for j in range(max(0, i - k), min(n, i + k + 1)):
            y[i] += x[j]
    return y


def full_convolution(x: list[float], h: list[float]):
    n, m = len(x), len(h)
    y = [0.0] * (n + m - 1)
    for i in range(n + m - 1):
        for k in range(max(0, i - m + 1), min(i + 1, n)):
            y[i] += x[k] * h[i - k]
    return y


def next_k(x: list[float], k: int):
    return [sum(x[i : min(i + k, len(x))]) for i in range(len(x))]


def how_many_within(x: list[int], k: int):
    n = len(x)
    y = [0] * n
    for i in range(n):
        for _j in range(max(0, i - k), min(n, i + k + 1)):
            y[i] += 1
    return y


def next_of_boxes(x: list[int], a: int, b: int, c: int):
    y = [0] * len(x)
    for i in range(len(x)):
        for j in range(i, min(len(x), i + a * b * c)):
            y[i] += x[j]
    return y
