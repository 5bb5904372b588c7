"""Formulas printed, compiled and run: as C, and as OpenCL C where there is a device."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tensmith.backend.device.dialect import OPENCL
from tensmith.ctext.dialect import DEVICE, PLAIN_C, Dialect
from tensmith.ctext.loops import Nest, nest_lines
from tensmith.ctext.names import Names
from tensmith.ctext.scalar import CBlock, CUnit
from tensmith.ctext.typed import KnownRanges, Typing
from tensmith.formula.bounds import Ranges
from tensmith.formula.expr import Expr, Formula, Read
from tensmith.formula.poly import Poly
from tensmith.ir.ops.sizes import flat_position
from tensmith.ir.types import DTYPES
from tensmith.kernel.isa import host_isa
from tensmith.kernel.toolchain import compile_library

Array = np.ndarray[Any, Any]
Tensors = Mapping[str, Array]

_HEAD = """\
#include <math.h>
#include <stdint.h>
#define SHOWN __attribute__((visibility("default")))
"""


def dtype_of(array: Array) -> str:
    return next(name for name, dtype in DTYPES.items() if dtype == array.dtype)


def result_type(formula: Formula, tensors: Tensors) -> str:
    """Floats as floats, all else as 64-bit integers."""
    return "f32" if _typing(formula, tensors)[0].number(formula.body).type[0] == "f" else "i64"


def _typing(formula: Formula, tensors: Tensors) -> tuple[Typing, KnownRanges]:
    bounds = KnownRanges(Ranges(dict(zip(formula.indices, formula.shape))))

    def read(name: str, indices: tuple[Poly, ...]) -> Expr:
        at = Poly.of(flat_position(indices, tensors[name].shape))
        return Read(name, (bounds.ranges.simplify(at),), dtype_of(tensors[name]))

    return Typing(read, ValueError, bounds), bounds


def function(name: str, formula: Formula, tensors: Tensors, dialect: Dialect) -> str:
    """A function of pointers to all tensors and the result."""
    pointers = {tensor: tensor for tensor in tensors} | {"y": "y"}
    unit = CUnit(
        Names(pointers),
        dict[str, str]().__getitem__,
        pointers,
        {},
        dialect=dialect,
        checked=False,
        prefix=f"{name}_",
    )
    scope = CBlock(unit)
    dtype = result_type(formula, tensors)
    expr = _typing(formula, tensors)[0].typed(formula.body, dtype)
    at = Poly.of(flat_position(tuple(map(Poly.symbol, formula.indices)), formula.shape))
    nest_lines(scope, Nest("y", dtype, formula.indices, formula.shape, at, expr))
    space = "GLOBAL " if dialect is DEVICE else ""
    given = [f"{space}const {dialect.types[dtype_of(array)]} *{name}" for name, array in tensors.items()]
    arguments = ", ".join([*given, f"{space}{dialect.types[dtype]} *y"])
    head = f"{'FUNCTION' if dialect is DEVICE else 'SHOWN'} void {name}"
    return "\n".join([*unit.helpers.values(), f"{head}({arguments})", "{", *scope.lines, "}", ""])


def in_c(formulas: Sequence[Formula], tensors: Tensors) -> list[Array]:
    """What compiled C computes."""
    texts = [function(f"formula{n}", formula, tensors, PLAIN_C) for n, formula in enumerate(formulas)]
    library = ctypes.CDLL(str(compile_library(_HEAD + "".join(texts), host_isa())))
    found = []
    for n, formula in enumerate(formulas):
        y = _result(formula, tensors)
        pointers = [ctypes.c_void_p(array.ctypes.data) for array in (*tensors.values(), y)]
        getattr(library, f"formula{n}")(*pointers)
        found.append(y)
    return found


def in_opencl(formulas: Sequence[Formula], tensors: Tensors, device: Any) -> list[Array]:
    """What a device computes."""
    import pyopencl as cl

    numbers = range(len(formulas))
    results = [_result(formula, tensors) for formula in formulas]
    arrays = {**tensors, **{f"y{n}": y for n, y in enumerate(results)}}
    arguments = ", ".join(f"GLOBAL {DEVICE.types[dtype_of(y)]} *{name}" for name, y in arrays.items())
    calls = " ".join(f"formula{n}({', '.join([*tensors, f'y{n}'])});" for n in numbers)
    # One kernel: drivers take long for each.
    texts = [function(f"formula{n}", formulas[n], tensors, DEVICE) for n in numbers]
    text = "".join([OPENCL, *texts, f"KERNEL(1) all_of_them({arguments}) {{ {calls} }}"])
    context = cl.Context([device])
    queue = cl.CommandQueue(context)
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    memory = [cl.Buffer(context, flags, hostbuf=array) for array in arrays.values()]
    kernel = cl.Kernel(cl.Program(context, text).build(["-w"]), "all_of_them")
    kernel.set_args(*memory)
    cl.enqueue_nd_range_kernel(queue, kernel, (1,), (1,))
    for y, written in zip(results, memory[len(tensors) :]):
        cl.enqueue_copy(queue, y, written)
    return results


def _result(formula: Formula, tensors: Tensors) -> Array:
    shape = tuple(int(size.constant or 0) for size in formula.shape)
    return np.zeros(shape, DTYPES[result_type(formula, tensors)])
