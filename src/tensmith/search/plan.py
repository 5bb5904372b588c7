"""A plan: the chosen steps of one candidate, in the one order in which they act."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from tensmith.engine.base import BASELINE_ENGINE
from tensmith.rewrite.lossy.recover import Recover
from tensmith.rewrite.method import LOSSY
from tensmith.rewrite.rule import EVERYWHERE, Step

_OURS = ("engine", "untouched")


@dataclass(frozen=True, eq=False)
class Plan:
    """Steps for the simplified program (exact offers first, then lossy ones), and settings for the engine.

    Two plans with the same steps and settings are the same plan, in whatever order the steps were added.
    """

    steps: tuple[Step, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)

    @staticmethod
    def of(steps: Iterable[Step], settings: Mapping[str, str] | None = None) -> Plan:
        """The plan of `steps`, put in order: exact, then structure, then weights, then numbers.

        Exact steps at one place come first, in their own order: each may stand on what those before it made.
        """
        return Plan(tuple(sorted(steps, key=_order)), dict(settings or {}))

    def having(self, step: Step) -> Plan:
        """This plan with `step` in place of any step of the same rule at the same site."""
        kept = (s for s in self.steps if (s.rule, s.site) != (step.rule, step.site))
        return Plan.of((*kept, step), self.settings)

    def find(self, rule: str) -> Step | None:
        """The first step of `rule`."""
        return next((step for step in self.steps if step.rule == rule), None)

    @cached_property
    def key(self) -> str:
        """SHA-256 of the plan's JSON."""
        return hashlib.sha256(json.dumps(self.to_json(), sort_keys=True).encode()).hexdigest()

    @property
    def id(self) -> str:
        """What its candidate and its files are called."""
        return f"c{self.key[:10]}"

    @property
    def engine_settings(self) -> tuple[tuple[str, str], ...]:
        """The part of the settings that the engine itself takes, by name."""
        return tuple(sorted(item for item in self.settings.items() if item[0] not in _OURS))

    @property
    def is_exact(self) -> bool:
        """Whether all steps are proved and the engine is told nothing: its answers differ by rounding."""
        return not self.engine_settings and all(step.kind == "exact" for step in self.steps)

    @property
    def is_trained(self) -> bool:
        """Whether training found the weights, for the very steps before it."""
        return self.find(Recover.name) is not None

    def to_json(self) -> dict[str, Any]:
        """The plan as a JSON object."""
        return {"steps": [step.to_json() for step in self.steps], "settings": dict(self.settings)}

    @staticmethod
    def from_json(document: Mapping[str, Any]) -> Plan:
        """The plan of a JSON object."""
        return Plan(tuple(map(Step.from_json, document["steps"])), dict(document["settings"]))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Plan) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


def _order(step: Step) -> tuple[int, str, str]:
    if step.kind == "exact":
        return (0, step.rule, "") if step.site == EVERYWHERE else (-1, "", "")
    return LOSSY[step.rule].stage, step.rule, step.site


# No rewrites at all, not even exact ones.
UNTOUCHED = Plan(settings={"untouched": "yes", "engine": BASELINE_ENGINE})
