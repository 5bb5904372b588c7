"""A plan that is run here and now, with the time that each of its actions takes."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Mapping

import numpy as np

from tensmith.backend.native.emit.source import print_c
from tensmith.backend.native.plan import NativePlan
from tensmith.formula.arith import Array
from tensmith.kernel.toolchain import compile_library

_ENTRY, _PAGE = "tensmith_run_timed", 4096


def action_seconds(plan: NativePlan, inputs: Mapping[str, Array], seconds: float) -> list[float]:
    """Mean seconds of each action on these inputs, in one thread, over as many runs as `seconds` allow."""
    library = ctypes.CDLL(str(compile_library(print_c(plan, _ENTRY, timed=True), plan.isa)))
    run = getattr(library, _ENTRY)
    run.restype, run.argtypes = ctypes.c_int, [ctypes.c_void_p] * 5
    types = [plan.program.type(name) for name in plan.program.outputs]
    given = [np.ascontiguousarray(inputs[name], t.numpy) for name, t in plan.program.inputs.items()]
    made = [np.empty(type_.static or (), type_.numpy) for type_ in types]
    arena, spent = np.zeros(plan.arena_bytes + _PAGE, np.uint8), np.zeros(max(1, len(plan.actions)))
    weights = np.zeros(plan.weights.nbytes + _PAGE, np.uint8)
    weights[_gap(weights) :][: plan.weights.nbytes] = plan.weights
    words = (_start(weights), _pointers(given), _pointers(made), _start(arena), spent.ctypes.data)
    run(*words)  # pages are touched, caches filled
    spent[:] = 0
    runs, ended = 0, time.monotonic() + seconds
    while not runs or time.monotonic() < ended:
        run(*words)
        runs += 1
    return [float(total) / runs for total in spent[: len(plan.actions)]]


def _gap(array: Array) -> int:
    return -array.ctypes.data % _PAGE


def _start(array: Array) -> int:
    return int(array.ctypes.data) + _gap(array)


def _pointers(arrays: list[Array]) -> ctypes.Array[ctypes.c_void_p]:
    return (ctypes.c_void_p * max(1, len(arrays)))(*(array.ctypes.data for array in arrays))
