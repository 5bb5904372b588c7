"""Weights stored in 16 bits: float16 or bfloat16, widened again when the model is loaded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np

from tensmith.errors import ProgramError
from tensmith.formula.arith import Array
from tensmith.ir import Node, Program, make_node
from tensmith.ir.types import DTYPES
from tensmith.rewrite.calibration import Calibration
from tensmith.rewrite.lossy.parameters import Parameters
from tensmith.rewrite.lossy.weights import StoredWeights, stored_weights
from tensmith.rewrite.method import NUMBERS, Form, Method, MethodOutlook, Params, Prospect, lossy

_SHORT = {"float16": "f16", "bfloat16": "bf16"}
_SMALL = 64
_MOST = float(np.finfo(np.float16).max)


@lossy("half", stage=NUMBERS, promise="weights in 16 bits, computed in 32")
class Half(Method):
    """params: type ("float16" or "bfloat16"). Every float32 constant of 64 numbers or more is stored so.

    CPUs compute float32 faster than float16, and engines widen constants once, at loading: the file halves,
    speed stays.
    """

    acts_on = (StoredWeights,)

    def starts(self, prospect: Prospect) -> Iterable[Form]:
        """All weights, in float16 where that holds them: the safest of all, and so the first."""
        if stored := _stored(prospect.program):
            finite = (array[np.isfinite(array)] for array in stored.values())
            fits = all(np.abs(array).max(initial=0.0) <= _MOST for array in finite)
            yield Form((self.step(type="float16" if fits else "bfloat16"),), self.name, order=5)

    def outlooks(self, prospect: Prospect) -> Mapping[str, MethodOutlook]:
        """Layers of float32 that are stored in 16 bits."""
        stored = _stored(prospect.program)
        return {
            layer.site: MethodOutlook("16-bit weights", stored[layer.weight].nbytes / 2)
            for layer in stored_weights(prospect.program)
            if layer.weight in stored
        }

    def apply(self, program: Program, site: str, params: Params, calibration: Calibration) -> Program:
        """The program with 16-bit constants and a cast behind each."""
        reader = Parameters(self.name, params)
        name = reader.choice("type", *_SHORT)
        reader.done()
        dtype = DTYPES[_SHORT[name]]
        chosen = _stored(program)
        named = {key: program.unused(f"{key}.half") for key in chosen}
        with np.errstate(over="ignore"):
            halves = {named[key]: array.astype(dtype) for key, array in chosen.items()}
        overflown = [key for key, array in chosen.items() if _overflows(array, halves[named[key]])]
        if overflown:
            wider = "; use bfloat16" if name == "float16" else ""
            raise ProgramError(f"constant '{overflown[0]}' does not fit into {name}{wider}")
        casts: list[Node] = [make_node("cast", (named[key],), (key,), {"to": 1}) for key in chosen]
        kept = {key: array for key, array in program.constants.items() if key not in chosen}
        return replace(program, nodes=(*casts, *program.nodes), constants={**kept, **halves})


def _overflows(array: Array, half: Array) -> bool:
    """Whether numbers became infinite; a mask's infinities were so before."""
    return bool((np.isfinite(array) & ~np.isfinite(half.astype(np.float32))).any())


def _stored(program: Program) -> dict[str, Array]:
    """The constants that are stored in 16 bits."""
    return {
        key: array
        for key, array in program.constants.items()
        if array.dtype == np.float32 and array.size >= _SMALL and key not in program.outputs
    }
