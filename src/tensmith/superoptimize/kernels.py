"""Several values of a program as one C function: loops are fused, what would be computed twice is stored.

The text is written by the rooms that write C for lifted loops. What mathematical functions cost decides, so
they are declared as functions of vectors where the C library has them.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tensmith.ctext.dialect import CTYPES
from tensmith.ctext.names import Names
from tensmith.ctext.scalar import CBlock, CUnit
from tensmith.errors import EngineError
from tensmith.formula.poly import Poly
from tensmith.formula.types import F64
from tensmith.ir import Program, TensorType
from tensmith.ir.part import without_dead
from tensmith.ir.types import DTYPES
from tensmith.kernel.isa import host_isa
from tensmith.kernel.toolchain import compile_library
from tensmith.lifting.emit.kernel.body import add_loops, constant_tables, rooms
from tensmith.lifting.emit.kernel.elements import least
from tensmith.lifting.emit.kernel.plan import LoopPlan, make_plan, output_key
from tensmith.lifting.lifted import ArrayView, Input, Lifted, Output
from tensmith.lifting.loops import Function

_PRELUDE = """#pragma GCC optimize("O3")
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && defined(__GLIBC__)
#if __GLIBC__ == 2 && __GLIBC_MINOR__ >= 35
#define OF_VECTORS __attribute__((simd("notinbranch")))
#define DECLARED(f) extern OF_VECTORS double f(double); extern OF_VECTORS float f##f(float);
DECLARED(exp) DECLARED(log) DECLARED(sin) DECLARED(cos) DECLARED(tan) DECLARED(tanh) DECLARED(erf)
DECLARED(asin) DECLARED(acos) DECLARED(atan) DECLARED(sinh) DECLARED(cosh) DECLARED(log1p)
extern OF_VECTORS double pow(double, double);
extern OF_VECTORS float powf(float, float);
#endif
#endif

