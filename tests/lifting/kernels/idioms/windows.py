def same_convolution(x: list[list[float]], k: list[list[float]]):
    h, w = len(x), len(x[0])
    y = [[0.0] * w for _ in range(h)]
    for i in range(h):
        for j in range(w):
            s = 0.0
            for a in range(3):
                for b in range(3):
                    r, c = i + a - 1, j + b - 1
                    if 0 <= r < h and 0 <= c < w:
                        s += x[r][c] * k[a][b]
            y[i][j] = s
    return y


def life(x: list[list[int]]):
    h, w = len(x), len(x[0])
    y = [[0] * w for _ in range(h)]
    for i in range(h):
        for j in range(w):
            n = 0
            for a in range(-1, 2):
                for b in range(-1, 2):
                    if (a != 0 or b != 0) and 0 <= i + a < h and 0 <= j + b < w:
                        n += x[i + a][j + b]
            y[i][j] = 1 if n == 3 or (n == 2 and x[i][j] == 1) else 0
    return y


def causal_filter(x: list[float], k: list[float]):
    y = [0.0] * len(x)
    for i in range(len(x)):
        for t in range(4):
            if i - t >= 0:
                y[i] += x[i - t] * k[t]
    return y


def three_channels(x: list[list[list[float]]], k: list[list[float]]):
    h, w = len(x), len(x[0])
    y = [[0.0] * w for _ in range(h)]
    for i in range(h):
        for j in range(w):
            for a in range(-1, 2):
                for b in range(-1, 2):
                    if i + a < 0 or i + a >= h or j + b < 0 or j + b >= w:
                        continue
                    for c in range(3):
                        y[i][j] += x[i + a][j + b][c] * k[a + 1][b + 1]
    return y


def life_by_lists(grid: list[list[int]]):
    n = len(grid)
    m = len(grid[0])
    new = [[0] * m for _ in range(n)]
    for i in range(n):
        for j in range(m):
            count = 0
            for di in [-1, 0, 1]:
                for dj in [-1, 0, 1]:
                    if di == 0 and dj == 0:
                        continue
                    ni, nj = i + di, j + dj
                    if 0 <= ni < n and 0 <= nj < m:
                        count += grid[ni][nj]
            if grid[i][j] == 1:
                new[i][j] = 1 if count == 2 or count == 3 else 0
            else:
                new[i][j] = 1 if count == 3 else 0
    return new


def sum_of_four(grid: list[list[int]]):
    n = len(grid)
    m = len(grid[0])
    new = [[0] * m for _ in range(n)]
    for i in range(n):
        for j in range(m):
            for di, dj in [(-1, 0), (1, 0), (0, -1), (0, 1)]:
                if 0 <= i + di < n and 0 <= j + dj < m:
                    new[i][j] += grid[i + di][j + dj]
    return new


def heat(u: list[list[float]], a: float):
    n, m = len(u), len(u[0])
    v = [[0.0] * m for _ in range(n)]
    for i in range(n):
        for j in range(m):
            up = u[i - 1][j] if i > 0 else 0.0
            down = u[i + 1][j] if i < n - 1 else 0.0
            left = u[i][j - 1] if j > 0 else 0.0
            right = u[i][j + 1] if j + 1 < m else 0.0
            v[i][j] = u[i][j] + a * (up + down + left + right - 4 * u[i][j])
    return v


def perimeter(g: list[list[int]]):
    total = 0
    h, w = len(g), len(g[0])
    for i in range(h):
        for j in range(w):
            if g[i][j] == 1:
                if i == 0 or g[i - 1][j] == 0:
                    total += 1
                if i == h - 1 or g[i + 1][j] == 0:
                    total += 1
                if j == 0 or g[i][j - 1] == 0:
                    total += 1
                if j == w - 1 or g[i][j + 1] == 0:
                    total += 1
    return total
