"""Two kernels of a compiler benchmark for signal processors."""


def mat1x3(n, h, x):
    y = []
    for i in range(n):
        total = 0
        for f in range(n):
            total += h[i][f] * x[f]
        y.append(total)
    return y


def n_real_updates(n, a, b, c):
    d = []
    for i in range(n):
        d.append(c[i] + a[i] * b[i])
    return d
