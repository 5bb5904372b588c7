"""Steps become actions: every value gets a layout, conversions are put where layouts differ.

Values between kernels lie in blocks of one vector, as planes or channels last, as the kernels want them that
were chosen (`choice`); the network's inputs are planes. Who reads a value with a border asks for a halo
around it.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from tensmith.backend.native.choose.choice import KernelChoice, Network, choose_kernels
from tensmith.backend.native.choose.choosers import Chooser
from tensmith.backend.native.images import Images, PositionWindow
from tensmith.backend.native.invented import invented
from tensmith.backend.native.steps.step import Dense, Encode, Heavy, Join, Light, Look, Rename, Step
from tensmith.errors import EngineError
from tensmith.formula.arith import Array
from tensmith.kernel.algorithm import Kernel
from tensmith.kernel.buffer import NO_HALO, Buffer, Halo
from tensmith.kernel.epilogue import Epilogue
from tensmith.kernel.isa import Isa
from tensmith.kernel.quantized import QuantizationParameters, constants
from tensmith.kernel.routine import Routine
from tensmith.kernel.routines.copy import Copy
from tensmith.kernel.routines.quantize import Quantize
from tensmith.kernel.routines.transpose import TransposeRoutine

_PLAIN_SUMS = Epilogue()


@dataclass(frozen=True, eq=False)
class Action:
    """One call of a kernel or routine. `weights` are packed, `constants` a bias or a routine's tables.

    A kernel's residual is the second value it reads; how it lies is known when all halos are. Its
    constants may be a `table` that another action makes. What is done `beside` the action before it may be
    done at the same time.
    """

    work: Kernel | Routine
    reads: tuple[str, ...]
    writes: str
    weights: Array | None = None
    constants: Array | None = None
    epilogue: Epilogue = _PLAIN_SUMS
    beside: bool = False
    table: str | None = None

    @property
    def values(self) -> tuple[str, ...]:
        """All that it reads and writes."""
        return (self.writes, *self.reads, *([self.table] if self.table else []))


@dataclass
class Layout:
    """What the actions read and write: `block` of each value, and the root whose memory it lies in.

    `offset` counts channels into the root; roots have a halo. Values in `tight` can have none: inputs,
    outputs, and what is seen under two shapes. Values with quantization `parameters` are bytes; those in
    `encoded` lie nowhere until they are wanted; those in `windows` are some positions of another one. Those
    in `tensors` are matrices that lie dense: rows as positions, columns as channels, all channels in one
    block; `dtypes` has their element types where they are no floats.
    """

    images: dict[str, Images]
    parameters: dict[str, QuantizationParameters]
    lanes: int
    tensors: frozenset[str] = frozenset()
    dtypes: dict[str, str] = field(default_factory=dict)
    block: dict[str, int] = field(default_factory=dict)
    parent: dict[str, tuple[str, int]] = field(default_factory=dict)
    windows: dict[str, tuple[str, PositionWindow]] = field(default_factory=dict)
    halo: dict[str, Halo] = field(default_factory=dict)
    tight: set[str] = field(default_factory=set)
    encoded: dict[str, Encode] = field(default_factory=dict)
    actions: list[Action] = field(default_factory=list)

    def root(self, value: str) -> tuple[str, int]:
        """(root, first channel in it) of a value."""
        first = 0
        while value in self.parent:
            value, offset = self.parent[value]
            first += offset
        return value, first

    @property
    def phases(self) -> list[list[int]]:
        """The actions by number, those that may be done at the same time together."""
        found: list[list[int]] = []
        for index, action in enumerate(self.actions):
            if not action.beside:
                found.append([])
            found[-1].append(index)
        return found

    def touched(self) -> dict[str, tuple[int, int]]:
        """The first and the last phase in which something of each root is read or written."""
        found: dict[str, tuple[int, int]] = {}
        for phase, actions in enumerate(self.phases):
            for value in (value for index in actions for value in self.actions[index].values):
                root, _ = self.root(value)
                found[root] = found.get(root, (phase, phase))[0], phase
        return found

    def window(self, value: str) -> str | None:
        """The innermost window that a value is, or has some channels of; None if there is none."""
        while value in self.parent and value not in self.windows:
            value, _ = self.parent[value]
        return value if value in self.windows else None

    def buffer(self, value: str) -> Buffer:
        """How a value lies in memory."""
        if value in self.windows:
            whole, window = self.windows[value]
            return window.of(self.buffer(whole))
        images = self.images[value]
        if self.window(value):  # some channels of it
            return replace(self.buffer(self.parent[value][0]), channels=images.channels)
        root, _ = self.root(value)
        halo = NO_HALO if root in self.tight else self.halo.get(root, NO_HALO)
        dtype = "u8" if value in self.parameters else self.dtypes.get(value, "f32")
        return Buffer(images.channels, images.height, images.width, self.block[value], halo, dtype)

    def wanted(self, value: str, block: int, halo: Halo = NO_HALO) -> str:
        """The value in these blocks with at least this halo: itself, or a copy made now."""
        root, _ = self.root(value)
        fixed = root in self.tight or self.window(value) is not None
        if self.block[value] == block and (halo == NO_HALO or not fixed):
            self.halo[root] = self.halo.get(root, NO_HALO).union(halo)
            return value
        return self.wanted(self._copied(value, _in_blocks(value, block), block), block, halo)

    def lies(self, value: str) -> frozenset[int]:
        """The blocks in which there are copies of a value."""
        copies = (block for block in (1, self.lanes) if _in_blocks(value, block) in self.block)
        return frozenset((self.block[value], *copies))

    def dense(self, value: str) -> str:
        """The value row-major and without gaps: itself, or a copy made now."""
        if value in self.tensors:
            return self.wanted(value, self.images[value].channels)
        if self.block[value] == 1 and self.root(value)[0] in self.tight and not self.window(value):
            return value
        name = self._copied(value, invented(value, "without gaps"), 1)
        self.tight.add(name)
        return name

    def part(self, value: str, window: PositionWindow | None, channels: tuple[int, int] | None = None) -> str:
        """Some positions of a value, some channels of one in blocks, or all of it."""
        images = self.images[value]
        if channels is not None and channels != (0, images.channels):
            first, stop = channels
            name = invented(value, f"channels {first} to {stop}")
            images = images._replace(channels=stop - first)
            self.parent[name] = (value, first)
        elif window is not None:
            name = invented(value, f"from {window.top}, {window.left}")
            images = images._replace(height=window.height, width=window.width)
            self.look(name, value, window)
        else:
            return value
        self.images[name], self.block[name] = images, self.block[value]
        self.of_type(name, value)
        return name

    def look(self, name: str, value: str, window: PositionWindow) -> None:
        """`name` is some positions of a value, in its memory."""
        self.parent[name], self.windows[name] = (value, 0), (value, window)

    def skipped(self, value: str) -> int:
        """Elements from the beginning of the image that a value's windows lie in to that of the innermost."""
        inner = self.window(value)
        if inner is None:
            return 0
        whole, window = self.windows[inner]
        return self.skipped(whole) + window.skipped(self.buffer(whole))

    def of_type(self, name: str, value: str) -> None:
        """A name has the elements of a value."""
        if value in self.parameters:
            self.parameters[name] = self.parameters[value]
        if value in self.dtypes:
            self.dtypes[name] = self.dtypes[value]

    def _copied(self, value: str, name: str, block: int) -> str:
        """A copy of that name in these blocks, made now unless there is one."""
        if name not in self.block:
            self.images[name], self.block[name] = self.images[value], block
            self.of_type(name, value)
            step = self.encoded.get(value)
            made = Action(_conversion(self, value, block), (value,), name)
            if step is not None:
                planes = self.wanted(step.source, 1)
                made = Action(Quantize(step.parameters, self.lanes), (planes,), name)
            self.actions.append(made)
        return name


