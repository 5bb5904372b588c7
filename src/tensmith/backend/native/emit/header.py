"""The C header of a compiled model: how many bytes everything has, and the one function."""

from __future__ import annotations

import math

from tensmith.backend.native.emit.source import ENTRY, PART_ENTRY, in_comment
from tensmith.backend.native.plan import NativePlan

_HEADER = """\
#ifndef TENSMITH_MODEL_H
#define TENSMITH_MODEL_H

#define TENSMITH_WEIGHTS_BYTES {weights}
#define TENSMITH_ARENA_BYTES {arena}
{values}
#ifdef __cplusplus
extern "C"
#endif
/* Computes the model: 0 on success.

   weights: the content of weights.bin, aligned to 64 bytes.
   inputs, outputs: dense row-major arrays in the order above.
   arena: memory aligned to 64 bytes; it holds nothing between calls. Calls may run at the same time if each
   has an arena of its own. */
int {entry}(const void *weights, const void *const *inputs, void *const *outputs, void *arena);
{part}
#endif
"""


_PART = """
#define TENSMITH_THREADS {threads}

#ifdef __cplusplus
extern "C"
#endif
/* The part of one of TENSMITH_THREADS threads: part 0, 1, ... of run 0, 1, ... on this arena.

   All threads call it at about the same time with the same arguments but `part`. meeting: two numbers that
   are 0 before the first run, shared by all runs on this arena. yield: offers the processor to others
   (sched_yield). Threads wait for each other inside the call only. A caller that finds that not all threads
   will come sets the second number: then all return 1 at their next meeting, and both numbers begin anew. */
int {entry}(const void *weights, const void *const *inputs, void *const *outputs, void *arena,
        int part, unsigned long *meeting, unsigned long run, void (*yield)(void));
"""


def print_header(plan: NativePlan) -> str:
    """The text of model.h."""
    part = _PART.format(threads=plan.threads, entry=PART_ENTRY) if plan.threads > 1 else ""
    return _HEADER.format(
        weights=plan.weights.nbytes, arena=plan.arena_bytes, values=print_values(plan), entry=ENTRY, part=part
    )


def print_values(plan: NativePlan) -> str:
    """What goes in and comes out, in order, and how many bytes each has."""
    return _values(plan, "INPUT", tuple(plan.program.inputs)) + _values(plan, "OUTPUT", plan.program.outputs)


def _grid(plan: NativePlan, name: str) -> str:
    """What the codes of a value stand for, if it has codes."""
    grid = plan.layout.parameters.get(name)
    return f": {grid.scale:.9g} * (code - {grid.zero_point})" if grid else ""


def _values(plan: NativePlan, kind: str, names: tuple[str, ...]) -> str:
    """What each value is, how many there are, and how many bytes each has: {} for none."""
    types = [plan.program.type(name) for name in names]
    shapes = [type_.static or () for type_ in types]
    sizes = [math.prod(shape) * type_.numpy.itemsize for shape, type_ in zip(shapes, types)]
    lines = [
        f"/* {kind.lower()} {n}: {in_comment(name)}, {type_.numpy.name} {list(shape)}{_grid(plan, name)} */"
        for n, (name, shape, type_) in enumerate(zip(names, shapes, types))
    ]
    listed = ", ".join(map(str, sizes or [0]))
    return "\n".join([
        *lines, f"#define TENSMITH_{kind}S {len(names)}", f"#define TENSMITH_{kind}_BYTES {{{listed}}}", ""
    ])  # fmt: skip
