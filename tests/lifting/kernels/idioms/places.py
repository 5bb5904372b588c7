def argmax(a: list[float]) -> int:
    k = 0
    for i in range(1, len(a)):
        if a[i] > a[k]:
            k = i
    return k


def argmin(a: list[int]) -> int:
    best, place = a[0], 0
    for i in range(len(a)):
        if a[i] < best:
            best, place = a[i], i
    return place


def enumerated(a: list[int]) -> int:
    best = -1
    place = -1
    for i, x in enumerate(a):
        if x >= best:
            best = x
            place = i
    return place


def classes(scores: list[list[float]]) -> list[int]:
    out = []
    for row in scores:
        k = 0
        for j in range(1, len(row)):
            if row[j] > row[k]:
                k = j
        out.append(k)
    return out
