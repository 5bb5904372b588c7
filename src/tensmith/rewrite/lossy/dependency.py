"""Channel groups of a program, and the program without some of their channels.

The channels of a group start in the same layers, so that a group is what is usually pruned as one: the inner
channels of a residual block, or a whole residual stream with every layer that adds to it and reads it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tensmith.errors import ProgramError
from tensmith.formula.arith import Array
from tensmith.ir import Program
from tensmith.rewrite.lossy.axis_flow import Cut, by_family, edited
from tensmith.rewrite.lossy.axis_labels import AxisLabels, Place


@dataclass(frozen=True, eq=False)
class Use:
    """A layer at which channels start or end: `channels` [axis size] gives the number of the group's channel
    at each position of the axis, -1 where the position belongs to no channel of the group."""

    site: str
    channels: Array


@dataclass(frozen=True, eq=False)
class ChannelGroup:
    """Channels that may be removed, one by one.

    id: the site of the first layer they start in (with "#2" and so on where several groups start there).
    members: constants that shrink. producers, consumers: layers whose rows, or whose inputs, they are.
    """

    id: str
    size: int
    members: tuple[str, ...]
    producers: tuple[Use, ...]
    consumers: tuple[Use, ...]
    classes: Array


def groups(program: Program) -> list[ChannelGroup]:
    """Every group of removable channels, in the order of the program."""
    labels = AxisLabels(program, by_family)
    starts = [(end.site, labels.roots(end.labels)) for end in labels.producers]
    ends = [(end.site, labels.roots(end.labels)) for end in labels.consumers]
    frozen = set(labels.frozen_roots().tolist())
    sources: dict[int, dict[str, None]] = {}
    for site, roots in starts:
        for root in roots.tolist():
            if root not in frozen:
                sources.setdefault(root, {})[site] = None
    classes: dict[tuple[str, ...], list[int]] = {}
    for root, sites in sources.items():
        classes.setdefault(tuple(sites), []).append(root)
    found: list[ChannelGroup] = []
    count: dict[str, int] = {}
    constants = _labelled_constants(program, labels)
    for key, members in classes.items():
        count[key[0]] = count.get(key[0], 0) + 1
        identity = key[0] if count[key[0]] == 1 else f"{key[0]}#{count[key[0]]}"
        own = np.array(members)
        shrinking = tuple(name for name, roots in constants.items() if np.isin(own, roots).any())
        found.append(ChannelGroup(identity, len(own), shrinking, _uses(starts, own), _uses(ends, own), own))
    return found


def find_group(program: Program, site: str) -> ChannelGroup:
    """The group of that id; ProgramError if there is none."""
    for group in groups(program):
        if group.id == site:
            return group
    raise ProgramError(
        f"'{site}' is not where a group of removable channels starts; its channels may be fixed by the "
        "program's inputs, outputs or an op that needs them all"
    )


def without_channels(program: Program, group: ChannelGroup, removed: Array) -> Program:
    """The program without some channels of a group; `removed` holds their numbers.

    The outputs keep their types. ProgramError if an axis would be left empty.
    """
    labels = AxisLabels(program, by_family)
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


def _labelled_constants(program: Program, labels: AxisLabels) -> dict[str, Array]:
    found: dict[str, Array] = {}
    for name, array in program.constants.items():
        own = [given for axis in range(array.ndim) if (given := labels.of((name, axis))) is not None]
        if own:
            found[name] = labels.roots(np.concatenate(own))
    return found


def _uses(ends: list[tuple[str, Array]], own: Array) -> tuple[Use, ...]:
    number = {root: index for index, root in enumerate(own.tolist())}
    uses = (Use(site, np.array([number.get(root, -1) for root in roots.tolist()])) for site, roots in ends)
    return tuple(use for use in uses if (use.channels >= 0).any())
