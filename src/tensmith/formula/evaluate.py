"""The value of a formula on given tensors: every index variable becomes an axis of one NumPy computation.

    evaluate(formula, {"x": x}, {"N": 4}, Floats())

Floating tensors are computed in float64, integers in int64, object arrays (Python integers, Fractions)
exactly, and residues in their prime field. Memory is the product of the sizes of the output and of every
reduction around one read, so this is for tests and for small sizes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce as fold
from typing import Any, TypeAlias

import numpy as np

from tensmith.errors import ProgramError
from tensmith.formula.arith import Arith, Array
from tensmith.formula.expr import Call, Choose, Expr, Formula, Num, Pow, Read, Reduce, Size
from tensmith.formula.functions import PREDICATES, RELATIONS
from tensmith.formula.poly import Poly
from tensmith.formula.scalars import as_truth

# Variable -> its values, an array with one long axis (or a number, for a size).
Scope: TypeAlias = Mapping[str, Any]


def evaluate(formula: Formula, tensors: Mapping[str, Array], sizes: Mapping[str, int], arith: Arith) -> Array:
    """The tensor a formula describes. `sizes` gives the symbolic sizes.

    In an exact arithmetic, floating tensors are given as residues. Raises ProgramError where the formula
    reads outside a tensor without a guard.
    """
    shape = tuple(int(size.evaluate(sizes)) for size in formula.shape)
    scope: dict[str, Any] = dict(sizes)
    for axis, (name, size) in enumerate(zip(formula.indices, shape)):
        scope[name] = np.arange(size).reshape(-1, *(1,) * (len(shape) - axis - 1))
    rational = not arith.exact and any(array.dtype == object for array in tensors.values())
    wide = {name: _widen(array, arith) for name, array in tensors.items()}
    value = _Evaluator(wide, arith, rational).value(formula.body, scope, len(shape), np.asarray(True))
    return np.broadcast_to(value, shape).copy()


def _widen(array: Array, arith: Arith) -> Array:
    """Integers and booleans as int64 (residues in a field), floats as float64, objects as they are."""
    if array.dtype == object:
        return array
    if array.dtype.kind in "iub":
        return arith.const(array) if arith.exact else array.astype(np.int64)
    return array.astype(np.float64)


@dataclass(frozen=True)
class _Evaluator:
    tensors: Mapping[str, Array]
    arith: Arith
    rational: bool

    def value(self, expr: Expr, scope: Scope, rank: int, live: Array) -> Array:
        """`expr` over the axes of `scope` (at most `rank` of them); `live` is where reads must be valid."""
        match expr:
            case Num(number):
                return self._number(Fraction(number))
            case Size(poly):
                return self._integer(np.asarray(poly.evaluate(scope)))
            case Read(name, indices):
                return self._read(self.tensors[name], indices, scope, live)
            case Call("add", args):
                return fold(self.arith.add, [self.value(arg, scope, rank, live) for arg in args])
            case Call("mul", args):
                return fold(self.arith.mul, [self.value(arg, scope, rank, live) for arg in args])
            case Pow(base, exponent):
                return self._power(self.value(base, scope, rank, live), exponent)
            case Choose(conditions, then, otherwise):
                tests = [np.asarray(c.evaluate(scope)) >= 0 for c in conditions]
                holds = fold(np.logical_and, tests, np.asarray(True))
                sides = ((then, live & holds), (otherwise, live & ~holds))
                return np.where(holds, *(self.value(side, scope, rank, where) for side, where in sides))
            case Reduce():
                return self._reduce(expr, scope, rank, live)
            case Call(function, args):
                return self._call(function, [self.value(arg, scope, rank, live) for arg in args])
        raise TypeError(f"not an expression: {expr!r}")

    def _integer(self, value: Array) -> Array:
        if self.arith.exact:
            return self.arith.const(value)
        return value.astype(object) if self.rational else value

    def _number(self, number: Fraction) -> Array:
        if self.rational:
            return np.asarray(number, dtype=object)
        if self.arith.exact:
            if Fraction(float(number)) == number:
                return self.arith.const(float(number))
            return self.arith.div(self._whole(number.numerator), self._whole(number.denominator))
        small = number.denominator == 1 and abs(number.numerator) < 2**63
        return np.asarray(number.numerator if small else float(number))

    def _whole(self, number: int) -> Array:
        """An integer of any size as a residue, 30 bits at a time."""
        result = self.arith.const(np.asarray(0))
        base = self.arith.const(np.asarray(2**30))
        for shift in range(abs(number).bit_length() // 30 * 30, -1, -30):
            digit = self.arith.const(np.asarray(abs(number) >> shift & (2**30 - 1)))
            result = self.arith.add(self.arith.mul(result, base), digit)
        return result if number >= 0 else self.arith.sub(self.arith.const(np.asarray(0)), result)

    def _read(self, array: Array, indices: tuple[Poly, ...], scope: Scope, live: Array) -> Array:
        subscripts = [np.asarray(index.evaluate(scope)) for index in indices]
        valid = np.asarray(True)
        for axis, (at, size) in enumerate(zip(subscripts, array.shape)):
            inside = np.logical_and(at >= 0, at < size)
            if np.any(np.logical_and(live, ~inside)):
                raise ProgramError(f"a formula reads axis {axis} of size {size} at subscript {indices[axis]}")
            valid = np.logical_and(valid, inside)
        if array.size == 0:
            return np.zeros(np.broadcast_shapes(*(at.shape for at in subscripts)), dtype=array.dtype)
        return np.asarray(array[tuple(np.where(valid, at, 0) for at in subscripts)])

    def _power(self, base: Array, exponent: Fraction) -> Array:
        if exponent.denominator == 2:
            base = self.arith.call("sqrt", base)
        elif exponent.denominator != 1:
            return self.arith.call("pow", base, self._number(exponent))
        result = self._number(Fraction(1))
        for _ in range(abs(exponent.numerator)):
            result = self.arith.mul(result, base)
        return result if exponent >= 0 else self.arith.div(self._number(Fraction(1)), result)

    def _reduce(self, expr: Reduce, scope: Scope, rank: int, live: Array) -> Array:
        extent = int(expr.extent.evaluate(scope))
        # The variable takes a new axis in front of all others.
        positions = np.arange(extent).reshape(-1, *(1,) * rank)
        inner = self.value(expr.body, {**scope, expr.var: positions}, rank + 1, live)
        padded = inner.reshape((1,) * (rank + 1 - inner.ndim) + inner.shape)
        return reduce_axis(self.arith, expr.kind, np.broadcast_to(padded, (extent, *padded.shape[1:])), 0)

    def _call(self, function: str, args: list[Array]) -> Array:
        if function in RELATIONS:
            return self._integer(self.arith.compare(function, *args).astype(np.int64))
        if function == "where":
            return np.where(args[0].astype(bool), args[1], args[2])
        value = self.arith.call(function, *args)
        if function in PREDICATES and value.dtype != np.bool_:
            value = as_truth(value)
        return value.astype(np.int64) if value.dtype == np.bool_ else value


def reduce_axis(arith: Arith, kind: str, array: Array, axis: int) -> Array:
    """sum, max, min or prod over one axis; min is -max(-x), of integers ~max(~x), which has no overflow.

    ProgramError for the largest or smallest of no elements.
    """
    if kind in ("max", "min") and not array.shape[axis]:
        raise ProgramError(f"the {kind} of no elements is no number")
    if kind == "sum":
        return arith.sum(array, axis)
    if kind == "max":
        return arith.max(array, axis)
    if kind == "min" and not arith.exact and array.dtype.kind in "iu":
        return np.invert(arith.max(np.invert(array), axis))
    zero = arith.const(0, like=array)
    if kind == "min":
        return arith.sub(zero, arith.max(arith.sub(zero, array), axis))
    if kind != "prod":
        raise ProgramError(f"unknown reduction '{kind}'; known: sum, max, min, prod")
    moved = np.moveaxis(array, axis, 0)
    result = np.broadcast_to(arith.const(1, like=array), moved.shape[1:])
    for item in moved:
        result = arith.mul(result, item)
    return np.asarray(result)
