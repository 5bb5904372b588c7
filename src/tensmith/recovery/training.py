"""Steps that fit a time, the best weights kept, stopped and gone on with at any moment.

A course begins at the full rate and ends at rest (cosine; Loshchilov and Hutter 2017), so that its end can be
judged; the next one goes on from its best weights. The state lies in a file of arrays: no pickles.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from tensmith import gate
from tensmith.engine.base import Session
from tensmith.errors import DataError, EngineError, ProgramError, VerificationError
from tensmith.evaluate.statistics import weighed
from tensmith.formula.arith import Array
from tensmith.interrupt import postponed
from tensmith.recovery.coded_size import POWER, CodedSize
from tensmith.recovery.distill import Tells
from tensmith.recovery.feed import Feed
from tensmith.recovery.gradients import Gradients
from tensmith.recovery.known import KnownAnswers
from tensmith.recovery.learning import LearningZeros
from tensmith.recovery.meanings import as_array
from tensmith.recovery.network import NetworkSession, TorchNetwork, usual_device
from tensmith.rewrite.archives import read_arrays, write_arrays

# Of a course, what goes into looking at the search split, and how often that is done.
_LOOKING, _FEWEST_LOOKS, _MOST_LOOKS = 0.1, 2, 8
# Few steps do not show how codes that jump all the time lose their way. The rate at which these learn follows
# from how far all steps together are to reach, in what weights are like, within these bounds. A later course
# begins where one came to rest: by the full rate it would lose what that learned.
_REACH, _SLOWEST_CODES, _FASTEST_CODES, _LATER = 4.0, 0.0015, 0.02, 0.25
# Steps at each of the rates that are tried, as a share of all; the most that trying may take of them; batches
# on which they are compared, and the number of the first of these, which no step takes.
_TRYING, _MOST_TRYING, _COMPARED, _UNSEEN = 0.04, 0.5, 4, 1 << 40
_NO_NUMBER = "what it loses on samples that it would learn from is no number"
# So many batches in a row whose loss is no number end a course.
_LOST = 8
# Zeros come little by little where all at once leave hardly anything to learn from (so many nats, or
# variances of what is wanted) and the course is long: else those that are there from the start lose less. All
# are there after this share of it; more come every so many steps, fast at first (cubic; Zhu and Gupta 2017).
_DEAD, _LONG = 1.0, 2000
_GROWING, _GROWN_EVERY = 0.5, 10
# The least and the most of numbers in a file of training that are not from 0 on.
_BOUNDS = {"batch": (1, 1 << 20), "pause": (1, 1 << 53), "lost": (-math.inf, math.inf),
           "compared": (-math.inf, math.inf), "off": (0, math.inf)}  # fmt: skip
# A machine that became slow: a course ends after so many times its time.
_LATEST = 1.5
_BETAS = (0.9, 0.99)
# After so many batches they come again, so that the original need not answer anew.
_BATCHES = 2500
# After so many steps codes are counted again. From course to course bits become more, or fewer, by no larger
# shares. More than a few per cent more need finer codes; fewer are left to the price, as coarser ones would
# cost what a course learned.
_COUNTED_EVERY, _MOST_MORE, _MOST_FEWER, _LEAST_CHANGED = 8, 0.25, 0.1, 0.03
# Of the drop budget, what later courses aim at: of many looks at the same samples the best one is kept, and
# others lose more. Where these samples tell it well, all but what they may be off by (95 %).
_AIM = 0.6


@dataclass(frozen=True)
class Recipe:
    """How it is trained. rates: largest steps of a weight, as shares of what weights are like, to try.

    batch: more of them on a GPU, which computes a few as slowly as many. budget: what may be lost, as codes
    are given bits; 0: as many as at first.
    """

    seed: int
    batch: int = field(default_factory=lambda: 64 if usual_device() == "cpu" else 256)
    rates: tuple[float, ...] = (0.0007, 0.002, 0.006, 0.02)
    budget: float = 0.0


class WeightsLoss(NamedTuple):
    """What samples that are not trained on say of weights.

    lost: what these are expected to lose; compared: by what the best of many are chosen, in the same unit. By
    what varies much from sample to sample that were the luckiest, which none that comes later beats.
    off: what the drop may be off by (95 %).
    """

    lost: float
    compared: float
    off: float = math.inf


@dataclass(frozen=True)
class Outlook:
    """What a course came to: the best weights, all steps so far and their batch, whether any multiplied in
    bfloat16, their rate, what the weights lose, and whether it was stopped."""

    arrays: dict[str, Array]
    steps: int
    batch: int
    bfloat16: bool
    rate: float
    lost: float
    stopped: bool


@dataclass
class _State:
    """Where training stands. batch: as it began, maybe on another device; steps: of the course, with a look
    after every `pause`; before: of the courses before it; growing: whether zeros come in this one; bfloat16:
    whether steps so far multiplied so; best: what cost least, lost and compared: its `WeightsLoss`, bits: its
    codes'."""

    batch: int
    courses: int = 0
    step: int = 0
    steps: int = 0
    pause: int = 1
    before: int = 0
    growing: bool = False
    bfloat16: bool = False
    rate: float = 0.0
    lost: float = math.inf
    compared: float = math.inf
    off: float = math.inf
    bits: float = 0.0
    best: dict[str, Array] = field(default_factory=dict)


