"""Arithmetic on sizes and positions that the data-moving families share; sizes may be symbolic.

Every symbol is the size of some dimension. One of an input is taken to be at least 1; one that only data
decides, as of what NonZero finds, may be 0, which its name tells.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence

import numpy as np

from tensmith.errors import ProgramError
from tensmith.formula.arith import Array
from tensmith.formula.expr import Choose, Expr, Scalar, as_expr, fresh
from tensmith.formula.poly import Atom, Dim, Monomial, Poly, floor_div, long_division, product, simplify_dim
from tensmith.ir.onnx_schema import ELEMENT_TYPES
from tensmith.ir.op import Typed
from tensmith.ir.types import Shape

# Names of sizes that only data decides: fresh ones, those `ir.infer` names after a value, `stated_size`s.
_DECIDED_BY_DATA = re.compile(r".*%|[nm]\.(\.|.*\.\d+$)")


def onnx_dtype(code: int) -> str:
    """TensIR's name of an ONNX element type number."""
    if code not in ELEMENT_TYPES:
        raise ProgramError(f"{code} is no ONNX element type that TensIR knows")
    return ELEMENT_TYPES[code]


def fresh_size() -> Poly:
    """A size nothing is known about."""
    return Poly.symbol(fresh("n"))


def stated_size(name: str) -> str:
    """The name of a size that a file states of a value which nothing infers: data may decide it."""
    return name if least(name) == 0 else f"n..{name}"


def least(atom: Atom) -> int:
    """The least value of a size, by its name: 0 of one that only data decides, else 1; so of quotients."""
    names = (atom,) if isinstance(atom, str) else atom.symbols()
    return 0 if any(map(_DECIDED_BY_DATA.match, names)) else 1


def _least_product(monomial: Monomial) -> int:
    return min((least(atom) for atom, _ in monomial), default=1)


def fresh_shape(rank: int) -> Shape:
    """Sizes nothing is known about."""
    return tuple(fresh_size() for _ in range(rank))


def as_dims(value: Array) -> Shape:
    """A known array of sizes or positions as a flat tuple."""
    return tuple(map(simplify_dim, np.asarray(value).reshape(-1).tolist()))


def as_ints(dims: Iterable[Dim]) -> tuple[int, ...]:
    """Sizes that must be numbers by now."""
    found = tuple(map(simplify_dim, dims))
    if any(isinstance(dim, Poly) for dim in found):
        raise ProgramError(f"sizes {', '.join(map(str, found))} must be numbers here")
    return tuple(int(dim) for dim in found)  # type: ignore[arg-type]


def vector_length(call: Typed, index: int) -> int | None:
    """The length of a one-dimensional input where it is static."""
    static = call.type(index).static
    return static[0] if static is not None and len(static) == 1 else None


def check_vector(call: Typed, index: int) -> None:
    """ProgramError where an input that lists sizes or positions surely has another rank than one."""
    if call.type(index).rank not in (None, 1):
        raise ProgramError(f"input {index} is {call.type(index)}, and must be a vector")


def dims_or_fresh(call: Typed, index: int) -> Shape | None:
    """The sizes an input holds; fresh ones where only their number is known, None where not even that."""
    check_vector(call, index)
    value = call.value(index)
    if value is not None:
        return as_dims(value)
    length = vector_length(call, index)
    return None if length is None else fresh_shape(length)


def lower_bound(size: Dim) -> int | None:
    """The least value of a size: each symbol its own, where no coefficient of a symbol is negative."""
    bound = 0
    for monomial, coefficient in Poly.of(size).terms:
        factors = [_least_value(atom) for atom, power in monomial for _ in range(power)]
        known = [factor for factor in factors if factor is not None]
        if len(known) < len(factors) or (known and coefficient < 0) or (len(known) > 1 and min(known) < 0):
            return None
        bound += coefficient * math.prod(known)
    return bound


def _least_value(atom: Atom) -> int | None:
    """The least value of a symbol, or of a quotient by a number."""
    if isinstance(atom, str):
        return least(atom)
    top, bottom = lower_bound(atom.top), atom.bottom.constant
    return None if top is None or not bottom else top // bottom


def is_negative(position: Dim) -> bool:
    """Whether a position is surely below zero: never above it, and below it where sizes are the least."""
    terms = Poly.of(position).terms
    return never_positive(position) and any(_least_product(monomial) for monomial, _ in terms)


def never_positive(position: Dim) -> bool:
    """Whether a position is not zero, and no coefficient of it is positive."""
    terms = Poly.of(position).terms
    return bool(terms) and all(coefficient < 0 for _, coefficient in terms)


def quotient(dims: Sequence[Dim], divisors: Sequence[Dim]) -> Dim:
    """product(dims) / product(divisors), which the caller knows to be whole."""
    left, right = list(dims), []
    for divisor in divisors:
        if divisor in left:
            left.remove(divisor)
        else:
            right.append(divisor)
    top, bottom = Poly.of(product(left)), Poly.of(product(right))
    if bottom == 0:
        return 0
    exact = exact_quotient(top, bottom)
    return simplify_dim(floor_div(top, bottom) if exact is None else exact)


def exact_quotient(top: Poly, bottom: Poly) -> Poly | None:
    """q with q * bottom = top as polynomials; None if there is none."""
    result, rest = long_division(top, bottom)
    return None if rest.terms else result


def flat_position(indices: Iterable[Poly], shape: Sequence[Dim]) -> Poly:
    """The row-major position of an element."""
    position = Poly.of(0)
    for index, size in zip(indices, shape):
        position = position if size == 1 else position * size + index
    return position


def unflatten(position: Poly, shape: Sequence[Dim]) -> tuple[Poly, ...]:
    """The subscripts of the element at a row-major position."""
    subscripts: list[Poly] = []
    leading = True
    for axis, size in enumerate(shape):
        if size == 1:
            subscripts.append(Poly.of(0))
            continue
        index = floor_div(position, Poly.of(product(shape[axis + 1 :])))
        subscripts.append(index if leading else index % size)
        leading = False
    return tuple(subscripts)


def select(conditions: Sequence[Poly], inside: Scalar, otherwise: Scalar) -> Expr:
    """`inside` where every condition is >= 0, else `otherwise`."""
    return Choose(tuple(conditions), as_expr(inside), as_expr(otherwise)) if conditions else as_expr(inside)
