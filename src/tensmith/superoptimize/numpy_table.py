"""NumPy's functions of elements and its reductions, in TensIR. Types are promoted as NumPy says."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from tensmith.ir.types import dtype_name
from tensmith.superoptimize.trace import NotTraceable, Trace, TracedArray, means, unwrapped

Axes = int | Sequence[int] | None


def dtype_of(value: Any) -> str:
    """TensIR's element type of an array or a number."""
    return dtype_name(np.asarray(value).dtype)


# Functions of elements


def _direct(op: str, t: Trace, out: Any, *args: Any) -> str:
    dtype = dtype_of(out)
    return t.node(op, *(t.operand(x, dtype) for x in args))


FUNCTIONS: dict[Any, str] = {
    np.add: "add", np.subtract: "sub", np.multiply: "mul", np.negative: "neg", np.absolute: "abs",
    np.maximum: "max", np.minimum: "min", np.sign: "sign",
    np.sqrt: "sqrt", np.exp: "exp", np.log: "log", np.sin: "sin", np.cos: "cos", np.tan: "tan",
    np.arcsin: "asin", np.arccos: "acos", np.arctan: "atan", np.sinh: "sinh", np.cosh: "cosh",
    np.tanh: "tanh", np.arcsinh: "asinh", np.arccosh: "acosh", np.arctanh: "atanh", np.floor: "floor",
    np.ceil: "ceil", np.rint: "round",
}  # fmt: skip
for _function, _op in FUNCTIONS.items():
    means(_function)(partial(_direct, _op))
means(np.fabs)(partial(_direct, "abs"))


@means(np.divide)
def _divide(t: Trace, out: Any, x: Any, y: Any) -> str:
    """Floats, whatever the operands are; Python's own division raises where the divisor is zero."""
    if all(isinstance(part, TracedArray) and part.weak for part in (y,)) and _number(x):
        raise NotTraceable("it divides by a Python number, which raises where that is 0; pass an np.float64")
    return _direct("div", t, out, x, y)


def _number(x: Any) -> bool:
    return x.weak if isinstance(x, TracedArray) else isinstance(x, int | float)


@means(np.power, np.float_power)
def _power(t: Trace, out: Any, x: Any, y: Any) -> str:
    dtype = dtype_of(out)
    if _power_raises(x, y):
        raise NotTraceable("it raises a Python number to a power that it may not have; pass an np.float64")
    if isinstance(y, TracedArray) or np.ndim(y):
        if dtype[0] != "f":
            raise NotTraceable("it raises whole numbers to varying powers")
        return t.node("pow", t.operand(x, dtype), t.operand(y, dtype))
    base, exponent = t.operand(x, dtype), float(np.asarray(y))
    if exponent == 1:
        return t.node("identity", base)
    if exponent == 2:
        return t.node("mul", base, base)
    if dtype[0] != "f":
        raise NotTraceable("it raises whole numbers to powers")
    return t.node("pow", base, t.constant(exponent, dtype))


def _power_raises(x: Any, y: Any) -> bool:
    """Whether Python raises an error, or gives a complex number, at some value of what is given."""
    if not (_number(x) and _number(y)):
        return False
    if isinstance(y, TracedArray):
        return isinstance(x, TracedArray) or x <= 0
    return bool(y < 0 or y != int(y))


@means(np.square)
def _square(t: Trace, out: Any, x: Any) -> str:
    name = t.operand(x, dtype_of(out))
    return t.node("mul", name, name)


@means(np.reciprocal)
def _reciprocal(t: Trace, out: Any, x: Any) -> str:
    if dtype_of(out)[0] != "f":
        raise NotTraceable("it takes reciprocals of whole numbers")
    return t.node("reciprocal", t.operand(x, dtype_of(out)))


def _by_numpy(name: str, t: Trace, out: Any, *args: Any) -> str:
    """NumPy's own: formulas of logarithms and powers miss whole numbers, that of a hypotenuse overflows."""
    return t.outside(f"np.{name}", np.asarray(out), [t.operand(x, dtype_of(out)) for x in args])


for _function in (np.log2, np.log10, np.exp2, np.hypot):
    means(_function)(partial(_by_numpy, _function.__name__))


