"""The kernels of a network: in each layout every heavy step's fastest, and layouts by dynamic programming.

What has been chosen up to a step matters to those after it through one thing alone: in which blocks each
value lies that is still to be read. So of all choices that leave values alike the cheapest is kept, kernels
and conversions together, step by step. That is exact as long as no more than _MOST_STATES differ, which few
networks exceed: two layouts of the two or three values that are alive at a time.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tensmith.backend.native.choose.choosers import Chooser, Options
from tensmith.backend.native.choose.parallel import StepPart, cuts, whole
from tensmith.backend.native.images import Images
from tensmith.backend.native.steps.step import Dense, Encode, Heavy, Join, Light, Look, Rename, Step, reads
from tensmith.errors import EngineError
from tensmith.kernel.algorithm import Kernel
from tensmith.kernel.isa import Isa

# Bytes a second of a conversion between layouts that gathers single elements, and of one that turns squares.
_CONVERSION_BANDWIDTH, _TURNING_BANDWIDTH = 4e9, 20e9
# What threads lose when they wait for each other.
_MEETING_SECONDS = 2e-6
_MOST_STATES = 256

# Values that are still to be read -> the blocks of which there are copies.
_Lying = frozenset[tuple[str, frozenset[int]]]


@dataclass(frozen=True, eq=False)
class KernelChoice:
    """The kernels of a step, or of its parts: all read blocks of one size and write blocks of one size."""

    seconds: float
    parts: tuple[tuple[StepPart, Kernel], ...]

    @property
    def reads(self) -> int:
        """The blocks of x."""
        return self.parts[0][1].source.block

    @property
    def writes(self) -> int:
        """The blocks of y, and of the residual."""
        return self.parts[0][1].target.block


@dataclass(frozen=True)
class Network:
    """What a choice depends on: images of all values, those that are `tensors` or bytes, ends, threads."""

    images: Mapping[str, Images]
    tensors: frozenset[str]
    bytes: frozenset[str]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    isa: Isa
    threads: int

    def dense(self, value: str) -> int:
        """The block of a value that lies row-major."""
        return self.images[value].channels if value in self.tensors else 1

    def keeps_blocks(self, step: Rename) -> bool:
        """Whether a renaming leaves images of single positions, which lie alike under both names."""
        before, after = self.images[step.source], self.images[step.output]
        images = self.tensors.isdisjoint((step.source, step.output))
        return images and before == after and before.extent == (1, 1)

    def light_block(self, step: Light, lies: frozenset[int]) -> int:
        """What a light step reads and writes: planes or channels last, if it takes them and its source lies
        no other way yet."""
        source, channels = step.sources[0], self.images[step.sources[0]].channels
        if source in self.bytes:
            whole = lies == {channels} and channels % self.isa.lanes == 0
            return channels if whole and step.routine.takes_channels_last else self.isa.lanes
        widths = (self.images[value].width for value in (source, step.output))
        return 1 if lies == {1} and step.routine.takes_planes(*widths) else self.isa.lanes

    def conversion(self, value: str, lies: frozenset[int], block: int) -> float:
        """Seconds until a value that lies in such blocks lies in others, too."""
        if block in lies:
            return 0.0
        images = self.images[value]
        moved = math.prod(images) * (1 if value in self.bytes else 4)
        turned = {block, *lies} >= {1, self.isa.lanes} and value not in self.bytes
        return moved / (_TURNING_BANDWIDTH if turned else _CONVERSION_BANDWIDTH)


def choose_kernels(steps: list[Step], network: Network, choose: Chooser) -> dict[Heavy, KernelChoice]:
    """What computes each heavy step; EngineError if something has no kernel."""
    states: dict[_Lying, tuple[float, tuple[KernelChoice, ...]]] = {
        frozenset((name, frozenset([network.dense(name)])) for name in network.inputs): (0.0, ())
    }
    last = {name: index for index, step in enumerate(steps) for name in reads(step)}
    last.update(dict.fromkeys(network.outputs, len(steps)))
    for index, step in enumerate(steps):
        options = _options(step, network, choose) if isinstance(step, Heavy) else [None]
        found: dict[_Lying, tuple[float, tuple[KernelChoice, ...]]] = {}
        for lying, (seconds, chosen) in states.items():
            for option in options:
                then, more = after(step, option, dict(lying), network)
                kept = frozenset(item for item in then.items() if last.get(item[0], -1) > index)
                path = chosen if option is None else (*chosen, option)
                if kept not in found or seconds + more < found[kept][0]:
                    found[kept] = seconds + more, path
        states = dict(sorted(found.items(), key=lambda item: item[1][0])[:_MOST_STATES])
    cheapest = min(states.items(), key=lambda item: item[1][0] + leaving(dict(item[0]), network))
    return dict(zip((step for step in steps if isinstance(step, Heavy)), cheapest[1][1]))


def leaving(lying: dict[str, frozenset[int]], network: Network) -> float:
    """Seconds to write the outputs as the caller wants them."""
    return sum(network.conversion(name, lying[name], network.dense(name)) for name in network.outputs)


def after(
    step: Step, option: KernelChoice | None, lying: dict[str, frozenset[int]], network: Network
) -> tuple[dict[str, frozenset[int]], float]:
    """How values lie after a step, and its seconds as far as they depend on layouts."""
    lanes = network.isa.lanes
    seconds = 0.0

    def convert(values: Iterable[str], block: int) -> None:
        nonlocal seconds
        for value in values:
            seconds += network.conversion(value, lying[value], block)
            lying[value] |= {block}

    if isinstance(step, Heavy):
        assert option is not None
        seconds = option.seconds
        convert((step.source,), option.reads)
        convert((step.residual,) if step.residual else (), option.writes)
        block = option.writes
    elif isinstance(step, Light):
        block = network.light_block(step, lying[step.sources[0]])
        convert(step.sources, block)
    elif isinstance(step, Join):
        # Parts that lie in blocks are written where they belong; others are copied there.
        seconds = sum(network.conversion(value, lying[value], lanes) for value in step.sources)
        block = lanes
    elif isinstance(step, Look) or (isinstance(step, Rename) and network.keeps_blocks(step)):
        lying[step.output] = lying[step.source]
        return lying, 0.0
    elif isinstance(step, Encode):
        block = 0  # written when somebody wants it, in the blocks that are wanted
    else:
        values = step.sources if isinstance(step, Dense) else (step.source,)
        for value in values:
            convert((value,), network.dense(value))
        block = network.dense(step.output)
    lying[step.output] = frozenset([block])
    return lying, seconds


def _options(step: Heavy, network: Network, choose: Chooser) -> list[KernelChoice]:
    """The fastest choice for each pair of blocks that a kernel reads and writes."""
    options = choose(step.problem, network.isa, step.problem)
    if not options:
        raise EngineError(f"no kernel computes the {step.problem} behind '{step.output}'")
    best: dict[tuple[int, int], KernelChoice] = {}
    batch = network.images[step.source].batch
    for seconds, kernel in options:
        _keep(best, KernelChoice(batch * seconds, ((whole(step.problem), kernel),)))
    for parts in cuts(step.problem, network.threads, network.isa.lanes, step.output in network.tensors):
        offered = ((part, choose(part.problem, network.isa, step.problem)) for part in parts)
        found = [_fastest([o for o in options if part.fits(o[1])]) for part, options in offered]
        for blocks in set(found[0]).intersection(*found[1:]):
            # Parts of one size take one kernel, and so do others if they can: they share code and weights.
            first = str(found[0][blocks][0][1])
            fitting = [next((o for o in k[blocks] if str(o[1]) == first), k[blocks][0]) for k in found]
            longest = batch * max(seconds for seconds, _ in fitting) + _MEETING_SECONDS
            _keep(
                best,
                KernelChoice(longest, tuple((part, kernel) for part, (_, kernel) in zip(parts, fitting))),
            )
    return list(best.values())


def _keep(best: dict[tuple[int, int], KernelChoice], choice: KernelChoice) -> None:
    blocks = choice.reads, choice.writes
    if blocks not in best or choice.seconds < best[blocks].seconds:
        best[blocks] = choice


def _fastest(options: Options) -> dict[tuple[int, int], Options]:
    """Kernels by the blocks that they read and write, the fastest first."""
    found: dict[tuple[int, int], Options] = {}
    for option in sorted(options, key=lambda option: option[0]):
        found.setdefault((option[1].source.block, option[1].target.block), []).append(option)
    return found
