"""Training back what promises most: plans beyond the budget that are much smaller or faster than any within.

Successive halving (Jamieson and Talwalkar 2016): in each round all that are left are trained as long as one
another, judged as any candidate is, and the better half goes on with twice the time.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from tensmith.errors import TensmithError, is_of_disk
from tensmith.frontend.model_files import model_bytes
from tensmith.rewrite.method import independent
from tensmith.rewrite.rule import Step
from tensmith.search.candidate import Candidate
from tensmith.search.checkpoint import Checkpoint
from tensmith.search.front import pareto
from tensmith.search.objective import Objective
from tensmith.search.plan import Plan
from tensmith.search.space import Space
from tensmith.search.trial import Trials

if TYPE_CHECKING:
    from tensmith.search.lessons import Lessons

# What may be lost before training, in the budget's unit.
FARTHEST = 30.0
# The most that are trained; the least steps, and seconds, of one in the first round. What is lost falls with
# the square root of steps over so many: plans that lose more would cost the time and end beyond the budget.
_MOST, _LEAST_STEPS, _LEAST_SECONDS, _FIRST_STEPS = 8, 12_000, 20.0, 3000
# The time of a plan that is trained alone, in first rounds of it.
_ALONE = 1.5
# Seconds of a step where none could be timed.
_USUAL_STEP = 0.3
# What is not so many times smaller or faster than what holds the budget is not worth training.
_NOTICEABLE = 1.05
# Without a drop budget, drops count against this.
_SMALLEST_BUDGET = 0.1
# What the checkpoint's facts about training are called: courses that are over, the plans of the training that
# is under way (none of one that ended), how many of their courses were over before it, a step's seconds, and
# what it is expected to leave: of what one loses, how much.
_FACT, _CHOSEN, _BEFORE, _STEP = "recover/", "recover", "recover/before", "recover/step"
_EXPECTED = "recover/leaves"
# Of the time: for plans beyond the budget to be found first, and for a trial training of one of them.
_LOOKING, _PILOT = 0.1, 0.08
# Of the budget, what plans are expected to lose that come first: held-out samples lose more than those that
# choose the weights.
_AIM = 0.6
# A plan that loses so many budgets is hoped to come to one; a training so many times as long as a trial
# leaves that power of it less.
_HOPED, _LONGER = 16.0, 0.125


@dataclass(frozen=True)
class Recovery:
    """What training leaves of what plans lose: `after` where one loses `before`, and of others by the square
    root of what they lose: what goes first of many channels comes back sooner than what goes last."""

    before: float
    after: float

    def left(self, drop: float) -> float:
        """Of so large a drop."""
        return min(drop, self.after * math.sqrt(max(drop, 0.0) / self.before))


def _budget(objective: Objective) -> float:
    return max(objective.max_drop, _SMALLEST_BUDGET)


def _hoped(objective: Objective) -> Recovery:
    """What much training might leave."""
    return Recovery(_HOPED * _budget(objective), _budget(objective))


def promise(
    candidate: Candidate, objective: Objective, original_bytes: float, expected: Recovery | None = None
) -> float:
    """Doublings of speed and size, less those of the drop over the budget, as it is or is expected to be."""
    assert candidate.drop is not None
    gains = math.log2(candidate.metrics["speedup"].value) + math.log2(original_bytes / candidate.bytes)
    drop, budget = candidate.drop.value, _budget(objective)
    left = drop if expected is None else expected.left(drop)
    return gains / 2 - math.log2(max(left, budget) / budget)


def _in_reach(candidate: Candidate) -> bool:
    """Whether it was measured, and loses no more than training may bring back."""
    return candidate.drop is not None and candidate.drop.value <= FARTHEST and "speedup" in candidate.metrics


def promising(
    tried: Iterable[Candidate], objective: Objective, original_bytes: float, expected: Recovery
) -> list[Candidate]:
    """Candidates over the drop budget alone that none within it, or hardly, beats in size and latency.

    Those that are expected to come well within it are first. Of those that differ in the price of bits alone
    it is the best one: training finds the bits that the drop budget bears, where there is one.
    """
    measured = list(filter(_in_reach, tried))
    within = [c for c in measured if c.holds]

    def beaten(candidate: Candidate) -> bool:
        near = (_NOTICEABLE * candidate.bytes, _NOTICEABLE * candidate.latency)
        return any(c.bytes <= near[0] and c.latency <= near[1] for c in within)

    found = [
        candidate
        for candidate in measured
        if candidate.status in ("beyond", "rejected")
        and objective.over_budget(candidate.metrics) is None
        and not candidate.plan.is_trained
        and not beaten(candidate)
    ]

    def rank(candidate: Candidate) -> tuple[bool, float]:
        assert candidate.drop is not None
        beyond = expected.left(candidate.drop.value) > _AIM * _budget(objective)
        return beyond, -promise(candidate, objective, original_bytes, expected)

    front = pareto(found, lambda c: (c.bytes, c.latency, c.drop.value if c.drop else 0.0))
    ranked = sorted(front, key=rank)
    if objective.max_drop > 0:
        best: dict[Plan, Candidate] = {}
        for candidate in ranked:
            best.setdefault(_but_bits(candidate.plan), candidate)
        ranked = [*best.values()]
    return ranked[:_MOST]


def _losing(plan: Plan) -> Plan:
    """A plan's lossy steps alone."""
    return Plan.of((step for step in plan.steps if step.kind == "lossy"), plan.settings)


