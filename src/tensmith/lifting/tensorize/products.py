"""Sums of products as contractions: dot, matrix and batched products, Einstein sums, or a plain sum.

The factors of a product that do not vary with the summed variables come out of the sum; the others are
contracted. Integers: exact, as sums and products wrap alike. Floats: as reals, which is stated.
"""

from __future__ import annotations

from fractions import Fraction
from functools import reduce as fold_left
from string import ascii_letters
from typing import TYPE_CHECKING

from tensmith.formula.expr import Call, Num, Reduce
from tensmith.formula.poly import Poly
from tensmith.lifting.loops import dtype_of
from tensmith.lifting.summarize.substitution import symbols
from tensmith.lifting.summary import Term
from tensmith.lifting.tensorize import positions
from tensmith.lifting.tensorize.build import Tensor
from tensmith.lifting.tensorize.windows import is_window, starts_plain

if TYPE_CHECKING:
    from tensmith.lifting.tensorize.folds import FoldRange
    from tensmith.lifting.tensorize.lower import Lowering


def total(lowering: Lowering, fold: Reduce, around: FoldRange) -> Tensor:
    """The sum of a body over a fold's variable and those of the sums directly inside it."""
    variables, body, mask = [around.var], around.body, around.mask
    while isinstance(body, Reduce) and _is_plain_sum(lowering, body):
        variable, body = lowering.counted(body.var, body.extent, body.body, variables[-1])
        variables.append(variable)
    return _sum(lowering, tuple(variables), body, mask, dtype_of(fold.type))


def _is_plain_sum(lowering: Lowering, fold: Reduce) -> bool:
    return (
        fold.kind == "sum"
        and starts_plain(fold)
        and not fold.extent.symbols() & lowering.build.extents.keys()
        and not is_window(fold, lowering.build.extents)
    )


def _sum(lowering: Lowering, over: tuple[str, ...], body: Term, mask: tuple[Poly, ...], dtype: str) -> Tensor:
    build = lowering.build
    if isinstance(body, Call) and body.function in ("add", "sub") and _contracts(lowering, over, body):
        a, b = (_sum(lowering, over, part, mask, dtype) for part in body.args)
        return build.elementwise(body.function, a, b)
    tensors = [lowering.lower(factor) for factor in factors(body, _least(lowering))]
    if mask:
        tensors = _masked(lowering, tensors, mask, dtype)
    outside = [t for t in tensors if not set(t.axes) & set(over)]
    inside = [t for t in tensors if set(t.axes) & set(over)]
    equal = [v for v in over if not any(v in t.axes for t in inside)]  # that many equal terms
    known = all(t.name in build.constants for t in tensors)
    outside += [build.size(build.extents[variable], dtype) for variable in equal]
    over = tuple(v for v in over if any(v in t.axes for t in inside))
    if dtype[0] == "f":
        inside, outside = _distributed(lowering, inside, outside)
    value = [contract(lowering, inside, over, dtype)] if inside else []
    found = fold_left(lambda a, b: build.elementwise("mul", a, b), [*outside, *value])
    for variable in equal if dtype[0] == "f" and not known else ():  # no infinite term is no term
        count, one = build.size(build.extents[variable], "i64"), build.constant(1, "i64")
        some = build.elementwise("greater_or_equal", count, one, dtype="bool")
        found = build.elementwise("where", some, found, build.constant(0.0, dtype), dtype=dtype)
    return found


def _distributed(
    lowering: Lowering, inside: list[Tensor], outside: list[Tensor]
) -> tuple[list[Tensor], list[Tensor]]:
    """Outer factors multiplied into inner ones that have all their axes: infinities tell the difference."""
    inside, left = list(inside), []
    for factor in outside:
        places = [p for p, t in enumerate(inside) if set(factor.axes) <= set(t.axes)]
        if not places:
            left.append(factor)
            continue
        place = min(places, key=lambda p: len(inside[p].axes))
        inside[place] = lowering.build.elementwise("mul", factor, inside[place])
    return inside, left


def _least(lowering: Lowering) -> int:
    """The bits from which on signed arithmetic of the source does not wrap: NumPy's of 32 does."""
    return 64 if lowering.summary.function.language == "python" else 32


def factors(term: Term, least: int) -> list[Term]:
    """The factors of a product. A cast that widens a signed one, of at least so many bits, is one of each."""
    if isinstance(term, Call) and term.function == "mul":
        return [factor for part in term.args for factor in factors(part, least)]
    if isinstance(term, Call) and term.function == "neg" and term.type.kind != "bool":
        return [Num(Fraction(-1), term.type), *factors(term.args[0], least)]
    if isinstance(term, Call) and term.function == "cast" and term.type.kind == "int" and term.type.signed:
        inner = term.args[0]
        if isinstance(inner, Call) and inner.function == "mul" and _widens(inner, term, least):
            return [Call("cast", (factor,), term.type) for factor in factors(inner, least)]
    return [term]


