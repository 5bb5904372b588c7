"""Small array programs."""


def array_inc(a, n):
    for i in range(n):
        a[i] += 1


def array_sum(a, n):
    total = 0
    for i in range(n):
        total += a[i]
    return total


def cube_in_place(a, n):
    for i in range(n):
        a[i] = a[i] * a[i] * a[i]


def fourth_in_place(a, n):
    for i in range(n):
        a[i] = a[i] * a[i]
        a[i] = a[i] * a[i]


def sum_elts(a):
    total = 0
    for element in a:
        total += element
    return total