class Training:
    """One network that learns from another.

    tells: what the first output tells apart. judge: what a session loses on the search split. path: takes the
    state. threads: the most to use.
    """

    def __init__(
        self,
        network: TorchNetwork,
        original: KnownAnswers,
        feed: Feed,
        tells: Tells,
        judge: Callable[[Session], WeightsLoss],
        recipe: Recipe,
        path: Path,
        threads: int,
    ) -> None:
        self._network, self._original = network, original
        self._judge, self._recipe, self._path = judge, recipe, path
        zeros = (each for each in network.learning.values() if isinstance(each, LearningZeros))
        self._growing = [each for each in zeros if each.dense is not None]
        self._size = CodedSize(network.learning.values())
        if not network.parameters:
            raise ProgramError("none of its weights can learn")
        groups = [{"params": [p.tensor], "unit": p.unit} for p in network.parameters.values()]
        self._adam = torch.optim.Adam(groups, lr=0.0, betas=_BETAS)
        self._state = (self._loaded() if path.exists() else None) or _State(recipe.batch)
        feed = replace(feed, batch=self._state.batch)
        self._gradients = Gradients(network, original, feed, tells, threads)

    @property
    def courses(self) -> int:
        """How many are over."""
        return self._state.courses

    def stands(self) -> Outlook:
        """What the courses so far came to."""
        state = self._state
        self._set(state.best)
        arrays, rate = self._network.written(), 2 * state.rate
        return Outlook(arrays, state.before, state.batch, state.bfloat16, rate, state.lost, False)

    def seconds_a_step(self, seconds: float = math.inf) -> tuple[float, float]:
        """See `Gradients.seconds`."""
        return self._gradients.seconds(seconds)

    def course(self, seconds: float) -> Outlook:
        """One more course, or the rest of one that was stopped; ProgramError if no step fits the time."""
        until, latest = time.monotonic() + seconds, time.monotonic() + _LATEST * seconds
        with postponed() as interrupted:
            learning, teaching = self.seconds_a_step(seconds)
            if not self._state.steps:
                self._begin(until, learning, teaching, interrupted)
            state = self._state
            state.bfloat16 |= self._gradients.bfloat16
            began, first, lost = time.monotonic(), state.step, 0
            while state.step < state.steps and not interrupted() and time.monotonic() < latest:
                self._grow()
                if state.step % _COUNTED_EVERY == 0 and self._grown:
                    self._size.follow()
                share = 0.5 * (1 + math.cos(math.pi * state.step / state.steps))
                learned = self._step(state.before + state.step, share * state.rate)
                lost = 0 if learned else lost + 1
                if lost > _LOST:
                    state.step -= _LOST
                    break
                state.step += 1
                if state.step % state.pause == 0 or state.step == state.steps:
                    self._look()
                    self._save()
                    # Steps were timed without what codes and looks take, and maybe on an idler machine.
                    pace = (time.monotonic() - began) / (state.step - first)
                    left = int(max(0.0, until - time.monotonic()) / pace)
                    state.steps = min(state.steps, state.step + left)
            if not state.step and not interrupted():
                raise ProgramError(_NO_NUMBER if lost else _no_time(learning + teaching))
            if not interrupted() and (not self._grown or state.step < state.steps):
                self._end_early()
            if stopped := interrupted():
                self._look()
                self._save()
        steps = state.before + state.step
        self._set(state.best)
        if not stopped:
            self._adam.state.clear()
            # As far, in twice the steps.
            self._state = replace(
                state, courses=state.courses + 1, step=0, steps=0, before=steps, rate=state.rate / 2
            )
            self._save()
        return Outlook(
            self._network.written(), steps, state.batch, state.bfloat16, state.rate, state.lost, stopped
        )

    @property
    def _grown(self) -> bool:
        """Whether all zeros are there."""
        return all(each.grown for each in self._growing)

    def _grow(self) -> None:
        """More zeros, where it is time for them; what is left of them at once where a course became so short
        that the time for them is over."""
        step, last = self._state.step, math.ceil(_GROWING * self._state.steps)
        due = step % _GROWN_EVERY == 0 or step >= last
        if self._state.growing and due and (step <= last or not self._grown):
            for each in self._growing:
                each.grow(1 - (1 - min(1.0, step / last)) ** 3)

    def _end_early(self) -> None:
        """All zeros at once, and a last look, where a course ends before its time: what it learned stays."""
        for each in self._growing:
            if not each.grown:
                each.grow(1.0)
        self._look()

    def _begin(self, until: float, learning: float, teaching: float, interrupted: Callable[[], bool]) -> None:
        """Plans a course: steps and looks that end at a time, how many bits codes may take, and a rate: the
        one that begins best, once. ProgramError if no step fits."""
        state, first = self._state, not self._state.courses
        began = time.monotonic()
        self._look()
        looking = time.monotonic() - began
        loss = self._loss() if first else 0.0
        if not math.isfinite(loss):
            raise ProgramError(_NO_NUMBER)
        left = until - time.monotonic()
        looks = int(np.clip(_LOOKING * left / max(looking, 1e-3), _FEWEST_LOOKS, _MOST_LOOKS))
        if (fitting := self._steps_in(left - looks * looking, learning, teaching)) < 1:
            raise ProgramError(_no_time(learning + teaching))
        steps = max(looks, fitting)
        state.growing = first and bool(self._growing) and steps >= _LONG and loss > _DEAD
        self._size.aim(self._size.bits() if first else self._reached_target(), loss)
        if first or self._size.target:
            rates, trying = self._rates(steps), max(2, int(_TRYING * steps))
            if len(rates) * (trying + _COMPARED) > _MOST_TRYING * steps:
                rates = rates[(len(rates) - 1) // 2 :][:1]
            trying *= len(rates) > 1
            state.rate = self._best_rate(rates, trying, interrupted)
            steps -= trying * len(rates)
        if interrupted():
            return
        state.steps = max(looks, steps)
        state.pause = -(-state.steps // looks)

    def _reached_target(self) -> float:
        """As many bits as are expected to hold the budget after the next course."""
        state, target = self._state, self._size.target
        if target and self._recipe.budget:
            budget = self._recipe.budget
            lost = max(_likely(state.lost, state.compared, state.off), 0.0)
            over = lost / max(_AIM * budget, budget - state.off)
            share = min(max(over ** (1 / POWER), 1 - _MOST_FEWER), 1 + _MOST_MORE)
            target = state.bits * share
            if share > 1 + _LEAST_CHANGED:
                self._size.reach(target)
        return target

    def _steps_in(self, seconds: float, learning: float, teaching: float) -> int:
        """How many fit; the original answers each batch once, but where its answers are too many to keep."""
        new = max(0, _BATCHES - self._original.known)
        first = _BATCHES * learning + new * teaching
        if seconds <= first:
            return int(seconds / (learning + new / _BATCHES * teaching))
        asked_again = teaching * (1 - self._original.share(_BATCHES))
        return _BATCHES + int((seconds - first) / (learning + asked_again))

    def _best_rate(self, rates: Sequence[float], steps: int, interrupted: Callable[[], bool]) -> float:
        """The rate after so many steps at which the loss is least; all begin at the same weights."""
        start, losses = self._parameters(), {}
        for rate in rates if len(rates) > 1 else ():
            for number in range(steps):
                if interrupted() or not self._step(number, rate * (1 - number / steps)):
                    break
            loss = self._loss()
            losses[rate] = loss if math.isfinite(loss) else math.inf
            self._set(start)
            self._adam.state.clear()
        return min(rates, key=lambda rate: losses.get(rate, math.inf))

    def _rates(self, steps: int) -> list[float]:
        """Those that are worth trying for a course of so many steps."""
        if self._size.target:
            rate = min(max(_REACH / max(steps, 1), _SLOWEST_CODES), _FASTEST_CODES)
            return [rate * _LATER if self._state.courses else rate]
        return [*self._recipe.rates]

    def _loss(self) -> float:
        """Of batches that no step takes, where it is a number; their gradients count for nothing."""
        losses = [self._gradients.of(_UNSEEN + number) for number in range(_COMPARED)]
        return float(np.mean([loss for loss in losses if math.isfinite(loss)] or [math.nan]))

    def _step(self, number: int, rate: float) -> bool:
        """Learns from the samples of that number, unless their loss is no number: then nothing, and False."""
        self._adam.zero_grad(set_to_none=True)
        loss = self._gradients.of(number % _BATCHES)
        if not math.isfinite(loss):
            return False
        if self._size.target and self._grown:
            self._size.add_gradients()
        for group in self._adam.param_groups:
            group["lr"] = rate * group["unit"]
        self._adam.step()
        return True

    def _look(self) -> None:
        """Keeps the weights if they and their answers are numbers, all zeros are there and none before cost
        less. What the weights of before came to stays where these cannot be judged."""
        if not self._grown:
            return
        now = self._parameters()
        if not all(np.isfinite(array).all() for array in now.values()):
            return
        state, bits = self._state, self._size.bits()
        try:
            lost, compared, off = self._judge(NetworkSession(self._network, self._gradients.at_once))
        except (EngineError, DataError):
            if not state.best:
                raise
            return
        if state.best and state.lost <= self._recipe.budget < lost and self._recipe.budget:
            return
        if self._cost(compared, bits) <= self._cost(state.compared, state.bits):
            state.lost, state.compared, state.off, state.bits = lost, compared, off, bits
            state.best = now

    def _cost(self, compared: float, bits: float) -> float:
        """What is lost, and what would be if codes took no more bits than they may."""
        over = bits / self._size.target - 1 if self._size.target else 0.0
        return compared if over <= 0 else compared + POWER * over * max(compared, self._recipe.budget)

    def _parameters(self) -> dict[str, Array]:
        for each in self._growing:
            each.clear()
        return {name: as_array(p.tensor).copy() for name, p in self._network.parameters.items()}

    def _set(self, arrays: Mapping[str, Array]) -> None:
        with torch.no_grad():
            for name, (parameter, _) in self._network.parameters.items():
                parameter.copy_(torch.tensor(arrays[name]))
        for each in self._growing:
            each.find_zeros()

    # The state as arrays

    def _save(self) -> None:
        arrays = {f"stands/{name}": np.asarray(+value) for name, value in self._stands(self._state).items()}
        arrays |= {f"best/{name}": array for name, array in self._state.best.items()}
        arrays |= {f"now/{name}": array for name, array in self._parameters().items()}
        for name, parameter in self._network.parameters.items():
            for key, value in self._adam.state.get(parameter.tensor, {}).items():
                arrays[f"{key}/{name}"] = as_array(value)
        write_arrays(self._path, arrays)

    def _loaded(self) -> _State | None:
        """What an earlier process left; None where that is damaged, of another network or an older form."""
        try:
            found = read_arrays(self._path, gate.most_decompressed(self._path.stat().st_size), "training")
        except VerificationError:  # damaged
            return None
        shapes = {name: tuple(p.tensor.shape) for name, p in self._network.parameters.items()}
        same = {name: array.shape for name, array in _under("now", found).items()} == shapes
        stood, fresh = _under("stands", found), self._stands(_State(0))
        if not same or stood.keys() != fresh.keys() or not all(_is_sound(*each) for each in stood.items()):
            return None
        self._set(_under("now", found))
        for key in ("step", "exp_avg", "exp_avg_sq"):
            for name, array in _under(key, found).items():
                parameter = self._network.parameters[name].tensor
                here = "cpu" if key == "step" else parameter.device
                self._adam.state[parameter][key] = torch.tensor(array, device=here)
        stands = {name: type(value)(stood[name].item()) for name, value in fresh.items()}
        self._size.level = stands.pop("level")
        self._size.aim(stands.pop("target"), 0.0)
        return _State(**stands, best=_under("best", found))

    def _stands(self, state: _State) -> dict[str, Any]:
        """All numbers that training goes on from."""
        return {name: value for name, value in vars(state).items() if name != "best"} | self._size.stands


def _likely(lost: float, compared: float, off: float) -> float:
    """What weights lose by all that is known: what they are compared by, give or take as much, or more where
    samples that tell the drop well say so (`search.objective.expected_drop`). A lucky drop says nothing."""
    if lost <= compared or compared <= 0:
        return compared
    return weighed(lost, off, compared)


def _is_sound(name: str, array: Array) -> bool:
    """Whether an array is a number that training can stand at: a file may be damaged."""
    least, most = _BOUNDS.get(name, (0, 1 << 53))
    return array.size == 1 and least <= array.item() <= most


def _under(key: str, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """The arrays whose names begin so, by the rest of these."""
    start = f"{key}/"
    return {name.removeprefix(start): array for name, array in arrays.items() if name.startswith(start)}


def _no_time(step: float) -> str:
    return f"there is no time for a step, which takes {step:.2g} s, beside what comes before it; give it more"
