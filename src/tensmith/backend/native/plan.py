"""The whole plan of a native program: actions, memory, weights; everything the C file is printed from."""

from __future__ import annotations

import functools
import hashlib
import math
from dataclasses import dataclass, replace

import numpy as np

from tensmith.backend.native.arena import Lifetime, arrange
from tensmith.backend.native.choose.choosers import Choosing, estimated
from tensmith.backend.native.choose.precision import precision_of
from tensmith.backend.native.images import Images
from tensmith.backend.native.in_place import add_in_place
from tensmith.backend.native.invented import demand_other_names, invented, spelled
from tensmith.backend.native.layout import Action, Layout, lay_out
from tensmith.backend.native.prepare.pipeline import PassRecord, prepared
from tensmith.backend.native.steps.graph import seen, step_graph
from tensmith.backend.native.steps.grouping import group
from tensmith.backend.native.steps.placement import placed
from tensmith.backend.native.steps.step import reads
from tensmith.errors import EngineError
from tensmith.formula.arith import Array
from tensmith.ir import Program, TensorType
from tensmith.ir.names import size_symbol
from tensmith.kernel.algorithm import Kernel
from tensmith.kernel.buffer import ALIGNMENT, ELEMENT_BYTES, aligned
from tensmith.kernel.isa import Isa
from tensmith.rewrite.trail import simplify

# Indices in C are int.
_MOST_ELEMENTS = 1 << 31
# What a function is called until equal ones have one name.
FUNCTION = "KERNEL"


@dataclass(frozen=True)
class BufferPlace:
    """Where a value begins: in a caller's `inputs` or `outputs`, or at a byte of the arena.

    `stride` is from one image of a batch to the next, in elements; as many as `offset` come before it.
    """

    region: str
    start: int
    stride: int
    offset: int = 0


@dataclass(frozen=True, eq=False)
class NativePlan:
    """Actions with the place of everything they touch. Offsets into arena and weights are in bytes.

    `lifetimes` are of what lies in the arena, by phases. `prepared` is what is known of the passes that made
    `program`.
    """

    program: Program
    isa: Isa
    layout: Layout
    places: dict[str, BufferPlace]
    scratch: dict[int, int]
    arena_bytes: int
    lifetimes: dict[str, Lifetime]
    weights: Array
    weight_offsets: dict[tuple[int, str], int]
    prepared: tuple[PassRecord, ...]

    @property
    def threads(self) -> int:
        """How many threads it occupies: the most actions that may be done at the same time."""
        return max(map(len, self.phases), default=1)

    @functools.cached_property
    def phases(self) -> list[list[int]]:
        """The actions by number, those that may be done at the same time together."""
        return self.layout.phases

    @functools.cached_property
    def functions(self) -> list[str]:
        """The C function of each action, which goes by the name FUNCTION."""
        return [self._function(action) for action in self.actions]

    def _function(self, action: Action) -> str:
        sources = tuple(map(self.layout.buffer, action.reads))
        target = self.layout.buffer(action.writes)
        if isinstance(action.work, Kernel):
            residual = sources[1] if len(sources) > 1 else None
            return action.work.code(FUNCTION, sources[0], target, replace(action.epilogue, residual=residual))
        return action.work.code(FUNCTION, sources, target)

    @functools.cached_property
    def needed(self) -> Isa:
        """What the functions need of the instruction set."""
        return self.isa.for_code("\n".join(self.functions))

    @property
    def kernels(self) -> list[Action]:
        """The actions that are kernels."""
        return [action for action in self.actions if isinstance(action.work, Kernel)]

    @property
    def actions(self) -> list[Action]:
        """What is done, in order."""
        return self.layout.actions


def fixed(program: Program, sizes: dict[str, int]) -> Program:
    """The program at fixed sizes of its symbols; EngineError where one is not among `sizes`.

    `sizes` has names of the program or of the file it was read from.
    """
    sizes = {size_symbol(name): size for name, size in sizes.items()}
    named = {symbol for type_ in program.inputs.values() for dim in type_.shape or ()
             if not isinstance(dim, int) for symbol in dim.symbols()}  # fmt: skip
    if missing := sorted(named - sizes.keys()):
        raise EngineError(f"the size '{missing[0]}' is not known; name the sizes of inputs by plain words")

    def concrete(type_: TensorType) -> TensorType:
        if type_.shape is None:
            return type_
        return type_.with_shape(tuple(d if isinstance(d, int) else d.evaluate(sizes) for d in type_.shape))

    inputs = {name: concrete(type_) for name, type_ in program.inputs.items()}
    return replace(program, inputs=inputs)