def _in_blocks(value: str, block: int) -> str:
    """The name of a copy."""
    return invented(value, f"in blocks of {block}")


def lay_out(
    steps: list[Step], images: Mapping[str, Images], parameters: Mapping[str, QuantizationParameters],
    inputs: tuple[str, ...], outputs: tuple[str, ...], isa: Isa, choose: Chooser, dtypes: Mapping[str, str],
    threads: int = 1,
) -> Layout:  # fmt: skip
    """Actions in order, with every value's place relative to its root.

    Values with an entry in `dtypes` are tensors.
    """
    layout = Layout(dict(images), dict(parameters), isa.lanes, frozenset(dtypes), dict(dtypes))
    layout.block.update({name: images[name].channels if name in dtypes else 1 for name in inputs})
    layout.tight.update(inputs)
    layout.tight.update(step.source for step in steps if isinstance(step, Rename))
    network = Network(images, layout.tensors, frozenset(parameters), inputs, outputs, isa, threads)
    chosen = choose_kernels(steps, network, choose)
    for step in steps:
        if isinstance(step, Heavy):
            _heavy(layout, step, chosen[step], isa)
        elif isinstance(step, Light):
            block = network.light_block(step, layout.lies(step.sources[0]))
            sources = tuple(layout.wanted(source, block) for source in step.sources)
            layout.block[step.output] = block
            layout.actions.append(Action(step.routine, sources, step.output, constants=step.constants))
        elif isinstance(step, Dense):
            layout.block[step.output] = layout.images[step.output].channels
            sources = tuple(map(layout.dense, step.sources))
            layout.actions.append(Action(step.routine, sources, step.output, constants=step.constants))
        elif isinstance(step, Encode):
            layout.encoded[step.output], layout.block[step.output] = step, _NOWHERE
        elif isinstance(step, Join):
            _join(layout, step)
        elif isinstance(step, Look):
            layout.look(step.output, step.source, step.window)
            layout.block[step.output] = layout.block[step.source]
        else:
            _rename(layout, step, network.keeps_blocks(step))
    for output in outputs:
        _output(layout, output, inputs)
    return layout


