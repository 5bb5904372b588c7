"""Loops that look for something: the first of it, whether there is any, how far it goes."""


def find(a: list[int], key: int):
    for i in range(len(a)):
        if a[i] == key:
            return i
    return -1


def find_by_enumerate(a: list[int], key: int):
    for i, value in enumerate(a):
        if value == key:
            return i
    return -1


def contains(a: list[int], key: int):
    for value in a:  # noqa: SIM110
        if value == key:
            return True
    return False


def is_sorted(a: list[float]):
    for i in range(1, len(a)):  # noqa: SIM110
        if a[i] < a[i - 1]:
            return False
    return True


def find_or(a: list[int], key: int, other: int):
    for i in range(len(a)):
        if a[i] == key:
            break
    else:
        i = other
    return i


def leading(a: list[int], key: int):
    i = 0
    while i < len(a) and a[i] == key:
        i += 1
    return i


def find_last(a: list[int], key: int):
    i = len(a) - 1
    while i >= 0:
        if a[i] == key:
            break
        i -= 1
    return i


def first_in_rows(a: list[list[int]], n: int, m: int, key: int):
    found = []
    for i in range(n):
        at = -1
        for j in range(m):
            if a[i][j] == key:
                at = j
                break
        found.append(at)
    return found
