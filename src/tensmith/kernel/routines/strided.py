"""Functions of elements over strided views: elementwise groups, copies, transposes, concatenations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tensmith.ctext.scalar import CBlock, CUnit
from tensmith.formula.expr import Expr, Read
from tensmith.kernel.buffer import C_TYPES, ELEMENT_BYTES, Buffer
from tensmith.kernel.parts import load_code, store_code
from tensmith.kernel.routine import Routine
from tensmith.kernel.squares import turn
from tensmith.kernel.view import Shape, StridedView, collapsed


@dataclass(frozen=True)
class StridedOperand:
    """A view of what a routine reads: of `source`, an index, or of its constants where that is None.

    The view's offset is in elements of `dtype`, for constants too.
    """

    source: int | None
    view: StridedView
    dtype: str = "f32"

    @property
    def pointer(self) -> str:
        """The C expression of where the memory begins."""
        memory = "constants" if self.source is None else f"in[{self.source}]"
        return f"(const {C_TYPES[self.dtype]} *){memory}"


@dataclass(frozen=True)
class StridedStatement:
    """target[i] = expression of the operands at i; all have the target's shape.

    `expression` is C with {0}, {1}... over vectors of floats, in which bytes are their codes, or a function
    of numbers of any type, of parameters "0", "1"...
    """

    expression: str | Expr
    operands: tuple[StridedOperand, ...]
    target: StridedView

    @property
    def vector(self) -> bool:
        """Whether it is computed over vectors."""
        return isinstance(self.expression, str)

    def copies(self, dtype: str) -> bool:
        """Whether elements of this type are written as they are read."""
        same = self.expression == "{0}" or isinstance(self.expression, Read)
        return same and self.operands[0].dtype == dtype

    def over(self, values: Sequence[str]) -> str:
        """The C of one vector of it."""
        assert isinstance(self.expression, str)
        return self.expression.format(*values)


@dataclass(frozen=True)
class Strided(Routine):
    """Writes each part in turn; together they are the whole output, of element type `dtype`."""

    parts: tuple[StridedStatement, ...]
    lanes: int
    dtype: str = "f32"

    def code(self, name: str, sources: tuple[Buffer, ...], target: Buffer) -> str:
        """A nest of loops a part."""
        shapes = " and ".join("x".join(map(str, part.target.shape)) or "one" for part in self.parts)
        unit = self.unit(name)
        nests = "".join(
            f"    {{\n{self._nest(part, unit)}\n    }}\n" for part in self.parts if part.target.size
        )
        helpers = "".join(f"{text}\n" for text in unit.helpers.values())
        return self.function(name, f"{shapes}, element by element.", nests, helpers)

    def _nest(self, part: StridedStatement, unit: CUnit) -> str:
        """Loops over the outer axes, then one run along the last."""
        views = [operand.view for operand in part.operands]
        sizes, (mine, *strides) = collapsed(part.target.shape, [part.target, *views])
        axis = self._turning(part, sizes, mine, strides)
        if axis is not None:
            return self._squares(part, sizes, mine, strides, axis)
        *outer, length = sizes or (1,)
        lines = [f"    for (int i{axis} = 0; i{axis} < {size}; i{axis}++)" for axis, size in enumerate(outer)]
        at = _address(part.target.offset, mine)
        lines.append(f"    {{\n        {C_TYPES[self.dtype]} *y = ({C_TYPES[self.dtype]} *)out + {at};")
        for index, (operand, steps) in enumerate(zip(part.operands, strides)):
            at = _address(operand.view.offset, steps)
            pointer = operand.pointer
            lines.append(f"        const {C_TYPES[operand.dtype]} *x{index} = {pointer} + {at};")
        last = [step[-1] if step else 0 for step in (mine or (1,), *strides)]
        lines.append(self._run(part, unit, length, last) + "    }")
        return "\n".join("    " + line for line in lines)

    def _turning(
        self, part: StridedStatement, sizes: Shape, mine: Shape, strides: Sequence[Shape]
    ) -> int | None:
        """The axis along which everything lies that steps along the last one; None if squares do not help."""
        stepping = [steps for steps in strides if steps and steps[-1] not in (0, 1)]
        if not (part.vector and self.dtype == "f32" and stepping) or mine[-1] != 1 or sizes[-1] < self.lanes:
            return None
        fitting = (
            axis
            for axis, size in enumerate(sizes[:-1])
            if size >= self.lanes and all(steps[axis] == 1 for steps in stepping)
        )
        return next(fitting, None)

    def _squares(
        self, part: StridedStatement, sizes: Shape, mine: Shape, strides: Sequence[Shape], axis: int
    ) -> str:
        """Loops over squares of `axis` and the last one: read along the one, written along the other.

        The last square of a run overlaps its neighbour.
        """
        lanes, (*outer, length) = self.lanes, sizes
        loops = [f"for (int i{a} = 0; i{a} < {size}; i{a}++)" for a, size in enumerate(outer) if a != axis]
        setup, reads = [f"float *y = (float *)out + {_address(part.target.offset, mine)};"], []
        values = []
        for n, (operand, steps) in enumerate(zip(part.operands, strides)):
            at = _address(operand.view.offset, steps)
            setup.append(f"const {C_TYPES[operand.dtype]} *x{n} = {operand.pointer} + {at};")
            if steps[-1] in (0, 1):
                row = f"(x{n} + c * {steps[axis]})"
                values.append(_read(row, operand.dtype, steps[-1], "j", lanes, lanes))
            else:
                column = _read(f"x{n} + (j + c) * {steps[-1]}", operand.dtype, 1, "0", lanes, lanes)
                reads.append(f"""\
            vf t{n}[{lanes}];
            UNROLL for (int c = 0; c < {lanes}; c++) t{n}[c] = {column};
{turn(f"t{n}", lanes, 12)}""")
                values.append(f"t{n}[c]")
        return f"""\
        {" ".join(loops)}
        for (int p = 0; p < {outer[axis]}; p += {lanes}) for (int n = 0; n < {length}; n += {lanes}) {{
            const int i{axis} = {_at_most("p", outer[axis] - lanes)}, j = {_at_most("n", length - lanes)};
            {" ".join(setup)}
{"".join(reads)}\
            UNROLL for (int c = 0; c < {lanes}; c++)
                store(y + c * {mine[axis]} + j, {part.over(values)});
        }}"""

    def _run(self, part: StridedStatement, unit: CUnit, length: int, steps: list[int]) -> str:
        """One run: whole vectors and a part of one, or number by number; all at once where it is a copy."""
        if part.copies(self.dtype) and steps == [1, 1]:
            return f"        memcpy(y, x0, {length * ELEMENT_BYTES[self.dtype]});\n"
        if not isinstance(part.expression, str):
            values = {str(index): f"x{index}[j * {step}]" for index, step in enumerate(steps[1:])}
            scope = CBlock(replace(unit, scalars=values))
            scope.line(f"y[j * {steps[0]}] = {scope.value(part.expression)};")
            lines = " ".join(map(str.strip, scope.lines))
            return f"        for (int j = 0; j < {length}; j++) {{ {lines} }}\n"
        whole = length - length % self.lanes
        text = ""
        if whole:
            done = self._vector(part, steps, "j", self.lanes)
            text += f"        for (int j = 0; j < {whole}; j += {self.lanes}) {done}\n"
        if length > whole:
            text += f"        {self._vector(part, steps, str(whole), length - whole)}\n"
        return text

    def _vector(self, part: StridedStatement, steps: list[int], j: str, count: int) -> str:
        """The C statement for `count` elements from j on."""
        reads = enumerate(zip(part.operands, steps[1:]))
        values = [_read(f"x{n}", operand.dtype, step, j, count, self.lanes) for n, (operand, step) in reads]
        value = part.over(values)
        if self.dtype == "u8":
            whole = steps[0] == 1 and count == self.lanes
            rest = f"to_bytes_step(y + {j} * {steps[0]}, {value}, {steps[0]}, {count});"
            return f"to_bytes(y + {j}, {value});" if whole else rest
        if steps[0] != 1:
            return f"store_step(y + {j} * {steps[0]}, {value}, {steps[0]}, {count});"
        return f"{store_code(f'y + {j}', value, count, self.lanes)};"


def _read(pointer: str, dtype: str, step: int, j: str, count: int, lanes: int) -> str:
    if step == 0:
        return f"splat((float){pointer}[0])"
    if dtype == "u8":
        part = f"widen_step({pointer} + {j} * {step}, {step}, {count})"
        return f"widen({pointer} + {j})" if step == 1 and count == lanes else part
    if step != 1:
        return f"load_step({pointer} + {j} * {step}, {step}, {count})"
    return load_code(f"{pointer} + {j}", count, lanes)


def _at_most(index: str, last: int) -> str:
    return f"{index} < {last} ? {index} : {last}"


def _address(offset: int, steps: Shape) -> str:
    """The C expression of where the loops i0, i1... outside of the last one stand."""
    terms = [f"i{axis} * {step}" for axis, step in enumerate(steps[:-1]) if step]
    return " + ".join([str(offset), *terms])
