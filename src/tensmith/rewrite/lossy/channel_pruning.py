"""Channel pruning: whole channels removed wherever they go, so that the program's shapes really shrink."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from statistics import mode
from typing import NamedTuple

import numpy as np

from tensmith.formula.arith import Array
from tensmith.ir import Program
from tensmith.rewrite.calibration import Calibration
from tensmith.rewrite.lossy.channel_scores import (
    Reading,
    activity,
    by_consumer,
    eliminated,
    magnitude,
    refitted,
)
from tensmith.rewrite.lossy.dependency import ChannelGroup, find_group, groups, without_channels
from tensmith.rewrite.lossy.parameters import Parameters
from tensmith.rewrite.lossy.weights import weighted_layers
from tensmith.rewrite.method import (
    STRUCTURE,
    Form,
    Method,
    MethodOutlook,
    Params,
    Prospect,
    Standing,
    lossy,
    worth,
)
from tensmith.rewrite.rule import Step

# What a search takes of a group at a time; what stays is a multiple of what vector kernels like.
_RATIO = 0.25
# What a sum of times may be off by.
_ROUNDING = 1e-9
# How much of a group goes at most; how many groups are offered at a time, and how many all together: each
# takes a run of the model on the samples that calibrate.
_MOST, _OFFERED, _TOGETHER = 0.75, 2, 16
# Shares of a group that are worth trying where training follows, and the one at which it is probed; of all
# time that these may take, ever so many parts more are to go.
_CHALLENGING, _PROBED, _PARTS = (0.25, 0.5, 0.75), 0.5, 8
_MULTIPLES = (16, 8, 4, 1)


def _by_worth(prospect: Prospect) -> list[ChannelGroup]:
    """Channel groups, the most roofline time for the least probed divergence first."""
    damage = prospect.divergence()

    def risked(group: ChannelGroup) -> float:
        return sum(damage.get(site, 0.0) for site in group.sites)

    def rank(group: ChannelGroup) -> tuple[float, str]:
        return -worth(prospect.time(group.sites), risked(group)), group.id

    return sorted(groups(prospect.program), key=rank)


class _Cut(NamedTuple):
    """A step that takes a share of a channel group: the roofline seconds that go, and the nats lost."""

    step: Step
    seconds: float
    lost: float


@lossy(
    "channel_pruning",
    stage=STRUCTURE,
    promise="removes whole channels from every layer they pass through, for smaller and faster layers",
)
class ChannelPruning(Method):
    """site: the id of a channel group; a head of attention, with queries, keys and values, is one channel.

    params: keep (how many) or ratio (the share that goes); multiple (what is kept is rounded up to it);
    criterion "obs", "activation" or "l1"; reconstruct (consumers are refitted).

    Channels that carry nothing on the calibration data go as well, whatever is to be kept, except by "l1"; a
    ratio of 0 removes only those.
    """

    def extensions(self, plan: Standing, prospect: Prospect) -> Iterable[Form]:
        """A quarter of one of the next two channel groups, by roofline time saved for divergence risked; or a
        quarter more of those two that have lost least of theirs; or a quarter more of all, once of what is
        whole."""
        ready = plan.on_line if plan.graded is not None else plan.ready
        if not (ready and prospect.seconds):
            return
        gone = self._gone(plan)
        ranked = _by_worth(prospect)
        whole = (self._narrower(group, _RATIO) for group in ranked if group.id not in gone)
        begun = sorted((gone[group.id], place) for place, group in enumerate(ranked) if group.id in gone)
        deeper = (self._narrower(ranked[at], now + _RATIO, now) for now, at in begun if now < _MOST)
        for steps in (whole, deeper):
            for step in islice(filter(None, steps), _OFFERED):
                yield Form(plan.having(step), plan.family, order=20)
        ratio = mode(gone.values() or (0,)) + _RATIO
        every = self._all_narrower(ranked, ratio, gone) if ratio <= _MOST else []
        if 1 < len(every) <= _TOGETHER and (not gone or all(step.site in gone for step in every)):
            yield Form(plan.having(*every), plan.family, order=21)

    def challenges(self, plan: Standing, prospect: Prospect) -> Iterable[Form]:
        """Shares of channel groups, so that ever more of the time goes that may: those first that take most
        roofline time for what they lose."""
        if not plan.ready:
            return
        cuts = [cut for group in groups(prospect.program) for cut in self._cuts(group, prospect)]
        cuts.sort(key=lambda cut: -worth(cut.seconds, cut.lost))
        gone, whole = self._gone(plan), (sum(cut.seconds for cut in cuts) or 1.0) * (1 - _ROUNDING)
        passed, taken = 0.0, plan
        for cut in cuts:
            before, passed = passed, passed + cut.seconds
            if (ratio := cut.step.params["ratio"]) > gone.get(cut.step.site, 0):
                gone[cut.step.site], taken = ratio, replace(taken, steps=taken.having(cut.step))
            if int(_PARTS * before / whole) < int(_PARTS * passed / whole) and taken != plan:
                yield Form(taken.steps, plan.family)

    def _cuts(self, group: ChannelGroup, prospect: Prospect) -> Iterator[_Cut]:
        """Ever larger shares of a group, each with what it takes and loses beyond the one before.

        What is lost grows with the square of the share; where half of the group goes it is measured.
        """
        if (half := self._narrower(group, _PROBED)) is None:
            return
        seconds = prospect.time(group.sites) if prospect.seconds else 1.0
        lost, before = prospect.lost(half) / _share(group, half) ** 2, 0.0
        for ratio in _CHALLENGING:
            if (step := self._narrower(group, ratio)) and (share := _share(group, step)) > before:
                yield _Cut(step, seconds * (share - before), lost * (share**2 - before**2))
                before = share

    def _gone(self, plan: Standing) -> dict[str, float]:
        """The share of each channel group that a plan removes; all of it where it says how many stay."""
        return {step.site: step.params.get("ratio", 1) for step in plan.steps if step.rule == self.name}

    def outlooks(self, prospect: Prospect) -> Mapping[str, MethodOutlook]:
        """Layers that channels start or end in, with a share of each of their groups gone."""
        shares: dict[str, float] = {}
        for group in groups(prospect.program):
            if step := self._narrower(group, _RATIO):
                for site in group.sites:
                    shares[site] = shares.get(site, 1.0) * (1 - _share(group, step))
        found = {}
        for layer in weighted_layers(prospect.program):
            if layer.site in shares:
                share, stored = shares[layer.site], prospect.program.constants[layer.weight].nbytes
                words = f"channels gone, {share:.0%} of weights left"
                found[layer.site] = MethodOutlook(words, share * stored, share, loaded=share * stored)
        return found

    def _all_narrower(
        self, chosen: Iterable[ChannelGroup], ratio: float, gone: Mapping[str, float]
    ) -> list[Step]:
        """The steps that take a share of each group, where that is more than what is gone."""
        return [*filter(None, (self._narrower(group, ratio, gone.get(group.id, 0)) for group in chosen))]

    def _narrower(self, group: ChannelGroup, ratio: float, before: float = 0) -> Step | None:
        """The step that takes a share of a group; None where that is no more than `before`."""
        wide = group.size * group.width
        multiple = next(m for m in _MULTIPLES if wide >= 2 * m or m == 1) // group.width or 1
        left, now = (_rounded_up(_left(group.size, share), multiple) for share in (ratio, before))
        return self.step(group.id, ratio=ratio, multiple=multiple) if left < min(now, group.size) else None

    def sites(self, program: Program) -> Iterator[str]:
        """The channel groups."""
        yield from (group.id for group in groups(program))

    def apply(self, program: Program, site: str, params: Params, calibration: Calibration) -> Program:
        """Constants sliced, shapes smaller, outputs of the same types."""
        reader = Parameters(self.name, params)
        keep, ratio = reader.count("keep"), reader.number("ratio", low=0, high=1)
        multiple = reader.count("multiple", 1) or 1
        criterion = reader.choice("criterion", "obs", "activation", "l1")
        reconstruct = reader.flag("reconstruct")
        reader.done()
        if (keep is None) == (ratio is None):
            raise reader.wrong("give either keep, a number of channels, or ratio, the share that goes")
        group = find_group(program, site)
        wanted = keep if keep is not None else _left(group.size, ratio or 0)
        needs_data = (criterion != "l1" or reconstruct) and bool(group.consumers)
        read = dict(by_consumer(program, group, calibration)) if needs_data else {}
        scores = magnitude(program, group)
        if read and criterion != "l1":
            scores = activity(group, list(read.values()), centred=reconstruct)
            wanted = min(wanted, max(1, int(np.sum(scores > 0))))
        kept = min(group.size, _rounded_up(wanted, multiple))
        if kept >= group.size:
            raise reader.wrong(
                f"group '{site}' has {group.size} channels and would keep them all; ask for fewer"
            )
        removed = _lowest(group, scores, list(read.values()), group.size - kept, criterion)
        if reconstruct:
            program = refitted(program, read, removed)
            group = find_group(program, site)
        return without_channels(program, group, removed)


def _share(group: ChannelGroup, step: Step) -> float:
    """What a step with a ratio takes of a group."""
    left = _rounded_up(_left(group.size, step.params["ratio"]), step.params["multiple"])
    return 1 - min(left, group.size) / group.size


def _left(size: int, ratio: float) -> int:
    """How many channels are left where a share goes."""
    return max(1, size - math.floor(ratio * size + 0.5))


def _rounded_up(count: int, multiple: int) -> int:
    return math.ceil(count / multiple) * multiple


def _lowest(
    group: ChannelGroup, scores: Array, read: list[list[Reading]], count: int, criterion: str
) -> Array:
    """The numbers of the `count` channels to remove."""
    if criterion == "obs" and read:
        return eliminated(group, read, count)
    return np.argsort(scores, kind="stable")[:count]
