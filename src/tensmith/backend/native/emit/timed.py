"""A plan that is run here and now, with the time that each of its actions takes."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Mapping

import numpy as np

from tensmith.backend.native.emit.loader import arena_of, pointers_of
from tensmith.backend.native.emit.source import print_c
from tensmith.backend.native.plan import NativePlan
from tensmith.formula.arith import Array
from tensmith.kernel.toolchain import compile_library

_ENTRY = "tensmith_run_timed"


def action_seconds(plan: NativePlan, inputs: Mapping[str, Array], seconds: float) -> list[float]:
    """Mean seconds of each action on these inputs, in one thread, over as many runs as `seconds` allow."""
    library = ctypes.CDLL(str(compile_library(print_c(plan, _ENTRY, timed=True), plan.needed)))
    run = getattr(library, _ENTRY)
    run.restype, run.argtypes = ctypes.c_int, [ctypes.c_void_p] * 5
    types = [plan.program.type(name) for name in plan.program.outputs]
    given = [np.ascontiguousarray(inputs[name], t.numpy) for name, t in plan.program.inputs.items()]
    made = [np.empty(type_.static or (), type_.numpy) for type_ in types]
    arena, kept = arena_of(plan.arena_bytes)
    weights, stored = arena_of(plan.weights.nbytes)
    stored[: plan.weights.nbytes] = plan.weights.tobytes()
    spent = np.zeros(max(1, len(plan.actions)))
    words = (weights, pointers_of(given), pointers_of(made), arena, spent.ctypes.data)
    run(*words)  # pages are touched, caches filled
    spent[:] = 0
    runs, ended = 0, time.monotonic() + seconds
    while not runs or time.monotonic() < ended:
        run(*words)
        runs += 1
    del kept, stored
    return [float(total) / runs for total in spent[: len(plan.actions)]]