def _output(layout: Layout, output: str, inputs: tuple[str, ...]) -> None:
    """The caller's memory as the place of a value, or of a copy of it."""
    name = invented(output, "of the caller")
    root, _ = layout.root(output)
    images = layout.images[output]
    layout.images[name] = images
    layout.block[name] = images.channels if output in layout.tensors else 1
    layout.of_type(name, output)
    layout.tight.add(name)
    there = root in layout.tensors and layout.block[output] == images.channels
    there = there and layout.halo.get(root, NO_HALO) == NO_HALO  # the caller's memory has none
    if output in layout.tensors and there and root not in inputs:
        layout.parent[root] = (name, 0)
    else:
        layout.actions.append(Action(_conversion(layout, output, layout.block[name]), (output,), name))


def _conversion(layout: Layout, value: str, block: int) -> Routine:
    """What copies a value into blocks of another size."""
    turned = {layout.block[value], block} == {1, layout.lanes}
    floats = layout.buffer(value).dtype == "f32"
    return TransposeRoutine(layout.lanes) if turned and floats else Copy()


def _heavy(layout: Layout, step: Heavy, choice: KernelChoice, isa: Isa) -> None:
    """The step as the action of one kernel, or as those of its parts, side by side."""
    halo = functools.reduce(Halo.union, (kernel.source.halo for _, kernel in choice.parts))
    source = layout.wanted(step.source, choice.reads, halo)
    residual = [layout.wanted(step.residual, choice.writes)] if step.residual else []
    layout.block[step.output] = choice.writes
    for index, (part, kernel) in enumerate(choice.parts):
        reads = (layout.part(source, part.x), *(layout.part(v, part.y, part.filters) for v in residual))
        writes = layout.part(step.output, part.y, part.filters)
        layout.actions.append(_action(part.of(step), kernel, isa, reads, writes, index > 0))


def _action(
    step: Heavy, kernel: Kernel, isa: Isa, reads: tuple[str, ...], writes: str, beside: bool
) -> Action:
    bias = np.zeros(isa.round_up(step.problem.filters), np.float32)
    if step.bias is not None:
        bias[: len(step.bias)] = step.bias
    numbers = bias if step.bias is not None else None
    epilogue = Epilogue(activation=step.activation)
    if step.requantization is not None:
        epilogue = step.requantization.epilogue(step.activation, isa)
        if step.table is None:
            curved = step.activation is not None
            numbers = constants(step.problem, isa, step.weights, step.requantization, curved)
    epilogue = replace(epilogue, bias=numbers is not None or step.table is not None)
    return Action(kernel, reads, writes, kernel.pack(step.weights), numbers, epilogue, beside, step.table)


# The block of a value that is not written before somebody wants it.
_NOWHERE = 0


def _join(layout: Layout, step: Join) -> None:
    """Parts that fill whole blocks live inside the whole; others are copied into it.

    So are those that somebody reads with a halo, if the whole can have none, and would-be windows that are
    written some channels at a time.
    """
    layout.block[step.output] = layout.lanes
    first = 0
    for position, part in enumerate(step.sources):
        part_block, halo = layout.block[part], layout.halo.get(part, NO_HALO)
        free = part not in layout.parent and part not in layout.tight and part not in step.sources[:position]
        if step.windows:
            window = step.windows[position]
            written = {whole for name, (whole, _) in layout.parent.items() if name not in layout.windows}
            if free and halo == NO_HALO and part_block == layout.lanes and part not in written:
                layout.look(part, step.output, window)
            else:
                layout.actions.append(Action(Copy((0, window.top, window.left)), (part,), step.output))
            continue
        fits = halo == NO_HALO or step.output not in layout.tight
        if free and fits and part_block == layout.lanes and not first % layout.lanes:
            layout.parent[part] = (step.output, first)
            layout.halo.pop(part, None)
            layout.halo[step.output] = layout.halo.get(step.output, NO_HALO).union(halo)
        else:
            layout.actions.append(Action(Copy((first, 0, 0)), (part,), step.output))
        first += layout.images[part].channels


def _rename(layout: Layout, step: Rename, single: bool) -> None:
    """Single positions keep their blocks; anything else must lie dense to be seen otherwise."""
    before, after = (math.prod(layout.images[name]) for name in (step.source, step.output))
    if before != after:
        raise EngineError(f"'{step.output}' would be {after} elements, seen in {before}")
    source = step.source if single and not layout.window(step.source) else layout.dense(step.source)
    layout.tight.add(layout.root(source)[0])
    layout.block[step.output] = layout.block[source] if single else 1
    if step.output in layout.tensors:
        layout.block[step.output] = layout.images[step.output].channels
    layout.parent[step.output] = (source, 0)