def _but_bits(plan: Plan) -> Plan:
    """A plan without what a bit is to cost."""
    steps = (
        replace(step, params={name: value for name, value in step.params.items() if name != "price"})
        for step in plan.steps
    )
    return Plan.of(steps, plan.settings)


def rounds(seconds: float, candidates: int, step: float) -> list[tuple[int, float]]:
    """(how many are trained, seconds for each) of each round; as many as the time gives a fair beginning.

    One alone has two rounds where there is time: what the first one loses says how many bits the second has.
    step: the seconds of one.
    """
    count, least = 1, max(_LEAST_SECONDS, _LEAST_STEPS * step)
    while 2 * count <= min(candidates, _MOST) and _share(seconds, 2 * count) >= least:
        count *= 2
    if candidates and count == 1 and seconds >= _ALONE * _LEAST_SECONDS:
        return [(1, seconds / _ALONE), (1, seconds - seconds / _ALONE)]
    first = _share(seconds, count)
    return [(count >> turn, first * 2**turn) for turn in range(count.bit_length())] if candidates else []


def expected_after(seconds: float, step: float, budget: float) -> Recovery:
    """What all rounds of so long a training leave, where nothing is known.

    step: the seconds of one.
    """
    whole = sum(share for _, share in rounds(seconds, _MOST, step))
    return Recovery(max(1.0, math.sqrt(whole / step / _FIRST_STEPS)) * budget, budget)


def _share(seconds: float, count: int) -> float:
    """The seconds of one of so many in the first of all rounds."""
    return seconds / (count * count.bit_length())


def has_recovered(checkpoint: Checkpoint) -> bool:
    """Whether plans of a run were to be trained before."""
    return checkpoint.fact(_CHOSEN) is not None


