"""A textbook reduction."""


def sum_of_squares(a, n):
    total = 0
    for i in range(n):
        total += a[i] * a[i]
    return total
