"""Whether all, or any: what Python makes of truth."""


def all_by_and(a):
    ok = True
    for x in a:
        ok = ok and x > 0
    return ok


def any_by_if(a):
    found = False
    for x in a:
        if x > 0:
            found = True
    return found


def any_by_or(a):
    found = False
    for x in a:
        found |= x > 0
    return found


def all_of(a):
    return all(x > 0 for x in a)


def any_of(a, k):
    return any(x == k for x in a)


def is_sorted(a):
    return all(a[i] <= a[i + 1] for i in range(len(a) - 1))


def matches(a, k):
    return sum(x == k for x in a)
