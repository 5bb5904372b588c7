"""Channel groups of a program, and the program without some of their channels.

The channels of a group start in the same layers, so that a group is what is usually pruned as one: the inner
channels of a residual block, a whole residual stream with every layer that adds to it and reads it, or the
heads of an attention, each of which is one channel.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np

from tensmith.errors import ProgramError
from tensmith.formula.arith import Array
from tensmith.ir import Node, Program
from tensmith.ir.edits import reading_as
from tensmith.rewrite.lossy.axis_edits import Cut, edited
from tensmith.rewrite.lossy.axis_labels import AxisLabels, End, Place


@dataclass(frozen=True, eq=False)
class ChannelUse:
    """A layer at which channels start or end: `channels` [axis size] gives the number of the group's channel
    at each position of the axis, -1 where the position belongs to no channel of the group."""

    site: str
    channels: Array


@dataclass(frozen=True, eq=False)
class ChannelGroup:
    """Channels that may be removed, one by one.

    id: the site of the first layer they start in (with "#2" and so on where several groups start there).
    members: constants that shrink. producers, consumers: layers whose rows, or whose inputs, they are.
    classes: of `labels`, which are those of the program.
    """

    id: str
    size: int
    members: tuple[str, ...]
    producers: tuple[ChannelUse, ...]
    consumers: tuple[ChannelUse, ...]
    classes: Array
    labels: AxisLabels = field(repr=False)

    @property
    def sites(self) -> set[str]:
        """The layers that its channels start or end in."""
        return {use.site for use in (*self.producers, *self.consumers)}

    @property
    def width(self) -> int:
        """How many rows or inputs of a layer a channel is, at the least: of attention, a head's."""
        uses = (*self.producers, *self.consumers)
        return min(int((use.channels >= 0).sum()) for use in uses) // self.size or 1


def groups(program: Program) -> list[ChannelGroup]:
    """Every group of removable channels, in the order of the program."""
    program = with_vectors_apart(program)
    labels = AxisLabels.best(program)
    classes = list(_by_producers(labels).items())
    # Of each class of labels: which group it belongs to, and which of its channels it is.
    owner, number = np.full(labels.count, -1), np.full(labels.count, -1)
    for index, (_, members) in enumerate(classes):
        owner[members], number[members] = index, np.arange(len(members))
    producers, consumers = (
        _uses(labels, ends, owner, number, len(classes)) for ends in (labels.producers, labels.consumers)
    )
    shrinking: list[list[str]] = [[] for _ in classes]
    for name in program.constants:
        owners = {index for roots in _roots(labels, name) for index in np.unique(owner[roots]).tolist()}
        for index in sorted(owners - {-1}):
            shrinking[index].append(name)
    found: list[ChannelGroup] = []
    for index, ((first, *_), members) in enumerate(classes):
        earlier = sum(key[0] == first for key, _ in classes[:index])
        identity = f"{first}#{earlier + 1}" if earlier else first
        found.append(
            ChannelGroup(
                identity, len(members), tuple(shrinking[index]),
                tuple(producers[index]), tuple(consumers[index]), np.array(members), labels,
            )
        )  # fmt: skip
    return found


def _by_producers(labels: AxisLabels) -> dict[tuple[str, ...], list[int]]:
    """Classes that are not frozen, by the sites of the layers they start in."""
    frozen = set(labels.frozen_roots().tolist())
    sources: dict[int, dict[str, None]] = {}
    for end in labels.producers:
        for root in labels.roots(end.labels).tolist():
            if root not in frozen:
                sources.setdefault(root, {})[end.site] = None
    found: dict[tuple[str, ...], list[int]] = {}
    for root, sites in sources.items():
        found.setdefault(tuple(sites), []).append(root)
    return found


def _uses(
    labels: AxisLabels, ends: Iterable[End], owner: Array, number: Array, count: int
) -> list[list[ChannelUse]]:
    """The uses of each group among `ends`."""
    found: list[list[ChannelUse]] = [[] for _ in range(count)]
    for end in ends:
        roots = labels.roots(end.labels)
        for index in np.unique(owner[roots]):
            if index >= 0:
                channels = np.where(owner[roots] == index, number[roots], -1)
                found[int(index)].append(ChannelUse(end.site, channels))
    return found


def _roots(labels: AxisLabels, constant: str) -> list[Array]:
    """The classes along each labelled axis of a constant."""
    own = (labels.of((constant, axis)) for axis in range(labels.rank(constant)))
    return [labels.roots(given) for given in own if given is not None]


def find_group(program: Program, site: str) -> ChannelGroup:
    """The group of that id; ProgramError if there is none."""
    for group in groups(program):
        if group.id == site:
            return group
    raise ProgramError(
        f"'{site}' is not where a group of removable channels starts; its channels may be fixed by the "
        "program's inputs, outputs or an op that needs them all"
    )


def with_vectors_apart(program: Program) -> Program:
    """The program with a vector of its own for each node that reads one.

    Equal biases of two layers may be one constant, which says nothing of their channels: these need not go
    together.
    """
    shared = {
        name
        for name, array in program.constants.items()
        if array.ndim == 1 and program.type(name).floating and program.uses(name) > 1
    }
    names, constants = program.fresh("own"), dict(program.constants)
    nodes: list[Node] = []
    for node in program.nodes:
        own = {name: next(names) for name in node.inputs if name in shared}
        constants |= {copy: constants[name] for name, copy in own.items()}
        nodes.append(reading_as(node, own))
    kept = {name: array for name, array in constants.items() if name not in shared - {*program.outputs}}
    return replace(program, nodes=tuple(nodes), constants=kept) if shared else program


def without_channels(program: Program, group: ChannelGroup, removed: Array) -> Program:
    """The program without some channels of a group; `removed` holds their numbers.

    group: of the program, or of one that differs in weights alone. The outputs keep their types.
    ProgramError if an axis would be left empty.
    """
    program, labels = with_vectors_apart(program), group.labels
    gone = group.classes[removed]

    def kept(place: Place) -> Array | None:
        own = labels.of(place)
        return None if own is None else ~np.isin(labels.roots(own), gone)

    constants = dict(program.constants)
    for name in group.members:
        for axis in range(constants[name].ndim):
            mask = kept((name, axis))
            if mask is not None:
                constants[name] = np.compress(mask, constants[name], axis=axis)
        if constants[name].size == 0:
            raise ProgramError(f"pruning group '{group.id}' would leave nothing of '{name}'")
    cut = Cut(program, kept)
    nodes = tuple(edited(cut, node) for node in program.nodes)
    result = replace(program, nodes=nodes, constants={**constants, **cut.constants})
    for name in program.outputs:
        if result.type(name) != program.type(name):
            raise ProgramError(f"pruning group '{group.id}' would change the output '{name}'")
    return result