def _relation(op: str, t: Trace, out: Any, x: Any, y: Any, *, negated: bool = False) -> str:
    given = [part if type(part) in (int, float, bool) else np.asarray(part) for part in unwrapped((x, y))]
    common = np.result_type(*given)
    if common.kind == "f" and all(np.asarray(part).dtype.kind in "iub" for part in given):
        raise NotTraceable("it compares whole numbers with and without sign")
    dtype = dtype_name(common)
    found = t.node(op, t.operand(x, dtype), t.operand(y, dtype))
    return t.node("not", found) if negated else found


RELATIONS: dict[Any, str] = {
    np.less: "less", np.less_equal: "less_or_equal", np.greater: "greater",
    np.greater_equal: "greater_or_equal", np.equal: "equal",
}  # fmt: skip
for _function, _op in RELATIONS.items():
    means(_function)(partial(_relation, _op))
means(np.not_equal)(partial(_relation, "equal", negated=True))


def _logical(op: str, t: Trace, out: Any, *args: Any) -> str:
    if any(dtype_of(part) != "bool" for part in unwrapped(args)):
        raise NotTraceable("it takes numbers for truth values; compare them")
    return t.node(op, *(t.operand(x, "bool") for x in args))


for _functions, _op in (
    ((np.logical_and, np.bitwise_and), "and"), ((np.logical_or, np.bitwise_or), "or"),
    ((np.logical_xor, np.bitwise_xor), "xor"), ((np.logical_not, np.invert), "not"),
):  # fmt: skip
    means(*_functions)(partial(_logical, _op))


@means(np.where)
def _where(t: Trace, out: Any, condition: Any, x: Any, y: Any) -> str:
    dtype = dtype_of(out)
    if dtype_of(unwrapped(condition)) != "bool":
        raise NotTraceable("it takes numbers for truth values; compare them")
    return t.node("where", t.operand(condition, "bool"), t.operand(x, dtype), t.operand(y, dtype))


@means(np.clip, method="clip")
def _clip(t: Trace, out: Any, x: Any, low: Any = None, high: Any = None) -> str:
    dtype = dtype_of(out)
    name = t.operand(x, dtype)
    if low is not None:
        name = t.node("max", name, t.operand(low, dtype))
    return name if high is None else t.node("min", name, t.operand(high, dtype))


@means("astype", method="astype")
def _astype(t: Trace, out: Any, x: Any, dtype: Any) -> str:
    if dtype_of(unwrapped(x))[0] == "f" and dtype_of(out)[0] in "iu":
        raise NotTraceable("it makes whole numbers of floats")
    return (
        t.operand(x, dtype_of(out)) if dtype_of(out) != dtype_of(unwrapped(x)) else t.node("identity", x.name)
    )


@means("copy", np.copy, np.positive, method="copy")
def _copy(t: Trace, out: Any, x: Any) -> str:
    return t.node("identity", t.operand(x, dtype_of(out)))


@means(np.full_like)
def _full_like(t: Trace, out: Any, x: Any, fill: Any) -> str:
    return t.node("expand", t.operand(fill, dtype_of(out)), t.ints(*np.shape(out)))


means(np.zeros_like)(lambda t, out, x: _full_like(t, out, x, 0))
means(np.ones_like)(lambda t, out, x: _full_like(t, out, x, 1))


# Reductions


def axes_list(axis: Axes, rank: int) -> list[int]:
    """The axes that are meant, in order."""
    given = range(rank) if axis is None else [axis] if isinstance(axis, int | np.integer) else axis
    return sorted(int(each) % rank for each in given)


def reduced(t: Trace, op: str, x: str, axis: Axes, rank: int, keepdims: bool = False) -> str:
    """A reduction of a value of some rank."""
    axes = axes_list(axis, rank)
    if not axes:
        return t.node("identity", x)
    name = t.node(op, x, *((t.ints(*axes),) if len(axes) < rank else ()), keepdims=0)
    return t.node("unsqueeze", name, t.ints(*axes)) if keepdims else name


def _reduction(
    op: str, t: Trace, out: Any, x: Any, axis: Axes = None, dtype: Any = None, *, keepdims: bool = False
) -> str:
    if op == "reduce_mean" and dtype_of(out) == "i64":
        raise NotTraceable("it takes means of whole numbers as whole numbers")
    return _extreme(op, t, out, x, axis, keepdims=keepdims)


for _summing, _op, _name in (
    (np.sum, "reduce_sum", "sum"), (np.prod, "reduce_prod", "prod"),
    (np.mean, "reduce_mean", "mean"),
):  # fmt: skip
    means(_summing, method=_name)(partial(_reduction, _op))
