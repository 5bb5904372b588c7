"""Patches where memory is short: how far a network is computed patch by patch, and in how many.

That is exact (rewrite.exact.patches), and costs what patches share, which is computed again. Of all choices
whose memory fits the device, that with the fewest multiply-adds is taken.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from itertools import product
from typing import Any, TypeAlias

from tensmith.backend.native.choose.choosers import Choosing, estimated
from tensmith.backend.native.emit.freestanding import FUNCTION, called_library, print_freestanding
from tensmith.backend.native.emit.source import distinct
from tensmith.backend.native.footprint import Footprint, alive, footprint
from tensmith.backend.native.plan import NativePlan, make_plan
from tensmith.errors import EngineError, MissingExtra
from tensmith.ir import Node, Program
from tensmith.ir.ops.elementwise import Elementwise
from tensmith.ir.ops.product import Product
from tensmith.ir.ops.quantization import decodes, encodes
from tensmith.kernel.image import Image, make_image
from tensmith.kernel.isa import Isa
from tensmith.rewrite.exact.patches import MOST_PIECES, parts, shares
from tensmith.rewrite.rule import EXACT, Step
from tensmith.rewrite.told import rule_of
from tensmith.rewrite.trail import Traced, exhaust, simplify

# Numbers of patches along an axis, at most.
_PIECES = (1, 2, 3, 4, 6, 8, 12, MOST_PIECES)
# How many choices are planned, some tenths of a second each, before a model is refused.
_MOST_TRIALS = 128


@dataclass(frozen=True)
class Patching:
    """Everything up to `value`, which `layers` convolutions make, is computed in rows x columns patches.

    `multiply_adds` are those of the whole network, of which it had `before` so many.
    """

    value: str
    layers: int
    rows: int
    columns: int
    before: int
    multiply_adds: int

    @property
    def more(self) -> float:
        """The share of multiply-adds that is added."""
        return self.multiply_adds / self.before - 1

    def __str__(self) -> str:
        return (
            f"the first {self.layers} layers in {self.rows} x {self.columns} patches, "
            f"{100 * self.more:.1f} % more multiply-adds"
        )


@dataclass(frozen=True, eq=False)
class Fitted:
    """A plan, what it takes of a device, its image if there is a compiler, its patches if it has any.

    `arena_before` are the bytes of the arena without patches.
    """

    plan: NativePlan
    takes: Footprint
    image: Image | None
    arena_before: int
    patching: Patching | None = None

    def to_json(self) -> dict[str, Any] | None:
        """The patches, and what the arena would be without them; None if there are none."""
        return asdict(self.patching) | {"arena_before": self.arena_before} if self.patching else None

    @property
    def told(self) -> list[str]:
        """The same in a sentence, if there is anything to tell."""
        arena = f"arena {self.arena_before:,} -> {self.takes.arena:,} bytes"
        return (
            [f"In patches for its RAM, by proved rules: {self.patching}; {arena}."] if self.patching else []
        )


def fit(program: Program, isa: Isa, ram: int, flash: int | None, chooser: Choosing = estimated) -> Fitted:
    """A plan within so many bytes, in patches where it must be; EngineError saying what is missing.

    Without a compiler for the device, code and stack count as nothing.
    """
    program = simplify(program).program
    whole = _measured(make_plan(program, isa, chooser))
    if whole.takes.ram <= ram or (flash is not None and whole.takes.flash > flash):
        # Patches need less RAM, and more flash.
        whole.takes.require(max(ram, whole.takes.ram), flash, whole.plan)
        return whole
    least, over = whole.takes.ram, None
    for patching in choices(program, whole.plan, ram - whole.takes.given)[:_MOST_TRIALS]:
        patched = in_patches(program, patching).program
        plan = make_plan(patched, isa, chooser)
        if over is not None and distinct(plan) >= distinct(over.plan):
            continue  # no less code than what the flash does not hold
        without_code = footprint(plan, None).ram
        found = _measured(plan) if without_code <= ram else None
        least = min(least, found.takes.ram if found else without_code)
        if found is not None and found.takes.ram <= ram:
            if flash is not None and found.takes.flash > flash:
                over = found
                continue
            patching = replace(patching, multiply_adds=sum(_works(patched).values()))
            return replace(found, arena_before=whole.arena_before, patching=patching)
    if over is not None:
        over.takes.require(ram, flash, over.plan)
    less = least < whole.takes.ram
    best = f"in patches it takes {least:,}" if less else "patches of its first layers do not change that"
    whole.takes.require(ram, flash, whole.plan, f"{best}; ")
    raise AssertionError("what does not fit is refused")


def _measured(plan: NativePlan) -> Fitted:
    """What a plan takes, code and stack too if there is a compiler; EngineError if it needs a C library."""
    text, image = print_freestanding(plan), None
    if name := called_library(text):
        raise EngineError(f"the model needs {name}, and the device has no C library")
    with contextlib.suppress(MissingExtra):
        image = make_image(text, plan.isa, FUNCTION)
    return Fitted(plan, footprint(plan, image), image, plan.arena_bytes)


def in_patches(program: Program, patching: Patching) -> Traced:
    """The program with its first layers computed patch by patch, and the steps of rules that did it."""
    step = Step("in_patches", patching.value, {"rows": patching.rows, "columns": patching.columns})
    cut = rule_of(step).apply(program, patching.value)
    return exhaust(Traced(program).then(cut, step), [EXACT["slice_earlier"]])


def choices(program: Program, plan: NativePlan, room: int) -> list[Patching]:
    """Patches that might need no more than `room` bytes, in rising order of multiply-adds.

    `plan` is that of the program without patches.
    """
    works = _works(program)
    before = sum(works.values())
    least = 1 if any(map(encodes, program.nodes)) else 4  # bytes of an element
    found = []
    for head in _heads(program):
        *made, last = layers = [node for node in head if node in works]
        if _behind(plan, head[-1].output) > room:
            continue
        whole = _elements(program, head[-1].output)
        spatial = (program.type(head[-1].output).static or ())[2:]
        known = [_reaches(program, head, axis, size) for axis, size in enumerate(spatial, 2)]
        for pieces in product(*known):
            reaches = [reach[n] for reach, n in zip(known, pieces)]
            if math.prod(pieces) == 1 or not all(reaches):
                continue

            def patch(value: str, reaches: list[_Reach] = reaches) -> float:
                return _elements(program, value) * math.prod(reach[value][1] for reach in reaches)

            between = [patch(node.output) for node in made[:1]]
            between += [patch(node.inputs[0]) + patch(node.output) for node in made[1:]]
            between += [patch(last.inputs[0])] if made else []
            if least * (whole + max(between, default=0)) > room:
                continue
            after = sum(
                work * (math.prod(reach[node.output][0] for reach in reaches) if node in layers else 1)
                for node, work in works.items()
            )
            rows, columns = (*pieces, 1)[:2]
            found.append(Patching(head[-1].output, len(layers), rows, columns, before, round(after)))
    return sorted(found, key=lambda p: (p.multiply_adds, p.rows * p.columns, p.columns, p.layers))


def _behind(plan: NativePlan, value: str) -> int:
    """The most bytes that are alive at once after a value is made."""
    made = [n for n, actions in enumerate(plan.phases) if plan.actions[actions[0]].writes == value]
    later = range(made[-1] + 1, len(plan.phases)) if made else ()
    return max((sum(alive(plan, phase).values()) for phase in later), default=0)


def _heads(program: Program) -> Iterator[list[Node]]:
    """The nodes up to each value that alone is still read behind it, as long as patches of all can be made.

    What brings sums onto a grid, or is a function of elements, stays with the layer before it.
    """
    head: list[Node] = []
    waiting: dict[str, set[Node]] = {name: set(program.consumers.get(name, ())) for name in program.inputs}
    for node in program.nodes:
        if node.output in program.static_values:
            continue
        if not parts.has(node) or node.output in program.outputs:
            return
        head.append(node)
        for readers in waiting.values():
            readers.discard(node)
        waiting[node.output] = set(program.consumers.get(node.output, ()))
        alone = [name for name, readers in waiting.items() if readers] == [node.output]
        follows = any(encodes(r) or r.kind(Elementwise) for r in waiting[node.output])
        layers = any(n.kind(Product) for n in head)
        shape = program.type(node.output).static or ()
        if alone and layers and not follows and not decodes(node) and len(shape) in (3, 4):
            yield list(head)


# Value -> the share of its positions that is computed for all patches together, and for the largest.
_Reach: TypeAlias = dict[str, tuple[float, float]]


def _reaches(program: Program, head: list[Node], axis: int, size: int) -> dict[int, _Reach]:
    """By each number of patches that the last value can be cut into along one axis, their reach."""
    cuts = [shares(size, count) for count in _PIECES if count <= size]
    return {len(cut): _reach(program, head, axis, cut) for cut in cuts}


def _reach(program: Program, head: list[Node], axis: int, cut: list[tuple[int, int]]) -> _Reach:
    """What such patches of the last value, along one axis, are computed from; empty if that cannot be."""
    found: _Reach = {}
    for share in cut:
        wanted = {head[-1].output: {share}}
        for node in reversed(head):
            for span in wanted.get(node.output, ()):
                part_of = parts.find(node)
                part = part_of(program, node, {axis: span}) if part_of else ""
                if isinstance(part, str):
                    return {}
                for name, read in zip(node.inputs, part.reads):
                    if axis in read:
                        wanted.setdefault(name, set()).add(read[axis])
        for value, spans in wanted.items():
            shape = program.type(value).static or ()
            positions = sum(stop - first for first, stop in spans) / shape[axis]
            total, largest = found.get(value, (0.0, 0.0))
            found[value] = total + positions, max(largest, positions)
    return found if all(node.output in found for node in head) else {}


def _works(program: Program) -> dict[Node, int]:
    """The multiply-adds of each convolution and product of what varies."""
    return {
        node: program.macs(node)
        for node in program.nodes
        if node.kind(Product) and node.output not in program.static_values
    }


def _elements(program: Program, value: str) -> int:
    return math.prod(program.type(value).static or (0,))