"""
# Where an array's address of its elements lies: behind what every object of Python begins with.
_ELEMENTS = object.__basicsize__
_HEAD = '__attribute__((visibility("default")))'


def part_of(program: Program, inputs: Sequence[str], outputs: Sequence[str]) -> Program:
    """The part of a program that computes some values from others."""
    cut = replace(
        program,
        inputs={name: program.type(name) for name in inputs},
        outputs=tuple(outputs),
        nodes=tuple(node for node in program.nodes if node.output not in inputs),
        constants={name: array for name, array in program.constants.items() if name not in inputs},
    )
    return without_dead(cut)


def kernel_text(part: Program, name: str) -> str:
    """A C function of the inputs (numbers by value, arrays dense) and then the outputs; 1 if memory lacks."""
    lifted = _lifted(part, name)
    plan = make_plan(lifted)
    return _Writer(part, plan, lifted, name).text()


def _lifted(part: Program, name: str) -> Lifted:
    inputs = tuple(
        Input(each, scalar=each) if not type_.dims else Input(each, view=_dense(each, type_))
        for each, type_ in part.inputs.items()
    )
    outputs = tuple(Output(each, F64, view=_dense(each, part.type(each))) for each in part.outputs)
    function = Function(name, (), None, (), "c", "")
    return Lifted(function, part, (), inputs, outputs, (), (), "")


def _dense(name: str, type_: TensorType) -> ArrayView:
    shape = type_.static
    assert shape is not None, "a traced program has fixed sizes"
    steps = [int(np.prod(shape[axis + 1 :], dtype=np.int64)) for axis in range(len(shape))]
    return ArrayView(name, (Poly.of(0),), (tuple(map(Poly.of, steps)),), tuple(map(Poly.of, shape)))


class _Writer:
    """The text of one function under construction."""

    def __init__(self, part: Program, plan: LoopPlan, lifted: Lifted, name: str) -> None:
        self.part, self.plan, self.name = part, plan, name
        names = Names({name, "OF_VECTORS", "DECLARED", "ELEMENTS"})
        self.arrays = {each: names.fresh(each) for each in part.inputs}
        self.outputs = {each: names.fresh(f"out_{each}") for each in part.outputs}
        self.numbers = {each for each, type_ in part.inputs.items() if not type_.dims}
        texts = (*self.arrays.values(), *self.outputs.values())
        self.objects = {text: names.fresh(f"of_{text}") for text in texts}
        stored = {each: names.fresh(each) for each in plan.stored}
        tables = {each: names.fresh(f"table_{each}") for each in part.constants}
        buffers = {output_key(each): text for each, text in self.outputs.items()}
        buffers |= self.arrays | stored | tables
        self.unit = CUnit(
            names,
            lambda symbol: symbol,
            buffers,
            self.arrays,
            frozenset(each for each in plan.stored if not part.type(each).dims),
            checked=False,
            least=least(lifted),
        )

    def text(self) -> str:
        """The function behind the constants and helpers that it needs."""
        scope = CBlock(self.unit)
        add_loops(scope, self.plan, rooms(self.part, self.plan), lambda: 1)
        scope.line("return 0;")
        body = "\n".join([*self._pointers(), *scope.lines])
        head = f"{_HEAD} int {self.name}({', '.join(self._parameters())})"
        helpers = "".join(f"{text}\n\n" for text in self.unit.helpers.values())
        constants = "".join(constant_tables(self.part, self.unit.buffers, body))
        return f"{constants}{helpers}{head}\n{{\n{body}\n}}\n"

    def _parameters(self) -> list[str]:
        """Numbers by value, arrays as NumPy's objects; what finds their elements is in the text."""
        types = {each: self.part.type(each) for each in (*self.arrays, *self.outputs)}
        return [
            f"const {CTYPES[types[each].dtype]} {text}"
            if each in self.numbers
            else f"const void *{self.objects[text]}"
            for each, text in (self.arrays | self.outputs).items()
        ]

    def _pointers(self) -> list[str]:
        found = []
        for names, const in ((self.arrays, "const "), (self.outputs, "")):
            for each, text in names.items():
                if each not in self.numbers:
                    ctype = CTYPES[self.part.type(each).dtype]
                    found.append(f"    {const}{ctype} *restrict {text} = ELEMENTS({self.objects[text]});")
        return found


def compiled(texts: Sequence[str]) -> ctypes.CDLL:
    """The library of some functions' texts, kept in the user's cache. EngineError if there is no compiler."""
    probe = np.empty(1)
    if ctypes.c_void_p.from_address(id(probe) + _ELEMENTS).value != probe.ctypes.data:
        raise EngineError("arrays lie otherwise in memory here than in NumPy's own C interface")
    where = f"#define ELEMENTS(array) (*(void **)((char *)(array) + {_ELEMENTS}))\n\n"
    return ctypes.CDLL(str(compile_library(_PRELUDE + where + "\n".join(texts), host_isa())))


def callee(library: ctypes.CDLL, name: str, part: Program) -> Callable[..., Any]:
    """A function of the inputs as NumPy holds them that returns the outputs as new arrays."""
    entry = getattr(library, name)
    made = [(part.type(each).static or (), DTYPES[part.type(each).dtype]) for each in part.outputs]
    types = list(part.inputs.values())
    entry.argtypes = [
        ctypes.py_object if t.dims else np.ctypeslib.as_ctypes_type(DTYPES[t.dtype]) for t in types
    ] + [ctypes.py_object] * len(made)
    plain = {"f": float, "i": int, "u": int, "b": bool}
    convert = [np.ascontiguousarray if t.dims else plain[t.dtype[0]] for t in types]
    alone = len(made) == 1

    def run(*given: Any) -> Any:
        kept = [each(x) for each, x in zip(convert, given)]
        results = [np.empty(shape, dtype) for shape, dtype in made]
        if entry(*kept, *results):
            raise MemoryError
        return results[0] if alone else results

    return run