means((np.multiply, "reduce"))(lambda t, out, x, axis=0: _reduction("reduce_prod", t, out, x, axis))
means((np.add, "reduce"))(lambda t, out, x, axis=0: _reduction("reduce_sum", t, out, x, axis))


def _extreme(op: str, t: Trace, out: Any, x: Any, axis: Axes = None, *, keepdims: bool = False) -> str:
    return reduced(t, op, t.operand(x, dtype_of(out)), axis, np.ndim(unwrapped(x)), keepdims)


means(np.max, np.amax, method="max")(partial(_extreme, "reduce_max"))
means(np.min, np.amin, method="min")(partial(_extreme, "reduce_min"))


@means(np.ptp)
def _ptp(t: Trace, out: Any, x: Any, axis: Axes = None, *, keepdims: bool = False) -> str:
    ends = [_extreme(op, t, out, x, axis, keepdims=keepdims) for op in ("reduce_max", "reduce_min")]
    return t.node("sub", *ends)


@means(np.var, method="var")
def _var(t: Trace, out: Any, x: Any, axis: Axes = None, *, ddof: int = 0, keepdims: bool = False) -> str:
    dtype, shape = dtype_of(out), np.shape(unwrapped(x))
    axes, name = axes_list(axis, len(shape)), t.operand(x, dtype_of(out))
    off = t.node("sub", name, reduced(t, "reduce_mean", name, axis, len(shape), True))
    squares = t.node("mul", off, off)
    if ddof == 0:
        return reduced(t, "reduce_mean", squares, axis, len(shape), keepdims)
    count = math.prod(shape[axis] for axis in axes) - ddof
    if count <= 0:
        raise NotTraceable("it takes a variance of too few numbers")
    total = reduced(t, "reduce_sum", squares, axis, len(shape), keepdims)
    return t.node("div", total, t.constant(count, dtype))


@means(np.std, method="std")
def _std(t: Trace, out: Any, x: Any, axis: Axes = None, *, ddof: int = 0, keepdims: bool = False) -> str:
    return t.node("sqrt", _var(t, out, x, axis, ddof=ddof, keepdims=keepdims))


@means(np.average)
def _average(t: Trace, out: Any, x: Any, axis: Axes = None, weights: Any = None) -> str:
    dtype, shape = dtype_of(out), np.shape(unwrapped(x))
    axes, name = axes_list(axis, len(shape)), t.operand(x, dtype_of(out))
    if weights is None:
        return reduced(t, "reduce_mean", name, axis, len(shape))
    weight = t.operand(weights, dtype)
    if np.shape(unwrapped(weights)) != shape:
        weight = t.node("reshape", weight, t.ints(*(n if a in axes else 1 for a, n in enumerate(shape))))
        weight = t.node("expand", weight, t.ints(*shape))
    total = reduced(t, "reduce_sum", t.node("mul", name, weight), axis, len(shape))
    return t.node("div", total, reduced(t, "reduce_sum", weight, axis, len(shape)))


def _running(op: str, t: Trace, out: Any, x: Any, axis: int | None = None) -> str:
    name, shape = t.operand(x, dtype_of(out)), np.shape(unwrapped(x))
    if axis is None and len(shape) != 1:
        name, axis = t.node("reshape", name, t.ints(-1)), 0
    return t.node(op, name, t.constant(np.int64((axis or 0) % max(1, len(np.shape(out))))))


means(np.cumsum, method="cumsum")(partial(_running, "cum_sum"))
means(np.cumprod, method="cumprod")(partial(_running, "cum_prod"))


@means(np.linalg.norm)
def _norm(t: Trace, out: Any, x: Any, ord: Any = None, axis: Axes = None, keepdims: bool = False) -> str:
    dtype, rank = dtype_of(out), np.ndim(unwrapped(x))
    axes, name = axes_list(axis, rank), t.operand(x, dtype_of(out))
    if ord is None or (ord == 2 and len(axes) == 1) or (ord == "fro" and len(axes) == 2):
        return t.node("sqrt", reduced(t, "reduce_sum", t.node("mul", name, name), axis, rank, keepdims))
    sizes = t.node("abs", name)
    if len(axes) == 1 and ord in (1, np.inf):
        return reduced(t, "reduce_sum" if ord == 1 else "reduce_max", sizes, axis, rank, keepdims)
    raise NotTraceable(f"it takes norms of order {ord} in {dtype}")
