"""Any tensor by its index formula: the op is the program.

    y[i, j, ...] = formula        one loop an axis; a reduction is a loop where all that it reads is known

A reduction that does not depend on the innermost axes is computed outside of their loops, and axes that some
reduction does not depend on are made the innermost ones: softmax along any axis reads its input three times.
What stands in a guard is evaluated only where the guard holds, so nothing is read outside a tensor.
Sums of floats are kept in double precision.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tensmith.ctext.loops import Nest, nest_lines
from tensmith.ctext.scalar import CBlock
from tensmith.ctext.typed import KnownRanges, Typing
from tensmith.errors import EngineError
from tensmith.formula.bounds import Ranges
from tensmith.formula.expr import Expr, Formula, Read, Reduce
from tensmith.formula.poly import Poly
from tensmith.formula.reach import outside
from tensmith.formula.types import F64, MachineType
from tensmith.formula.walk import free_variables, parts, reads
from tensmith.kernel.buffer import C_TYPES, Buffer
from tensmith.kernel.routine import Routine
from tensmith.kernel.routines.strided import StridedOperand
from tensmith.kernel.view import StridedView

_OUTPUT = "y"


@dataclass(frozen=True)
class Computed(Routine):
    """y by `formula`, whose tensors are the operands by name; `dtype` is y's.

    EngineError if it has no C, or may read outside of an operand.
    """

    formula: Formula
    operands: tuple[tuple[str, StridedOperand], ...]
    dtype: str

    def code(self, name: str, sources: tuple[Buffer, ...], target: Buffer) -> str:
        """One nest of loops."""
        for dtype in (*(operand.dtype for _, operand in self.operands), self.dtype):
            if dtype not in C_TYPES:
                raise EngineError(f"elements of type {dtype} have none in C here")
        beyond = outside(self.formula, {tensor: operand.view.shape for tensor, operand in self.operands})
        if beyond is not None:
            raise _no_c(f"a subscript of '{beyond.tensor}' may lie outside")
        unit = self.unit(name)
        unit.buffers = {tensor: unit.names.fresh(tensor) for tensor in (*dict(self.operands), _OUTPUT)}
        scope = CBlock(unit)
        for tensor, operand in self.operands:
            scope.line(f"const {C_TYPES[operand.dtype]} *{unit.buffers[tensor]} = {operand.pointer};")
        scope.line(f"{C_TYPES[self.dtype]} *{unit.buffers[_OUTPUT]} = ({C_TYPES[self.dtype]} *)out;")
        nest_lines(scope, self._nest())
        helpers = "".join(f"{text}\n" for text in unit.helpers.values())
        shape = "x".join(map(str, self.formula.shape)) or "one"
        lines = "".join(f"{line}\n" for line in scope.lines)
        return self.function(name, f"{shape}, each element by its formula.", lines, helpers)

    def _nest(self) -> Nest:
        """The loops; an axis of one position has none."""
        wide = [axis for axis in _order(self.formula) if self.formula.shape[axis] != 1]
        variables = tuple(self.formula.indices[axis] for axis in wide)
        extents = tuple(self.formula.shape[axis] for axis in wide)
        at = [Poly.symbol(name) if name in variables else Poly.of(0) for name in self.formula.indices]
        bounds = KnownRanges(Ranges(dict(zip(variables, extents))))
        operands = dict(self.operands)

        def read(tensor: str, indices: tuple[Poly, ...]) -> Expr:
            operand = operands[tensor]
            at = bounds.ranges.simplify(_address(operand.view, indices))
            return Read(tensor, (at,), MachineType(operand.dtype))

        expr = Typing(read, _no_c, bounds, sums=F64).typed(self.formula[at], MachineType(self.dtype))
        dense = StridedView.dense(tuple(int(size.constant or 0) for size in self.formula.shape))
        return Nest(_OUTPUT, self.dtype, variables, extents, _address(dense, tuple(at)), expr)


def _no_c(reason: str) -> EngineError:
    return EngineError(f"a formula has no C: {reason}")


def _address(view: StridedView, indices: tuple[Poly, ...]) -> Poly:
    at = Poly.of(view.offset)
    for index, stride in zip(indices, view.strides):
        at = at + index * stride
    return at


def _order(formula: Formula) -> list[int]:
    """Axes from the outermost loop in: last those that the most reductions do not depend on."""
    free = [free_variables(part) for part in _reductions(formula.body) if any(reads(part))]
    missing = [sum(name not in names for names in free) for name in formula.indices]
    return sorted(range(formula.rank), key=missing.__getitem__)


def _reductions(expr: Expr) -> Iterator[Reduce]:
    """Every reduction inside."""
    if isinstance(expr, Reduce):
        yield expr
    for part in parts(expr):
        yield from _reductions(part)


def tensors_of(formula: Formula) -> frozenset[str]:
    """The names of the tensors that a formula reads."""
    return frozenset(read.tensor for read in reads(formula.body))
