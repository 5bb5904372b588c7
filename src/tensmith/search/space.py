"""The space of plans: where a search starts, and what it can do next to a plan.

Everything here is a pure function of the model, its sensitivities and the outcomes so far, so that a resumed
search walks the same way and finds its candidates in the checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tensmith.ir import Program
from tensmith.rewrite.lossy.weights import weighted_layers
from tensmith.rewrite.rule import Step
from tensmith.search.candidate import Candidate
from tensmith.search.plan import Plan
from tensmith.search.sensitivity import Sensitivity, allocate_bits
from tensmith.search.workshop import UNTOUCHED

# Level steps of the bit allocation: each doubles the price of a byte that many times.
_STRIDES = (4.0, 2.0, 1.0, 0.5)
_FIRST_LEVEL = -8.0
_CALIBRATIONS: tuple[Mapping[str, Any], ...] = (
    {"calibration": "minmax"},
    {"calibration": "percentile", "percentile": 99.99},
    {"calibration": "mse"},
    {"calibration": "entropy"},
)
_BITS_RULES = ("int8", "weight_only")


@dataclass(frozen=True)
class Idea:
    """A plan worth trying, and how it came about: its family and its level of the bit allocation."""

    plan: Plan
    family: str
    level: float | None = None
    stride: float = _STRIDES[0]


@dataclass
class Space:
    """Plans for one simplified program. `narrow` limits integer weights to 7 bits (CPUs without VNNI)."""

    program: Program
    engines: tuple[str, ...]
    narrow: bool = False
    half_precision: bool = False
    sensitivity: Callable[[], Mapping[str, Sensitivity]] = dict
    _cached: Mapping[str, Sensitivity] | None = field(default=None, repr=False)

    @property
    def highest(self) -> int:
        """The most bits a weight may take: 7 where 8-bit products could saturate."""
        return 7 if self.narrow else 8

    def seeds(self) -> Iterator[Idea]:
        """Where every search starts: the model as it came, exact rewrites alone, and each plain method."""
        yield Idea(UNTOUCHED, "untouched")
        yield Idea(Plan(), "exact")
        layers = weighted_layers(self.program)
        if not layers:
            return
        for params in _CALIBRATIONS:
            step = Step("int8", params={**params, "default_bits": self.highest}, kind="lossy")
            yield Idea(Plan.of([step]), "int8")
        if any(layer.op == "matmul" for layer in layers):
            yield Idea(Plan.of([Step("dynamic_int8", kind="lossy")]), "dynamic_int8")
        for stored in ("floats", "codes"):
            step = Step("weight_only", params={"stored": stored, "default_bits": 8}, kind="lossy")
            yield Idea(Plan.of([step]), f"weight_only {stored}")
        yield Idea(Plan.of([Step("half", params={"type": "float16"}, kind="lossy")]), "half")
        if self.half_precision and "openvino" in self.engines:
            settings = {"engine": "openvino", "precision": "bf16"}
            yield Idea(Plan((), settings), "bfloat16 arithmetic")
            step = Step("weight_only", params={"stored": "floats", "default_bits": 8}, kind="lossy")
            yield Idea(Plan.of([step], settings), "bfloat16 arithmetic")

    def moves(self, idea: Idea, outcome: Candidate) -> Iterator[Idea]:
        """What to try next to an idea that was measured.

        An accepted one goes to fewer bits by its stride; a rejected one is approached again from the last
        accepted level with half the stride: a bisection of the price that the budget bears.
        """
        step = next((s for s in idea.plan.steps if s.rule in _BITS_RULES), None)
        if step is None:
            return
        if outcome.status == "accepted":
            if idea.level is None:
                yield from self._at_level(idea, step, _FIRST_LEVEL, _STRIDES[0])
            else:
                yield from self._at_level(idea, step, idea.level + idea.stride, idea.stride)
        elif outcome.status == "rejected":
            if idea.level is None:
                yield from self._with_skips(idea, step)
            else:
                smaller = [stride for stride in _STRIDES if stride < idea.stride]
                if smaller:
                    level = idea.level - idea.stride + smaller[0]
                    yield from self._at_level(idea, step, level, smaller[0])

    def _at_level(self, idea: Idea, step: Step, level: float, stride: float) -> Iterator[Idea]:
        bits = allocate_bits(self.program, self._sensitivities(), level, 2, self.highest)
        skip = set(step.params.get("skip", ()))
        params = {
            **step.params,
            "bits": {site: count for site, count in bits.items() if site not in skip},
            "scales": "mse",
            "rounding": "compensated",
        }
        if params["bits"] == step.params.get("bits"):  # nothing changed: look further
            if level < 40:
                yield from self._at_level(idea, step, level + stride, stride)
            return
        yield Idea(idea.plan.having(Step(step.rule, step.site, params, "lossy")), idea.family, level, stride)

    def _with_skips(self, idea: Idea, step: Step) -> Iterator[Idea]:
        """The most sensitive layers left in float: twice as many each time, up to half of all."""
        ranked = sorted(self._sensitivities().items(), key=lambda item: -item[1].divergence)
        count = max(1, 2 * len(step.params.get("skip", ())))
        if count <= len(ranked) // 2:
            skip = sorted(site for site, _ in ranked[:count])
            params = {**step.params, "skip": skip}
            yield Idea(idea.plan.having(Step(step.rule, step.site, params, "lossy")), idea.family)

    def _sensitivities(self) -> Mapping[str, Sensitivity]:
        if self._cached is None:
            self._cached = self.sensitivity()
        return self._cached