@dataclass(frozen=True)
class Recovering:
    """Trains candidates of one run. kept: the folder of what training finds and where it stands."""

    trials: Trials
    kept: Path
    tell: Callable[[str], None]

    def recover(self, space: Space, seconds: float) -> bool:
        """Tries recovered plans; whether Ctrl-C ended it before its time, with the best so far tried."""
        from tensmith.search.lessons import Lessons  # PyTorch, which takes seconds to load

        until, training = time.monotonic() + seconds, (1 - _LOOKING - _PILOT) * seconds
        lessons = Lessons(self.trials, self.kept)
        step = self._seconds_a_step(lessons)
        left = self._under_way()
        if not left:
            self._challenge(space, time.monotonic() + _LOOKING * seconds)
            expected = self._expected(lessons, training, step)
            if expected is None:
                return True
            lessons.forget_pilots()
            left = self._chosen(expected)
        if not left:
            self.tell("nothing to recover: no plan beyond the drop budget is much smaller or faster")
        planned = rounds(training, len(left), step)
        ahead = sum(count * share for count, share in planned)
        before: Mapping[str, int] = self.trials.checkpoint.fact(_BEFORE) or {}
        asked = spent = most = 1.0
        for turn, (count, share) in enumerate(planned):
            standing: list[tuple[float, Candidate]] = []
            for candidate in left:
                if len(standing) == count:
                    break
                over = turn + before.get(candidate.plan.key, 0)
                after = self._known(candidate.plan, over)
                if after is not None:  # others have its time
                    most = math.inf
                # A course takes longer than it was given: its network is made first, and judged at the end.
                began = time.monotonic()
                given = share * min(most, max(0.0, until - began) / ahead * asked / spent)
                if after is None:
                    try:
                        after = self._trained(lessons, candidate.plan, over, given)
                        took = time.monotonic() - began  # hardly any where an earlier start had ended it
                        asked, spent = asked + min(given, took), spent + took
                    except TensmithError as error:
                        if is_of_disk(error):
                            raise
                        self.tell(f"plan {candidate.id} cannot be trained: {error}")
                        continue
                    if after is None:
                        return True
                if after.drop is not None:
                    ahead -= share
                    standing.append((promise(after, self._objective, self._original_bytes), candidate))
            left = [candidate for _, candidate in sorted(standing, key=lambda each: -each[0])]
        self.trials.checkpoint.note(_EXPECTED, None)  # first, or the next training would take it for its own
        self.trials.checkpoint.note(_CHOSEN, [])
        return False

    @property
    def _objective(self) -> Objective:
        return self.trials.race.run.objective

    @property
    def _original_bytes(self) -> float:
        return float(model_bytes(self.trials.race.run.model))

    def _seconds_a_step(self, lessons: Lessons) -> float:
        """Of the plan that promises most as it is; a resumed run goes on with what the first one took."""
        checkpoint, within = self.trials.checkpoint, [c for c in self.trials.tried if _in_reach(c)]
        if (known := checkpoint.fact(_STEP)) is not None:
            return float(known)
        step = _USUAL_STEP
        if within:
            best = max(within, key=lambda c: promise(c, self._objective, self._original_bytes))
            try:
                step = lessons.seconds_a_step(best.plan)
            except TensmithError as error:  # others may be trained
                if is_of_disk(error):
                    raise
        checkpoint.note(_STEP, step)
        return step

    def _expected(self, lessons: Lessons, training: float, step: float) -> Recovery | None:
        """What so long a training leaves of what plans lose, as a trial tells of the one that promises most
        if it brings much. None where Ctrl-C ended that."""
        checkpoint, objective = self.trials.checkpoint, self._objective
        if known := checkpoint.fact(_EXPECTED):
            return Recovery(**known)
        budget = _budget(objective)
        expected = expected_after(training, step, budget)
        seconds = training * _PILOT / (1 - _LOOKING - _PILOT)
        tried = promising(self.trials.tried, objective, self._original_bytes, _hoped(objective))
        if tried and tried[0].drop is not None and seconds >= _LEAST_SECONDS:
            self.trials.progress(f"training {tried[0].id} for {seconds:.0f} s, to see what it brings")
            try:
                found = lessons.pilot(tried[0].plan, seconds)
            except TensmithError as error:  # others may be trained
                if is_of_disk(error):
                    raise
            else:
                if found.stopped:
                    return None
                before = max(tried[0].drop.value, budget)
                after = min(max(found.lost, budget / 2), before) * (seconds / training) ** _LONGER
                expected = Recovery(before, after)
        checkpoint.note(_EXPECTED, asdict(expected))
        return expected

    def _under_way(self) -> list[Candidate]:
        """The plans of a training that was stopped, which goes on with the same ones."""
        tried = {candidate.plan.key: candidate for candidate in self.trials.tried}
        plans = map(Plan.from_json, self.trials.checkpoint.fact(_CHOSEN) or [])
        return [tried.get(plan.key) or self.trials.attempt(plan) for plan in plans]

    def _chosen(self, expected: Recovery) -> list[Candidate]:
        """What is worth training, best first."""
        checkpoint = self.trials.checkpoint
        found = promising(self.trials.tried, self._objective, self._original_bytes, expected)
        checkpoint.note(_BEFORE, {each.plan.key: self._courses(each.plan) for each in found})
        checkpoint.note(_CHOSEN, [candidate.plan.to_json() for candidate in found])
        return found

    def _challenge(self, space: Space, until: float) -> None:
        """Tries plans that lose much, next to the most promising ones so far, as long as there is time.

        Plans that lose the same are one here, and what took one out of reach is not tried on another.
        """
        opened, hopeless, hoped = set[Plan](), set[str](), _hoped(self._objective)
        while waiting := [c for c in self.trials.tried if _losing(c.plan) not in opened and _in_reach(c)]:
            best = max(waiting, key=lambda c: promise(c, self._objective, self._original_bytes, hoped))
            opened.add(_losing(best.plan))
            for plan in space.challenges(best.plan):
                change = Plan(tuple(step for step in plan.steps if step not in best.plan.steps)).key
                tried = any(candidate.plan == plan for candidate in self.trials.tried)
                if not tried and change not in hopeless:
                    drop = self.trials.attempt(plan).drop
                    if drop is not None and drop.value > FARTHEST:
                        hopeless.add(change)
                if time.monotonic() > until:
                    return

    def _courses(self, plan: Plan) -> int:
        """How many are over."""
        numbers = itertools.count()
        return next(n for n in numbers if self.trials.checkpoint.fact(f"{_FACT}{n}/{plan.key}") is None)

    def _known(self, plan: Plan, course: int) -> Candidate | None:
        """What came of a plan in a course that is over."""
        known = self.trials.checkpoint.fact(f"{_FACT}{course}/{plan.key}")
        return None if known is None else self.trials.attempt(self._with(plan, Step.from_json(known)))

    def _with(self, plan: Plan, step: Step) -> Plan:
        """A plan and what training found for it, which began at codes that stand for themselves."""
        begun = Plan.of(independent(plan.steps), plan.settings)
        return self.trials.builder.allowed.fitted(begun.having(step))

    def _trained(self, lessons: Lessons, plan: Plan, over: int, seconds: float) -> Candidate | None:
        """A plan after one more course, of which so many are over; None where that was stopped."""
        self.trials.progress(f"training {plan.id} for {seconds:.0f} s")
        step, stopped = lessons.course(plan, seconds, over)
        if stopped and not step.params["steps"]:
            return None
        if not stopped:
            self.trials.checkpoint.note(f"{_FACT}{over}/{plan.key}", step.to_json())
        after = self.trials.attempt(self._with(plan, step))
        return None if stopped else after
