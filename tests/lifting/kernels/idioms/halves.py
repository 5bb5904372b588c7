"""Lists and halves of them."""


def reverse(a):
    n = len(a)
    for i in range(n // 2):
        a[i], a[n - 1 - i] = a[n - 1 - i], a[i]


def every_second(a, n):
    return [a[2 * i] for i in range(n // 2)]


def max_pool(a, h, w):
    out = []
    for i in range(h // 2):
        row = []
        for j in range(w // 2):
            row.append(
                max(a[2 * i][2 * j], a[2 * i][2 * j + 1], a[2 * i + 1][2 * j], a[2 * i + 1][2 * j + 1])
            )
        out.append(row)
    return out
