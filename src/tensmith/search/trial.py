"""Turns plans into measured candidates: built, written, raced, judged, and kept before the next is begun.

Everything is measured through the engine that would ship and the very file that would be deployed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

from tensmith.engine.base import compiler, stock
from tensmith.errors import EngineError, TensmithError, is_of_disk
from tensmith.evaluate.contender import Contender
from tensmith.evaluate.pace import ATTEMPT
from tensmith.evaluate.sequential import Assessment, Standard
from tensmith.interrupt import unmissed
from tensmith.progress import Progress, silent
from tensmith.report.metric import Metric
from tensmith.search.builder import Builder, Built
from tensmith.search.candidate import Candidate
from tensmith.search.checkpoint import Checkpoint
from tensmith.search.describe import describe
from tensmith.search.plan import UNTOUCHED, Plan
from tensmith.search.race import RACED, Race, Winner


@dataclass
class Trials:
    """Tries plans; `tried` is what became of them, in order."""

    builder: Builder
    race: Race
    standard: Standard
    checkpoint: Checkpoint
    progress: Progress = silent
    tried: list[Candidate] = field(default_factory=list)

    @cached_property
    def _known(self) -> dict[str, Candidate]:
        return {candidate.plan.key: candidate for candidate in self.checkpoint.candidates()}

    def prepare(self, plans: Sequence[Plan]) -> None:
        """Has plans built at once that are tried soon."""
        tried = {candidate.plan.key for candidate in self.tried}
        self.builder.prepare(plan for plan in plans if plan.key not in tried | self._known.keys())

    def attempt(self, plan: Plan) -> Candidate:
        """The measured candidate of a plan: as it was tried before, else tried now."""
        stored = self._known.get(plan.key)
        if stored is None:
            with self.standard.judge.pace.timed(ATTEMPT):
                candidate = self._tried(plan)
        else:
            candidate = self._known_again(stored)
        self.tried.append(candidate)
        self.progress(describe(candidate))
        return candidate

    def _tried(self, plan: Plan) -> Candidate:
        """Never raises for what a candidate does wrong: that makes it a failed one, with the reason.

        OutputError when the disk is full.
        """
        try:
            with unmissed():  # an interrupt must not pass for the candidate's failure
                candidate = self._measured(plan, self.builder.built(plan))
        except TensmithError as error:
            if is_of_disk(error):
                raise
            candidate = Candidate(plan.id, plan, "failed", str(error))
        self.checkpoint.add(candidate)
        return candidate

    def _known_again(self, stored: Candidate) -> Candidate:
        """A candidate of the checkpoint, raced again if what came of that was forgotten."""
        if "accuracy" not in stored.metrics or stored.metrics.keys() >= RACED:
            return stored
        try:
            built = self.builder.built(stored.plan)
            winner = self.race.winner(stored.plan, built.program, built.path)
        except TensmithError:
            return self._tried(stored.plan)  # which says why it fails
        if winner.engine != stored.engine:
            return self._tried(stored.plan)  # its accuracy is that of another engine
        again = self._standing(stored, {**stored.metrics, **winner.metrics}, stored.drop)
        self.checkpoint.add(again)
        return again

    def _measured(self, plan: Plan, built: Built) -> Candidate:
        candidate, metrics = Candidate(plan.id, plan, "accepted"), built.sizes()
        early = self._standing(candidate, metrics, None)
        if early.status == "rejected" and plan != UNTOUCHED:  # the original is measured whatever is asked for
            return early
        winner, found = self._raced_and_judged(plan, built)
        metrics |= {**winner.metrics, "accuracy": found.accuracy}
        told = self.standard.judge.task.staged  # a score says nothing of a spread
        most = found.most if told and not plan.is_exact else None
        judged = replace(
            candidate, engine=winner.engine, samples=found.samples, at_most=most, changed=found.changed
        )
        return self._standing(judged, metrics, found.drop)

    def _raced_and_judged(self, plan: Plan, built: Built) -> tuple[Winner, Assessment]:
        """The fastest engine and what is known of it there.

        Native code may refuse these very weights, though it took others of the same structure: the next best
        engine is then taken, unless the plan names one.
        """
        engines = self.race.run.engines
        others = stock(engines)
        while True:
            winner = self.race.winner(plan, built.program, built.path, engines)
            contender = Contender(winner.engine, built.path, plan.engine_settings)
            try:
                return winner, self.standard.judged(contender, partial(self._settled, plan))
            except EngineError:
                if not compiler(winner.engine) or not others or "engine" in plan.settings:
                    raise
                engines = others

    def _settled(self, plan: Plan, drop: Metric) -> bool:
        """Whether more samples would not change where it stands: what is proved equal but rounds."""
        objective = self.race.run.objective
        return objective.settles(drop) or (plan.is_exact and drop.value <= objective.max_drop)

    def _standing(
        self, candidate: Candidate, metrics: Mapping[str, Metric], drop: Metric | None
    ) -> Candidate:
        """The candidate with its figures, and where it stands by them."""
        status, reason = self.race.run.objective.standing(
            metrics, drop, candidate.samples, candidate.at_most, candidate.changed
        )
        return replace(candidate, metrics=metrics, drop=drop, status=status, reason=reason)
