"""The whole plan of a program on a device: kernels in order, where every value lies, constants.

With halves, what lies between kernels and the constants they read take 16 bits, but for those that are given
out; what is computed is floats.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from tensmith.backend.device.contraction import contraction
from tensmith.backend.device.definitions import define
from tensmith.backend.device.each import each
from tensmith.backend.device.fusion import Group, fuse
from tensmith.backend.device.kernel import NAME, DeviceKernel, count
from tensmith.backend.device.reductions import Element, separate
from tensmith.backend.device.text import fold_type
from tensmith.backend.device.tiled import tiled
from tensmith.backend.device.together import SHORTEST, together
from tensmith.backend.native.arena import Lifetime, arrange
from tensmith.formula.arith import Array
from tensmith.ir import Program
from tensmith.ir.types import DTYPES, dtype_name
from tensmith.rewrite.trail import simplify

# Parts of one buffer begin at multiples of this many bytes: the most that devices ask for
# (CL_DEVICE_MEM_BASE_ADDR_ALIGN is at most 4096 bits in practice).
ALIGNMENT = 512
# Products with fewer rows or columns would leave most of a tile empty.
_THINNEST = 4


@dataclass(frozen=True)
class Launch:
    """One kernel on values: those it reads, then the one it writes."""

    kernel: str
    groups: int
    threads: int
    values: tuple[str, ...]


class DevicePlace(NamedTuple):
    """Where a value lies in the arena, in bytes (of one element at least), and its element type there."""

    start: int
    bytes: int
    dtype: str


@dataclass(frozen=True, eq=False)
class DevicePlan:
    """A program of fixed sizes on a device.

    `source` lacks the prelude of a language. `constants` are as the kernels read them; every other value has
    a place in the arena. An output may be an input or a constant.
    """

    program: Program
    source: str
    launches: tuple[Launch, ...]
    places: Mapping[str, DevicePlace]
    constants: Mapping[str, Array]
    arena_bytes: int


def make_plan(program: Program, halves: bool = False) -> DevicePlan:
    """Simplifies a program of fixed sizes and plans it; EngineError naming what no kernel computes."""
    program = simplify(program).program
    elements = separate(define(program))
    sizes = {name: math.prod(type_.static or ()) for name, type_ in program.inputs.items()}
    stored = {name: type_.dtype for name, type_ in program.inputs.items()}
    for name, array in elements.constants.items():
        inside = name not in program.outputs
        stored[name] = "f16" if halves and inside and array.dtype == np.float32 else dtype_name(array.dtype)
    items: list[Element] = []
    for element in elements.items:
        if element.value not in program.facts and element.fold is not None:
            element = replace(element, dtype=fold_type(element, stored))
        items.append(element)
        sizes[element.value] = count(element.axes)
        between = element.value not in program.outputs and element.value in program.facts
        stored[element.value] = "f16" if halves and between and element.dtype == "f32" else element.dtype
    groups = fuse(tuple(items), program.outputs)
    kernels = [_kernel(group, stored) for group in groups if sizes[group.root.value]]
    names: dict[str, str] = {}
    for kernel in kernels:
        names.setdefault(kernel.text, f"{kernel.word}_{len(names)}")
    launches = tuple(
        Launch(names[kernel.text], kernel.groups, kernel.threads, (*kernel.reads, kernel.writes))
        for kernel in kernels
    )
    places, total = _places(program, launches, sizes, stored)
    constants = {n: np.ascontiguousarray(a, DTYPES[stored[n]]) for n, a in elements.constants.items()}
    helpers = dict.fromkeys(text for kernel in kernels for text in kernel.helpers)
    texts = [text.replace(NAME, name) for text, name in names.items()]
    return DevicePlan(program, "\n\n".join([*helpers, *texts, ""]), launches, places, constants, total)


def _kernel(group: Group, stored: Mapping[str, str]) -> DeviceKernel:
    """The shape of kernel that fits a group."""
    if group.fold is None or not count(group.fold.axes):
        return each(group, stored)
    real = all(member.dtype[0] == "f" for member in group.members)
    product = contraction(group) if real else None
    if product is not None and min(count(product.rows), count(product.columns)) >= _THINNEST:
        return tiled(product, stored)
    return (together if count(group.fold.axes) >= SHORTEST else each)(group, stored)


def _places(
    program: Program, launches: tuple[Launch, ...], sizes: Mapping[str, int], stored: Mapping[str, str]
) -> tuple[dict[str, DevicePlace], int]:
    """Every value's place by its lifetime, and the bytes of the arena."""
    last = dict.fromkeys(program.inputs, -1)
    first = dict(last)
    for number, launch in enumerate(launches):
        for name in launch.values:
            first.setdefault(name, number)
            last[name] = number
    last |= {name: len(launches) for name in program.outputs}
    held = {name for name in (*first, *program.outputs) if name in sizes}
    needed = {name: max(1, sizes[name]) * DTYPES[stored[name]].itemsize for name in sorted(held)}
    spans = {
        name: Lifetime(-(-size // ALIGNMENT) * ALIGNMENT, first.get(name, 0), last[name])
        for name, size in needed.items()
    }
    offsets, total = arrange(spans)
    return {name: DevicePlace(offsets[name], size, stored[name]) for name, size in needed.items()}, total