def make_plan(program: Program, isa: Isa, chooser: Choosing = estimated, threads: int = 1) -> NativePlan:
    """Simplifies a program of fixed sizes and plans it; EngineError naming what has no native kernel.

    `chooser` is told how many bytes of weights are read at every run. For several `threads`, heavy steps are
    cut into parts.
    """
    program, passes = prepared(simplify(program).program)
    for node in program.nodes:
        if node.opaque is not None and node.output not in program.static_values:
            raise EngineError(f"{node.label} has no native kernel yet; another engine runs it")
    program = replace(program, hints={})  # what a file states of a shape is no measure of memory
    demand_other_names(program)
    graph = placed(step_graph(program, isa, precision_of(chooser) == "bf16"))
    steps = group(graph)
    values = {name for step in steps for name in (step.output, *reads(step))}
    values.update(program.inputs, program.outputs)
    images, dtypes = seen(graph, values - graph.tables.keys())
    for name, sizes in images.items():  # before anybody walks over what cannot be
        if math.prod(sizes) >= _MOST_ELEMENTS:
            raise EngineError(f"'{name}' has {math.prod(sizes)} elements; native takes tensors up to 2^31")
    total = sum(constant.nbytes for constant in program.constants.values())
    choose = chooser(2 * total)
    ends = tuple(program.inputs), program.outputs
    layout = lay_out(steps, images, graph.quantized, *ends, isa, choose, dtypes, threads)
    add_in_place(layout)
    places, scratch, arena_bytes, spans = _memory(layout, program)
    weights, offsets = _weights(layout.actions)
    return NativePlan(program, isa, layout, places, scratch, arena_bytes, spans, weights, offsets, passes)


def _memory(
    layout: Layout, program: Program
) -> tuple[dict[str, BufferPlace], dict[int, int], int, dict[str, Lifetime]]:
    """Every value's place, each action's scratch memory, the bytes of the arena, and what lies there when."""
    outside = {
        name: BufferPlace("inputs", index, _size(layout.images[name]))
        for index, name in enumerate(program.inputs)
    }
    for index, name in enumerate(program.outputs):
        outside[invented(name, "of the caller")] = BufferPlace("outputs", index, _size(layout.images[name]))
    touched = layout.touched()
    spans = {
        invented(str(index), "scratch"): Lifetime(size, phase, phase)
        for phase, actions in enumerate(layout.phases)
        for index in actions
        if (size := layout.actions[index].work.scratch_bytes)
    }
    for root in touched:
        if (size := layout.buffer(root).size) >= _MOST_ELEMENTS:
            name = spelled(root)
            raise EngineError(f"'{name}' takes {size} elements with its pads; native takes up to 2^31")
    stride = {
        root: layout.buffer(root).bytes
        if root in layout.tight  # seen as one tensor, so that images follow each other without gaps
        else aligned(layout.buffer(root).bytes)
        for root in touched
        if root not in outside
    }
    for root, size in stride.items():
        spans[root] = Lifetime(layout.images[root].batch * size, *touched[root])
    offsets, total = arrange(spans)
    places = dict(outside)
    for value in layout.block:
        root, channel = layout.root(value)
        if root in outside or root in stride:
            buffer = layout.buffer(root)
            skipped, size = channel // buffer.block * buffer.plane, ELEMENT_BYTES[buffer.dtype]
        if root in outside:
            places[value] = replace(outside[root], offset=skipped)
        elif root in stride:
            places[value] = BufferPlace("arena", offsets[root] + skipped * size, stride[root] // size)
        if value in places and layout.window(value):
            places[value] = replace(places[value], offset=places[value].offset + layout.skipped(value))
        if value in places and layout.images[value].batch != layout.images[root].batch:
            places[value] = replace(places[value], stride=layout.buffer(value).size)
    scratch = {
        index: offsets[name]
        for index in range(len(layout.actions))
        if (name := invented(str(index), "scratch")) in offsets
    }
    return places, scratch, total, spans


def _size(images: Images) -> int:
    return images.channels * images.height * images.width


def _weights(actions: list[Action]) -> tuple[Array, dict[tuple[int, str], int]]:
    """All weights and constants in one array of bytes, and the offset of each, aligned to a cache line.

    What is there already is not stored again.
    """
    offsets: dict[tuple[int, str], int] = {}
    parts: list[Array] = []
    known: dict[bytes, int] = {}
    total = 0
    for index, action in enumerate(actions):
        for kind, array in (("weights", action.weights), ("constants", action.constants)):
            if array is None:
                continue
            raw = np.ascontiguousarray(array).view(np.uint8).reshape(-1)
            digest = hashlib.sha256(raw.data).digest()
            offsets[index, kind] = known.setdefault(digest, total)
            if known[digest] < total:
                continue
            padding = -len(raw) % ALIGNMENT
            parts += [raw, np.zeros(padding, np.uint8)]
            total += len(raw) + padding
    return (np.concatenate(parts) if parts else np.zeros(0, np.uint8)), offsets
