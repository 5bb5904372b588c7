"""NumPy's linear algebra in TensIR; what is no formula stays NumPy's, at the same values."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial, reduce
from typing import Any

import numpy as np

from tensmith.superoptimize.numpy_shapes import named
from tensmith.superoptimize.numpy_table import dtype_of, reduced
from tensmith.superoptimize.trace import METHODS, NotTraceable, Trace, TracedArray, means, unwrapped


def _operands(t: Trace, out: Any, *args: Any) -> list[str]:
    if dtype_of(out)[0] != "f":
        raise NotTraceable("it multiplies matrices of whole numbers")
    return [t.operand(x, dtype_of(out)) for x in args]


def _rank(x: Any) -> int:
    return int(np.ndim(unwrapped(x)))


@means(np.matmul)
def _matmul(t: Trace, out: Any, x: Any, y: Any) -> str:
    return t.node("matmul", *_operands(t, out, x, y))


@means(np.dot, method="dot")
def _dot(t: Trace, out: Any, x: Any, y: Any) -> str:
    left, right = _operands(t, out, x, y)
    if 0 in (_rank(x), _rank(y)):
        return t.node("mul", left, right)
    if _rank(y) > 2 or (_rank(y) == 2 and _rank(x) > 2):
        raise NotTraceable("it takes np.dot of more than two axes; use np.matmul or np.einsum")
    return t.node("matmul", left, right)


@means(np.vdot)
def _vdot(t: Trace, out: Any, x: Any, y: Any) -> str:
    return t.node("matmul", *(t.node("reshape", name, t.ints(-1)) for name in _operands(t, out, x, y)))


@means(np.inner)
def _inner(t: Trace, out: Any, x: Any, y: Any) -> str:
    left, right = _operands(t, out, x, y)
    if _rank(x) > 2 or _rank(y) > 2 or 0 in (_rank(x), _rank(y)):
        raise NotTraceable("it takes np.inner of other than vectors and matrices; use np.einsum")
    return t.node("matmul", left, right if _rank(y) == 1 else t.node("transpose", right, perm=(1, 0)))


@means(np.outer)
def _outer(t: Trace, out: Any, x: Any, y: Any) -> str:
    dtype = dtype_of(out)
    column = t.node("reshape", t.operand(x, dtype), t.ints(-1, 1))
    return t.node("mul", column, t.node("reshape", t.operand(y, dtype), t.ints(1, -1)))


@means((np.multiply, "outer"))
def _multiply_outer(t: Trace, out: Any, x: Any, y: Any) -> str:
    dtype = dtype_of(out)
    column = t.node("reshape", t.operand(x, dtype), t.ints(*np.shape(unwrapped(x)), *(1,) * _rank(y)))
    return t.node("mul", column, t.operand(y, dtype))


@means(np.trace, method="trace")
def _trace(t: Trace, out: Any, x: Any) -> str:
    return t.node("einsum", *_operands(t, out, x), equation="ii->")


@means(np.diagonal, method="diagonal")
def _diagonal(t: Trace, out: Any, x: Any) -> str:
    return t.node("einsum", *_operands(t, out, x), equation="ii->i")


@means(np.diag)
def _diag(t: Trace, out: Any, x: Any) -> str:
    """A diagonal matrix is its diagonal times the identity."""
    if _rank(x) == 2:
        return _diagonal(t, out, x)
    dtype = dtype_of(out)
    if dtype[0] != "f":
        raise NotTraceable("it makes diagonal matrices of whole numbers")
    return t.node("mul", t.constant(np.eye(len(out)), dtype), t.operand(x, dtype))


@means(np.einsum)
def _einsum(t: Trace, out: Any, equation: Any, *args: Any, optimize: Any = None) -> str:
    if not isinstance(equation, str):
        raise NotTraceable("it takes np.einsum without an equation of letters")
    return t.node("einsum", *_operands(t, out, *args), equation=equation.replace(" ", ""))


@means(np.tensordot)
def _tensordot(t: Trace, out: Any, x: Any, y: Any, axes: Any = 2) -> str:
    if isinstance(axes, int):
        axes = (range(_rank(x) - axes, _rank(x)), range(axes))
    left, right = ([each] if isinstance(each, int) else list(each) for each in axes)
    letters = "abcdefghijklmnopqrstuvwxyz"
    a, b = list(letters[: _rank(x)]), list(letters[_rank(x) : _rank(x) + _rank(y)])
    for one, other in zip(left, right):
        b[other] = a[one]
    kept = [c for c in a if c not in b] + [c for c in b if c not in a]
    equation = f"{''.join(a)},{''.join(b)}->{''.join(kept)}"
    return t.node("einsum", *_operands(t, out, x, y), equation=equation)


@means(np.linalg.multi_dot)
def _multi_dot(t: Trace, out: Any, arrays: Sequence[Any]) -> str:
    return reduce(lambda x, y: t.node("matmul", x, y), _operands(t, out, *arrays))


@means(np.linalg.matrix_power)
def _matrix_power(t: Trace, out: Any, x: Any, n: int) -> str:
    """A chain of products, which associates with what follows."""
    if not 1 <= n <= 64:
        raise NotTraceable("it takes powers of a matrix below 1 or over 64")
    (name,) = _operands(t, out, x)
    return reduce(lambda product, _: t.node("matmul", product, name), range(n - 1), name)


@means(np.cov)
def _cov(t: Trace, out: Any, x: Any) -> str:
    if _rank(x) != 2:
        raise NotTraceable("it takes np.cov of other than a matrix")
    (name,) = _operands(t, out, x)
    off = t.node("sub", name, reduced(t, "reduce_mean", name, 1, 2, True))
    product = t.node("matmul", off, t.node("transpose", off, perm=(1, 0)))
    return t.node("div", product, t.constant(np.shape(unwrapped(x))[1] - 1, dtype_of(out)))


# Outside of formulas


def _outside(text: str, t: Trace, out: Any, *args: Any, **options: Any) -> str:
    if dtype_of(out) not in ("f64", "f32") or not isinstance(out, np.ndarray | np.generic):
        raise NotTraceable(f"it takes {text} of what are no floats")
    if any(isinstance(value, TracedArray) for value in options.values()):
        raise NotTraceable(f"it takes {text} with options that are computed or given")
    kept = "".join(f", {name}={value!r}" for name, value in options.items())
    return t.outside(text, np.asarray(out), [named(t, x) for x in args], kept)


for _function, _name in (
    (np.linalg.inv, "np.linalg.inv"), (np.linalg.pinv, "np.linalg.pinv"), (np.linalg.det, "np.linalg.det"),
    (np.linalg.solve, "np.linalg.solve"), (np.linalg.cholesky, "np.linalg.cholesky"),
    (np.linalg.eigvalsh, "np.linalg.eigvalsh"), (np.median, "np.median"),
):  # fmt: skip
    means(_function)(partial(_outside, _name))
METHODS["T"] = np.transpose


@means(np.sort)
def _sort(t: Trace, out: Any, x: Any, **options: Any) -> str:
    """Nothing, of what is promised to be sorted."""
    if isinstance(x, TracedArray) and x.name in t.ordered and not options:
        return t.node("identity", x.name)
    return _outside("np.sort", t, out, x, **options)