def _widens(inner: Call, outer: Call, least: int) -> bool:
    """Whether a signed product, which the source may not overflow, is cast to more bits."""
    source, target = inner.type, outer.type
    return (
        source.kind == "int" and source.signed and source.bits is not None and source.bits >= least
        and (target.bits is None or target.bits > source.bits)
    )  # fmt: skip


def _contracts(lowering: Lowering, over: tuple[str, ...], body: Term) -> bool:
    """Whether the sum of some summand has fewer axes to hold than its body has."""
    if isinstance(body, Call) and body.function in ("add", "sub"):
        return any(_contracts(lowering, over, part) for part in body.args)
    variables = lowering.build.extents.keys()
    spaces = [symbols(factor) & variables for factor in factors(body, _least(lowering))]
    inner = [space for space in spaces if space & set(over)]
    joint = frozenset().union(*inner)
    return len(inner) > 1 and all(space != joint for space in inner)


def _masked(lowering: Lowering, tensors: list[Tensor], mask: tuple[Poly, ...], dtype: str) -> list[Tensor]:
    """0 outside the mask, put into the factor that shares most axes with it."""
    build = lowering.build
    lowering.masked = True
    holds = positions.mask(lowering, mask)
    shared = [len(set(t.axes) & set(holds.axes)) for t in tensors]
    place = shared.index(max(shared))
    zero = build.constant(0, dtype)
    cut = build.elementwise("where", holds, tensors[place], zero, dtype=dtype)
    return [*tensors[:place], cut, *tensors[place + 1 :]]


def contract(lowering: Lowering, tensors: list[Tensor], over: tuple[str, ...], dtype: str) -> Tensor:
    """sum(over; product of the tensors), each of which varies with some summed variable."""
    build = lowering.build
    tensors = _merged(lowering, tensors)
    if len(tensors) == 1:
        return _reduce(lowering, tensors[0], over, dtype)
    axes = build.ordered(axis for t in tensors for axis in t.axes if axis not in over)
    if len(tensors) == 2 and len(over) == 1 and all(over[0] in t.axes for t in tensors):
        a, b = sorted(tensors, key=lambda t: [axes.index(x) for x in t.axes if x in axes] or [len(axes)])
        found = _matmul(lowering, a, b, over[0], axes)
        if found is not None:
            return found
    return _einsum(lowering, tensors, axes, build.ordered((*axes, *over)), dtype)


def _merged(lowering: Lowering, tensors: list[Tensor]) -> list[Tensor]:
    """Factors beyond two are multiplied into one another where one has all axes of the other."""
    tensors = list(tensors)
    while len(tensors) > 2:
        pairs = (
            (i, j)
            for i in range(len(tensors))
            for j in range(len(tensors))
            if i != j and set(tensors[i].axes) <= set(tensors[j].axes)
        )
        pair = next(pairs, None)
        if pair is None:
            break
        i, j = pair
        product = lowering.build.elementwise("mul", tensors[min(i, j)], tensors[max(i, j)])
        tensors = [product if k == min(i, j) else t for k, t in enumerate(tensors) if k != max(i, j)]
    return tensors


def _reduce(lowering: Lowering, tensor: Tensor, over: tuple[str, ...], dtype: str) -> Tensor:
    build = lowering.build
    places = [place for place, axis in enumerate(tensor.axes) if axis in over]
    kept = tuple(axis for axis in tensor.axes if axis not in over)
    return build.node("reduce_sum", (tensor, build.constant(places, "i64")), dtype, kept, keepdims=0)


def _matmul(lowering: Lowering, a: Tensor, b: Tensor, inner: str, axes: tuple[str, ...]) -> Tensor | None:
    """A matrix product, where the axes fit one: batch..., at most one row and one column."""
    build = lowering.build
    batch = tuple(axis for axis in axes if axis in a.axes and axis in b.axes)
    rows = tuple(axis for axis in axes if axis in a.axes and axis not in b.axes)
    columns = tuple(axis for axis in axes if axis in b.axes and axis not in a.axes)
    if len(rows) > 1 or len(columns) > 1 or (batch and not (rows and columns)):
        return None
    if axes != (*batch, *rows, *columns):
        return None
    left = build.arrange(a, (*batch, *rows, inner))
    right = build.arrange(b, (*batch, inner, *columns))
    return build.node("matmul", (left, right), a.dtype, axes)


def _einsum(
    lowering: Lowering, tensors: list[Tensor], axes: tuple[str, ...], joint: tuple[str, ...], dtype: str
) -> Tensor:
    letters = dict(zip(joint, ascii_letters[8:] + ascii_letters[:8]))
    terms = ["".join(letters[axis] for axis in t.axes) for t in tensors]
    equation = f"{','.join(terms)}->{''.join(letters[axis] for axis in axes)}"
    return lowering.build.node("einsum", tensors, dtype, axes, equation=equation)
