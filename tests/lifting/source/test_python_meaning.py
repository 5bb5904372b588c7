"""What the Python front end makes computes what Python computes, on random inputs and empty ones."""

from __future__ import annotations

import copy
import importlib.util
import math
import random
import warnings
from pathlib import Path

import numpy as np
import pytest

from lifting.loops_interpreter import Undefined, run
from tensmith.lifting.loops import Array, Function
from tensmith.lifting.source.python.read import read_python, read_python_source

KERNELS = sorted((Path(__file__).parent.parent / "kernels" / "python").glob("*.py"))
LIFTED = [(path, found) for path in KERNELS for found in read_python(path)]


def imported(path):
    spec = importlib.util.spec_from_file_location(f"kernel_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def element(scalar, rng):
    if scalar.kind == "float":
        value = rng.choice([0.0, 1.0, -2.5, rng.uniform(-3, 3)])
        return float(np.float32(value)) if scalar.bits == 32 else value
    if scalar.kind == "bool":
        return rng.random() < 0.5
    low, high = (0, 255) if not scalar.signed else (-9, 9)
    return rng.randint(low, high)


def argument(parameter, numpy, size, rng):
    kind = parameter.type
    if not isinstance(kind, Array):
        return rng.randint(0, size) if kind.kind == "int" and rng.random() < 0.7 else element(kind, rng)
    shape = (size,) * kind.rank

    def make(depth):
        if depth == kind.rank:
            return element(kind.element, rng)
        return [make(depth + 1) for _ in range(shape[depth])]

    values = make(0)
    name = "bool" if kind.element.kind == "bool" else kind.element.replace("i", "int").replace("f", "float")
    dtype = {"u8": "uint8", "u16": "uint16", "u32": "uint32", "int": "int64"}.get(kind.element, name)
    return np.array(values, dtype=dtype).reshape(shape) if numpy else values


def same(left, right):
    if left is None or right is None:
        return left is right
    left, right = np.asarray(left, dtype=float), np.asarray(right, dtype=float)
    return left.size == right.size and np.allclose(
        left.reshape(-1), right.reshape(-1), rtol=1e-5, atol=1e-6, equal_nan=True
    )


def agree(function, original, numpy=False, rounds=25, size=4):
    """Compares a lowered function with the one it was made from; returns how often both had a value."""
    rng = random.Random(function.name)
    compared = 0
    for n in range(rounds):
        arguments = [argument(p, numpy, n % size + (n > 12), rng) for p in function.parameters]
        theirs = copy.deepcopy(arguments)
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                expected = original(*theirs)
        except (IndexError, ZeroDivisionError, ValueError, OverflowError):
            continue
        try:
            outcome = run(function, arguments)
        except Undefined:
            continue  # a stated guard is stricter: len(a[0]) of no rows, zip of unlike lengths
        compared += 1
        assert same(outcome.value, expected), (function.name, arguments, outcome.value, expected)
        for parameter, after in zip(function.parameters, theirs):
            if isinstance(parameter.type, Array):
                assert same(outcome.arrays[parameter.name], after), (function.name, parameter.name)
    return compared


@pytest.mark.parametrize(
    ("path", "function"),
    LIFTED,
    ids=[f"{p.stem}.{f.function if not isinstance(f, Function) else f.name}" for p, f in LIFTED],
)
def test_kernels_compute_what_python_computes(path, function):
    assert isinstance(function, Function), str(function)
    original = getattr(imported(path), function.name)
    assert agree(function, original, numpy="numpy" in path.stem) >= 5


SNIPPETS = {
    "a loop's variable keeps its last value": """
def f(a, n):
    i = -1
    for i in range(n):
        a[i] = a[i] + 1
    return i
""",
    "a name serves several loops": """
def f(a, b):
    s = 0
    for i in range(len(a)):
        s += a[i]
    t = s
    s = 1
    for i in range(len(b)):
        s += 2 * b[i]
    return s - t
""",
    "continue": """
def f(a, n: int):
    s = 0
    for x in a:
        if x < 0:
            if x < -5:
                continue
            s += 100
        elif x == 3:
            continue
        else:
            s += 1
        s += x
    return s
""",
    "early returns": """
def f(x: int, y: int):
    if x < 0:
        return -x
    if y > 3:
        if x == 2:
            return 7
    else:
        y = y + 1
    return x + y
""",
    "bare returns": """
def f(a, n: int):
    if n < 2:
        return
    a[0] = n
    if n < 3:
        return
    a[1] = n
""",
    "bounds are found once": """
def f(n: int):
    s = 0
    for i in range(n):
        n = 0
        s += i
    return s + n
""",
    "steps and directions": """
def f(a: list[int], n: int):
    s = 0
    for i in range(n, -1, -2):
        s = 3 * s + i
    for i in range(1, n, 3):
        s = 5 * s + i
    for i in reversed(range(n)):
        s = 2 * s + i
    for x in reversed(a):
        s = 2 * s + x
    for k, i in enumerate(reversed(range(1, n, 2)), 5):
        s = s + k * i
    return s
""",
    "zip and enumerate": """
def f(a: list[int], b: list[int]):
    s = 0
    for k, (x, y) in enumerate(zip(a, b)):
        s += k * x - y
    for x, k in zip(a, range(len(b))):
        s += x * k
    return s
""",
    "folds": """
def f(a: list[int], b: list[float]):
    s = sum(x * x for x in a) + sum(a) + sum([x for x in a], 4)
    return s + max(a) - min(x + 1 for x in a) + sum(x * y for x, y in zip(a, b))
""",
    "helpers": """
SCALE = 3
OFFSETS = [1, 2, 4]

def clamp(x, low, high=6):
    if x < low:
        return low
    elif x > high:
        return high
    return x

def total(a):
    s = 0
    for x in a:
        s += x
    return s

def bump(a, by):
    for i in range(len(a)):
        a[i] += by

def shifted(a, by):
    return [x + by for x in a]

def f(a: list[int], n: int):
    bump(a, n)
    b = shifted(a, SCALE)
    s = 0
    for x in b:
        s += clamp(x, -3) * OFFSETS[1]
    return s + total(b) + (total(a) if n > 1 else clamp(n, 0, high=1))
""",
    "copies": """
def f(a: list[list[int]], v: list[int]):
    old = v[:]
    rows = [row[:] for row in a]
    w = v.copy()
    for i in range(len(v)):
        v[i] = old[len(v) - 1 - i] + w[0]
    return rows
""",
    "conditions look no further than they must": """
def f(a, n: int):
    s = 0
    for i in range(n):
        if i > 0 and a[i - 1] > 0 or i == 2:
            s += 1
        if not (0 <= i - 1 < n - 1) or a[i - 1] == 3:
            s += 10
    return s
""",
    "a list grown by what it holds": """
def f(a: list[int], n: int):
    out = [n]
    out += [1, len(out), out[-1] + len(a)]
    return out
""",
    "tuples of assignments": """
def f(n: int, x: int):
    a, b = 0, 1
    for _ in range(n):
        a, b = b, a + b
    x = y = x + a
    return x * y + b
""",
    "while": """
def f(a: list[int], n: int):
    i = n - 1
    s = 0
    while i >= 0:
        s = 2 * s + a[i]
        i -= 1
    return s + i
""",
    "a variable set in branches": """
def f(a: list[float], n: int):
    out = []
    for i in range(n):
        if a[i] > 1:
            t = a[i] * 2
        elif a[i] < -1:
            t = 0
        else:
            t = -a[i]
        out.append(t ** 2 - 2 ** -1)
    return out
""",
    "a value carried from one iteration to the next": """
def f(a: list[int]):
    out = []
    before = 0
    for x in a:
        out.append(x - before)
        before = x
    return out
""",
    "divisions": """
def f(a: list[int], b: list[int], x: float):
    s = 0.0
    for p, q in zip(a, b):
        if q != 0:
            s += p // q + 10 * (p % q) + p / q
        s += int(x * p) + abs(p) + (x // 2) + x % 3
    return s + float(len(a)) + round(x)
""",
    "bits": """
def f(a: list[int], n: int):
    s = 0
    for x in a:
        s ^= (x << 2) | (x & 5)
        s += x >> 1
        s -= ~x
    return s
""",
    "numbers of math": """
import math
from math import sqrt as root, pi

def f(a: list[float]):
    s = 0.0
    for x in a:
        s += root(x * x) + math.exp(-x) + math.floor(x) + math.ceil(x) + math.hypot(x, 2) + math.fabs(x)
        s += math.sin(x) * math.cos(x) + math.tanh(x) + x ** 0.5 if x > 0 else pi
    return s
""",
    "negative literals count from the end": """
def f(a: list[int], m: list[list[int]]):
    a[-1] += a[-2]
    return a[-1] + m[-1][-1]
""",
    "rows": """
def f(m):
    s = 0
    for row in m:
        for x in row:
            s += x
        for j, x in enumerate(row):
            row[j] = x + 1
    last = m[0]
    return s + last[0]
""",
    "flat comprehension and fill": """
def f(n: int, m: int):
    a = [0] * n
    b = [[1] * m for _ in range(n)]
    c = [[0 for j in range(m)] for i in range(n)]
    d = [i * j for i in range(n) for j in range(m)]
    for i in range(n):
        for j in range(m):
            c[i][j] = b[i][j] + d[i * m + j]
        a[i] = i
    return c
""",
    "a chosen helper": """
def half(x):
    t = x // 2
    if t > 1:
        return t
    return 0

def f(a: list[int]):
    return [half(x) if x > 0 and half(x) != 1 else -half(-x) for x in a]
""",
}
NUMPY = {
    "a vector": """
import numpy as np

def f(a: np.ndarray, n: int):
    out = np.zeros(len(a), dtype=np.int64)
    for i in range(a.shape[0]):
        out[i] = a[i] * 2 + n
    return out
""",
    "bytes wrap": """
import numpy as np
from numpy.typing import NDArray

def f(a: NDArray[np.uint8], b: NDArray[np.uint8]):
    out = np.empty_like(a)
    s = 0
    for i in range(a.size):
        out[i] = a[i] + b[i] * 3 - 7
        s += int(a[i])
    return out
""",
    "shapes": """
import numpy as np
from numpy.typing import NDArray

def f(a: NDArray[np.float32], w: float):
    n, m = a.shape
    out = np.full((n, m), 2.0, dtype=np.float32)
    c = a.copy()
    for i in range(n):
        for j in range(m):
            out[i, j] += np.maximum(c[i, j], 0) * w + np.exp(a[i][j]) + np.clip(a[i, j], -1, 1)
            a[i, j] = np.where(a[i, j] > 0, np.sqrt(np.abs(a[i, j])), np.square(a[i, j]))
    return out
""",
    "conversions at stores": """
import numpy as np

def f(a: "np.ndarray[tuple[int, int], np.dtype[np.float64]]"):
    out = np.zeros(a.shape, dtype=np.int32)
    ones = np.ones_like(a)
    for i in range(len(a)):
        for j in range(len(a[0])):
            out[i, j] = a[i, j] * ones[i, j] + np.float32(2)
    return out
""",
}


@pytest.mark.parametrize("name", SNIPPETS)
def test_lists(name):
    check(SNIPPETS[name], False)


@pytest.mark.parametrize("name", NUMPY)
def test_arrays(name):
    check(NUMPY[name], True)


def check(text, numpy):
    space = {"math": math}
    exec(text, space)
    (function,) = read_python_source(text, "f.py", "f")
    assert isinstance(function, Function), f"{function.position} {function}"
    assert agree(function, space["f"], numpy) >= 5
