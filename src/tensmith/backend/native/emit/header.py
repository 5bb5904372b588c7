"""The C header of a compiled model: how many bytes everything has, and the one function."""

from __future__ import annotations

import math

from tensmith.backend.native.emit.source import ENTRY, PART_ENTRY, in_comment
from tensmith.backend.native.plan import NativePlan
from tensmith.backend.native.quantization import SIGNED_OFFSET

_HEADER = """\
#ifndef TENSMITH_MODEL_H
#define TENSMITH_MODEL_H

{include}#define TENSMITH_WEIGHTS_BYTES {weights}
#define TENSMITH_ARENA_BYTES {arena}
{values}{functions}
#endif
"""

_FUNCTION = """
#ifdef __cplusplus
extern "C"
#endif
/* {says} */
int {function};
"""

_RUN = """\
Computes the model: 0 on success.

   weights: the content of weights.bin, aligned to 64 bytes.
   inputs, outputs: dense row-major arrays in the order above.
   arena: memory aligned to 64 bytes; it holds nothing between calls. Calls may run at the same time if each
   has an arena of its own."""
_POINTERS = "const void *weights, const void *const *inputs, void *const *outputs, void *arena"

_PART = """\
The part of one of TENSMITH_THREADS threads: part 0, 1, ... of run 0, 1, ... on this arena.

   All threads call it at about the same time with the same arguments but `part`. meeting: two numbers that
   are 0 before the first run, shared by all runs on this arena. yield: offers the processor to others
   (sched_yield). Threads wait for each other inside the call only. A caller that finds that not all threads
   will come sets the second number: then all return 1 at their next meeting, and both numbers begin anew."""
_SHARED = "int part, unsigned long *meeting, unsigned long run, void (*yield)(void)"


def print_header(plan: NativePlan) -> str:
    """The text of model.h."""
    functions = declared(_RUN, f"{ENTRY}({_POINTERS})")
    if plan.threads > 1:
        functions += f"\n#define TENSMITH_THREADS {plan.threads}\n"
        functions += declared(_PART, f"{PART_ENTRY}({_POINTERS},\n        {_SHARED})")
    return guarded(plan, functions)


def guarded(plan: NativePlan, functions: str, include: str = "") -> str:
    """A header: how many bytes everything has, what goes in and comes out in order, and functions."""
    ends = {"INPUT": tuple(plan.program.inputs), "OUTPUT": plan.program.outputs}
    return _HEADER.format(
        include=include, weights=plan.weights.nbytes, arena=plan.arena_bytes,
        values="".join(_values(plan, kind, names) for kind, names in ends.items()), functions=functions,
    )  # fmt: skip


def declared(says: str, function: str) -> str:
    """A function that gives an int, for C and C++, and what a comment says of it."""
    return _FUNCTION.format(says=says, function=function)


def _grid(plan: NativePlan, name: str) -> str:
    """What the codes of a value stand for, if it has codes."""
    grid = plan.layout.parameters.get(name)
    if grid is None:
        return ""
    zero_point = grid.zero_point - SIGNED_OFFSET[plan.program.type(name).dtype]
    return f": {grid.scale:.9g} * (code - {zero_point})"


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
