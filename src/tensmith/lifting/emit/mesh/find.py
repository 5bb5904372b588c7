"""Steps that Gemmini runs: products of matrices through the mesh, sums of arrays through the accumulator.

Two builds of the hardware are public: int8 elements with 32-bit accumulators, and fp32. Results are those
of the source: nothing that the hardware would round or saturate is given to it.
"""

from __future__ import annotations

from dataclasses import dataclass

from tensmith.formula.expr import Call, Expr, Num, Read, Reduce
from tensmith.formula.poly import Poly, product
from tensmith.formula.walk import loads, outer_reductions
from tensmith.ir.ops.sizes import flat_position
from tensmith.lifting.emit.kernel.plan import LoopNest


@dataclass(frozen=True)
class MatrixOperand:
    """A matrix in memory: rows `stride` elements apart, columns `column` elements apart."""

    load: Read
    start: Poly
    stride: Poly
    column: Poly

    @property
    def dense(self) -> bool:
        """Whether a row can be moved at once."""
        return self.column == 1


@dataclass(frozen=True)
class MatrixProduct:
    """c[i, j] = d[i, j] + sum(k; a[i, k] * b[k, j]) for every index of the outer loops.

    rows, columns, depth: I, J, K. Without a second (or first) axis, J (or I) is 1. `bias` is d, or None.
    """

    build: str
    outer: tuple[int, ...]
    rows: Poly
    columns: Poly
    depth: Poly
    a: MatrixOperand
    b: MatrixOperand
    bias: MatrixOperand | None
    c: tuple[Poly, Poly]  # start and row stride


@dataclass(frozen=True)
class Sum:
    """z = sum of factor * x over dense arrays of as many elements; at most three terms."""

    build: str
    count: Poly
    terms: tuple[tuple[Expr | None, int, Read, Poly], ...]  # factor, sign, array, offset
    target: Poly


def find_product(step: LoopNest) -> MatrixProduct | None:
    """The step as one matrix product, with or without an addend."""
    fold, bias = _fold_and_bias(step.expr)
    if fold is None or step.scan is not None or guarded(step):
        return None
    for axes in _axis_pairs(len(step.variables)):
        found = _product(step, fold, bias, *axes)
        if found is not None:
            return found
    return None


def guarded(step: LoopNest) -> bool:
    """Whether a step reads memory that may not be there, which the mesh would load all the same."""
    return any(load.when is not None for load in loads(step.expr))


def stored_for_mesh(step: LoopNest) -> frozenset[str]:
    """Products inside larger expressions: the mesh computes them first, the CPU core goes on."""
    found = set()
    for fold in outer_reductions(step.expr):
        alone = LoopNest(step.buffer, fold.type, step.variables, step.extents, step.index, fold)
        if fold.of and find_product(alone) is not None and find_product(step) is None:
            found.add(fold.of)
    return frozenset(found)


def _fold_and_bias(root: Expr) -> tuple[Reduce | None, Read | None]:
    match root:
        case Reduce():
            return root, None
        case Call("add", (Reduce() as fold, Read(_, (_,)) as bias)):
            return fold, bias
        case Call("add", (Read(_, (_,)) as bias, Reduce() as fold)):
            return fold, bias
    return None, None


def _axis_pairs(rank: int) -> list[tuple[int | None, int | None]]:
    """Which loops are rows and columns: the last two, or one of them alone."""
    if rank == 0:
        return []
    pairs: list[tuple[int | None, int | None]] = [(rank - 2, rank - 1)] if rank > 1 else []
    return [*pairs, (rank - 1, None), (None, rank - 1)]


