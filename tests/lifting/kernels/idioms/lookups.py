def take(ids: list[int], table: list[float]) -> list[float]:
    return [table[i] for i in ids]


def rows(ids: list[int], table: list[list[float]]) -> list[list[float]]:
    out = []
    for i in range(len(ids)):
        row = []
        for j in range(len(table[0])):
            row.append(table[ids[i]][j])
        out.append(row)
    return out


def total(ids: list[int], weights: list[float]) -> float:
    sum = 0.0
    for i in range(len(ids)):
        sum += weights[ids[i]]
    return sum


def within(ids: list[int], t: list[int]) -> int:
    found = 0
    for i in ids:
        found += t[i] if 0 <= i < len(t) else -1
    return found


def value_of(keys: list[int], values: list[int], key: int) -> int:
    for i in range(len(keys)):
        if keys[i] == key:
            return values[i]
    return -1


def first_negative(a: list[int]) -> int:
    for value in a:
        if value < 0:
            return value
    return 0


def last_or_first(a: list[int], key: int) -> int:
    value = 7
    for value in a:
        if value == key:
            break
    return value


def scaled_by_place(a: list[float], least: float) -> float:
    best = -1.0
    for i, x in enumerate(a):
        if x > least:
            best = x * i
            break
    return best


def zipped(keys: list[int], values: list[int], key: int) -> int:
    for k, v in zip(keys, values):
        if k == key:
            return v
    return -1


def right_ones(logits: list[list[float]], labels: list[int]) -> float:
    total = 0.0
    for i in range(len(labels)):
        total += logits[i][labels[i]]
    return total


def shifted(a: list[list[float]], k: list[int]) -> list[float]:
    return [a[k[i]][i] - a[i][k[i]] for i in range(len(k))]
