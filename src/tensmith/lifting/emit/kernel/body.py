"""A plan of loops as C: the tables of its constants, the memory of what it stores, and its loops."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

from tensmith.ctext.dialect import CTYPES
from tensmith.ctext.loops import nest_lines
from tensmith.ctext.names import enclosed, literal
from tensmith.ctext.scalar import CBlock
from tensmith.formula.poly import Poly, product
from tensmith.ir import Program
from tensmith.lifting.emit.kernel.plan import LoopNest, LoopPlan

# Buffer -> element type and number of elements.
Rooms: TypeAlias = Mapping[str, tuple[str, Poly]]


def constant_tables(program: Program, buffers: Mapping[str, str], body: str) -> Iterator[str]:
    """The constants that a body reads, a line each."""
    for name, array in program.constants.items():
        dtype, table = program.type(name).dtype, buffers[name]
        if f"{table}[" in body:
            elements = ", ".join(literal(item, dtype) for item in array.reshape(-1).tolist())
            yield f"static const {CTYPES[dtype]} {table}[{array.size}] = {{{elements}}};\n"


def rooms(program: Program, plan: LoopPlan) -> Rooms:
    """What the stored arrays take."""
    types = {name: program.type(name) for name in plan.stored}
    return {name: (type_.dtype, Poly.of(product(type_.dims))) for name, type_ in types.items() if type_.dims}


def add_loops(
    scope: CBlock,
    plan: LoopPlan,
    rooms: Rooms,
    no_memory: Callable[[], int],
    nest: Callable[[CBlock, LoopNest], None] = nest_lines,
) -> None:
    """The loops of every step, between getting memory and freeing it; no_memory: the status without."""
    buffers = scope.unit.buffers
    if rooms:
        _allocate(scope, rooms, no_memory())
    for step in plan.steps:
        if step.output is None and step.buffer in scope.unit.single:
            scope.line(f"{CTYPES[step.dtype]} {buffers[step.buffer]};")
        nest(scope, step)
    for name in rooms:
        scope.line(f"free({buffers[name]});")


def _allocate(scope: CBlock, rooms: Rooms, status: int) -> None:
    names = [scope.unit.buffers[name] for name in rooms]
    for name, (dtype, size) in zip(names, rooms.values()):
        scope.line(allocation(scope, name, dtype, size))
    scope.line(f"if ({' || '.join(f'{name} == NULL' for name in names)}) {{")
    scope.line(f"    {' '.join(f'free({name});' for name in names)}")
    scope.line(f"    return {status};")
    scope.line("}")


def allocation(scope: CBlock, name: str, dtype: str, size: Poly) -> str:
    """A pointer to memory for so many elements, NULL where there is none."""
    count = enclosed(scope.poly(size))
    return f"{CTYPES[dtype]} *restrict {name} = malloc((size_t){count} * sizeof *{name} + 1);"