def _product(
    step: LoopNest, fold: Reduce, bias: Read | None, row: int | None, column: int | None
) -> MatrixProduct | None:
    factors = _factors(fold)
    if factors is None or fold.kind != "sum":
        return None
    build, pair = factors
    i = step.variables[row] if row is not None else None
    j = step.variables[column] if column is not None else None
    for a, b in (pair, pair[::-1]):
        left, right = _operand(a, i, fold.var, j), _operand(b, fold.var, j, i)
        if left is None or right is None:
            continue
        added = None if bias is None else _operand(bias, i, j, fold.var)
        target = _matrix(step.index, i, j)
        if target is None or target[2] != 1 or (bias is not None and added is None):
            continue
        outer = tuple(axis for axis in range(len(step.variables)) if axis not in (row, column))
        sizes = [step.extents[axis] if axis is not None else Poly.of(1) for axis in (row, column)]
        return MatrixProduct(build, outer, sizes[0], sizes[1], fold.extent, left, right, added, target[:2])
    return None


def _factors(fold: Reduce) -> tuple[str, tuple[Read, Read]] | None:
    """The build that multiplies exactly, and the two matrices."""
    match fold.body:
        case Call("mul", args, fold.type):
            pair = [_widened(arg) for arg in args]
        case _:
            return None
    match pair:
        case Read(_, (_,)) as a, Read(_, (_,)) as b:
            types = (a.type, b.type, fold.type)
            build = {("f32", "f32", "f32"): "fp32", ("i8", "i8", "i32"): "int8"}.get(types)
            return None if build is None else (build, (a, b))
    return None


def _widened(expr: Expr) -> Expr:
    """What is made 32 bits wide, or the expression itself."""
    match expr:
        case Call("cast", (inner,), "i32"):
            return inner
    return expr


def _matrix(index: Poly, row: str | None, column: str | None) -> tuple[Poly, Poly, Poly] | None:
    """start, row stride and column stride of an index; strides of absent axes are 1."""
    start, strides = index, []
    for variable in (row, column):
        stride = Poly.of(1) if variable is None else index.coefficient(variable)
        if stride is None or (variable is not None and variable not in index.symbols()):
            return None
        strides.append(stride)
        if variable is not None:
            start = start - stride * Poly.symbol(variable)
    return start, strides[0], strides[1]


def _operand(load: Read, row: str | None, column: str | None, other: str | None) -> MatrixOperand | None:
    """A load as a matrix over two variables that does not vary with a third."""
    (index,) = load.indices
    if other is not None and other in index.symbols():
        return None
    found = _matrix(index, row, column)
    return None if found is None else MatrixOperand(load, *found)


def find_sum(step: LoopNest) -> Sum | None:
    """The step as a sum of dense arrays of accumulator words."""
    build = "fp32" if step.dtype == "f32" else "int8" if step.dtype == "i32" else None
    if build is None or step.scan is not None or not step.variables:
        return None
    terms = _terms(step.expr, 1)
    plain = terms is not None and len(terms) == 1 and terms[0][0] is None
    if terms is None or plain or len(terms) > 3:
        return None
    flat = Poly.of(flat_position(tuple(map(Poly.symbol, step.variables)), step.extents))
    target = step.index - flat
    found = []
    for factor, sign, load in terms:
        offset = load.indices[0] - flat
        exact = build == "fp32" or (factor is None and sign == 1)
        if load.type != step.dtype or offset.symbols() & set(step.variables) or not exact:
            return None
        found.append((factor, sign, load, offset))
    if target.symbols() & set(step.variables):
        return None
    return Sum(build, Poly.of(product(step.extents)), tuple(found), target)


def _terms(expr: Expr, sign: int) -> list[tuple[Expr | None, int, Read]] | None:
    """factor * array terms of a sum; None where it is none."""
    match expr:
        case Read(_, (_,)):
            return [(None, sign, expr)]
        case Call("add" | "sub", (a, b)):
            left, right = _terms(a, sign), _terms(b, sign if expr.function == "add" else -sign)
            return None if left is None or right is None else [*left, *right]
        case Call("mul", (Num() | Read(_, ()) as factor, Read(_, (_,)) as array)):
            return [(factor, sign, array)]
        case Call("mul", (Read(_, (_,)) as array, Num() | Read(_, ()) as factor)):
            return [(factor, sign, array)]
    return None
