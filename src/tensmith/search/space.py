"""The space of plans: where a search starts, and what it can do next to a plan.

Everything here is a pure function of the model, its sensitivities and the outcomes so far, so that a resumed
search walks the same way and finds its candidates in the checkpoint.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tensmith.engine.compiled import NATIVE
from tensmith.ir import Program
from tensmith.rewrite.lossy import block_int4
from tensmith.rewrite.lossy.dependency import ChannelGroup, groups
from tensmith.rewrite.lossy.weights import Layer, weighted_layers
from tensmith.rewrite.method import LOSSY
from tensmith.rewrite.rule import Step
from tensmith.rewrite.trail import in_phase
from tensmith.search.candidate import Candidate
from tensmith.search.plan import Plan
from tensmith.search.sensitivity import Sensitivity, allocate_bits, for_all_layers, predicted_divergence
from tensmith.search.workshop import UNTOUCHED

# Levels of the bit allocation: one more doubles the price of a byte. A line of them is searched in strides
# that double until one level holds the budget and one breaks it, then by halving to the finest difference.
_STRIDE, _FINEST = 2.0, 0.5
_LEVELS = range(-20, 41)
# Nats a sample: what the first step below 8 bits may cost by prediction.
_SMALL_DIVERGENCE = 0.004
_CALIBRATIONS: tuple[Mapping[str, Any], ...] = (
    {"calibration": "minmax"},
    {"calibration": "percentile", "percentile": 99.99},
    {"calibration": "mse"},
    {"calibration": "entropy"},
)
_BITS_RULES = ("int8", "weight_only")
# A quarter of a group's channels goes at a time; what stays is a multiple of what vector kernels like.
_CHANNEL_RATIO = 0.25
_CHANNEL_MULTIPLES = (16, 8, 4, 1)
_LEAST_DAMAGE = 1e-6
# Shares of weights that become zero; the share of squared singular values that a factored layer keeps.
_SPARSITIES = (0.3, 0.5, 0.7)
_KEPT_ENERGY = 0.95
_CLUSTER_BITS = 5
# Engines that can be told to multiply floats as bfloat16; a plan that says so races on these.
_MULTIPLY_BFLOAT = frozenset({"openvino", NATIVE})


@dataclass(frozen=True)
class Idea:
    """A plan worth trying, and how it came about: its family and its level of the bit allocation.

    held, broke: the highest level on the same line that held the budget, the lowest that broke it.
    """

    plan: Plan
    family: str
    level: float | None = None
    held: float | None = None
    broke: float | None = None


@dataclass
class Space:
    """Plans for one simplified program.

    narrow: integer weights take at most 7 bits (CPUs without VNNI). layer_seconds: the target's roofline time
    of each layer by site; without it (`--no-hardware`) no move looks at the device.
    """

    program: Program
    engines: tuple[str, ...]
    layer_seconds: Mapping[str, float] = field(default_factory=dict)
    narrow: bool = False
    half_precision: bool = False
    sensitivity: Callable[[], Mapping[str, Sensitivity]] = dict
    _cached: Mapping[str, Sensitivity] | None = field(default=None, repr=False)
    _groups: list[ChannelGroup] | None = field(default=None, repr=False)

    @property
    def highest(self) -> int:
        """The most bits a weight may take: 7 where 8-bit products could saturate."""
        return 7 if self.narrow else 8

    def seeds(self) -> Iterator[Idea]:
        """Where every search starts: the model as it came, its exact rewrite, and one plain form a method.

        What a first form shows to be worth more (other calibrations, other storage) comes as moves.
        """
        yield Idea(UNTOUCHED, "untouched")
        yield Idea(Plan(), "exact")
        layers = weighted_layers(self.program)
        if not layers:
            return
        yield Idea(Plan.of([self._int8(_CALIBRATIONS[0])]), "int8")
        yield Idea(Plan.of([_weight_only("floats")]), "weight_only")
        if any(layer.op == "matmul" for layer in layers):
            yield Idea(Plan.of([Step("dynamic_int8", kind="lossy")]), "dynamic_int8")
        if 2 * _weights_in(self._products()) >= _weights_in(layers):
            yield Idea(Plan.of(self._in_blocks()), "block_int4")
        if self.half_precision and not _MULTIPLY_BFLOAT.isdisjoint(self.engines):
            yield Idea(Plan.of([_weight_only("floats")], {"precision": "bf16"}), "bfloat16 arithmetic")

    def _int8(self, calibration: Mapping[str, Any]) -> Step:
        return Step("int8", params={**calibration, "default_bits": self.highest}, kind="lossy")

    def _products(self) -> list[Layer]:
        return block_int4.products(self.program, block_int4.BLOCK)

    def _in_blocks(self, skip: Collection[str] = ()) -> list[Step]:
        """Products in 4 bits but for the skipped ones, and what that leaves in floats in 8 bits."""
        params = {"skip": sorted(skip)} if skip else {}
        treated = {layer.site for layer in self._products()} - set(skip)
        rest = any(layer.site not in treated for layer in weighted_layers(self.program))
        return [Step("block_int4", params=params, kind="lossy"), *([_weight_only("codes")] if rest else [])]

    def variants(self, idea: Idea, outcome: Candidate) -> Iterator[Idea]:
        """Other forms of a seed: calibrations where the first one cost something, other ways to store."""
        first = self._int8(_CALIBRATIONS[0])
        if outcome.status == "failed":
            return
        if idea.plan == Plan.of([first]) and outcome.drop is not None and outcome.drop.value > 0:
            yield from (Idea(Plan.of([self._int8(other)]), "int8") for other in _CALIBRATIONS[1:])
        if idea.plan == Plan.of([_weight_only("floats")]):
            yield Idea(Plan.of([_weight_only("codes")]), "weight_only")

    def moves(self, idea: Idea, outcome: Candidate) -> Iterator[Idea]:
        """What to try next to an idea that was measured.

        An accepted one goes to fewer bits (and on, see `further`). With a device in sight it also takes the
        exact forms that engines may prefer, and loses channels where that saves most time for the damage.
        Last come zeros, thinner factors and shared values, each the start of a line of its own. A rejected
        one gets floats back where they help most.
        """
        step = _bits_step(idea.plan)
        if outcome.status == "accepted":
            if step is not None and idea.level is None:
                yield self._at_level(idea, step, self._first_level())
            if idea.family == "exact" and not idea.plan.steps:
                yield Idea(Plan.of([Step("half", params={"type": "float16"}, kind="lossy")]), "half")
            if self.layer_seconds:
                yield from self._offers(idea) if idea.level is None else self._fewer_channels(idea)
            if step is not None and idea.level is None:
                yield from self._fewer_weights(idea, step)
        elif outcome.status == "rejected" and idea.level is None:
            blocks = idea.plan.find("block_int4")
            if blocks is not None:
                skips = self._more_skipped(blocks, {layer.site for layer in self._products()})
                yield from (replace(idea, plan=Plan.of(self._in_blocks(skip))) for skip in skips)
            elif step is not None:
                yield from self._with_skips(idea, step)

    def further(self, idea: Idea, outcome: Candidate) -> Idea | None:
        """The next level on the line of `idea`: the search for the fewest bits that the budget bears."""
        step = _bits_step(idea.plan)
        if step is None or idea.level is None:
            return None
        held, broke = (idea.level, idea.broke) if outcome.status == "accepted" else (idea.held, idea.level)
        if broke is None:
            level = idea.level + (_STRIDE if idea.held is None else 2 * (idea.level - idea.held))
        elif held is None:
            level = idea.level - (_STRIDE if idea.broke is None else 2 * (idea.broke - idea.level))
        else:
            level = (held + broke) / 2
        settled = held is not None and broke is not None and broke - held <= _FINEST
        if settled or not _LEVELS[0] <= level <= _LEVELS[-1]:
            return None
        return self._at_level(replace(idea, held=held, broke=broke), step, level)

    def _first_level(self) -> float:
        """The highest level at which the predicted divergence still is small: where the bisection begins."""
        level = _LEVELS[0]
        for candidate in _LEVELS:
            bits = allocate_bits(self.program, self._sensitivities(), candidate, 2, self.highest)
            if predicted_divergence(bits, self._sensitivities()) > _SMALL_DIVERGENCE:
                break
            level = candidate
        return level

    def _offers(self, idea: Idea) -> Iterator[Idea]:
        """The plan with one more of the exact rewrites that are a matter of taste of the engine."""
        for rule in in_phase("offer"):
            if idea.plan.find(rule.name) is None and any(True for _ in rule.sites(self.program)):
                yield Idea(idea.plan.having(Step(rule.name)), idea.family)

    def _fewer_weights(self, idea: Idea, step: Step) -> Iterator[Idea]:
        """More zeros everywhere, the next largest layer as a product of thinner ones, values shared."""
        taken = idea.plan.find("magnitude_pruning")
        sparsity = next((s for s in _SPARSITIES if taken is None or s > taken.params["sparsity"]), None)
        if sparsity is not None:
            params = {"sparsity": sparsity, "scope": "global", "criterion": "obs"}
            yield replace(idea, plan=idea.plan.having(Step("magnitude_pruning", params=params, kind="lossy")))
        factored = {s.site for s in idea.plan.steps if s.rule == "low_rank"}
        sites = set(LOSSY["low_rank"].sites(self.program)) - factored
        layers = [layer for layer in weighted_layers(self.program) if layer.site in sites]
        if layers:
            largest = max(layers, key=lambda layer: math.prod(layer.shape))
            factors = Step("low_rank", largest.site, {"energy": _KEPT_ENERGY}, "lossy")
            yield replace(idea, plan=idea.plan.having(factors))
        if step.rule == "weight_only" and idea.plan.find("weight_clustering") is None:
            clusters = Step("weight_clustering", params={"bits": _CLUSTER_BITS}, kind="lossy")
            yield replace(idea, plan=Plan.of([clusters], idea.plan.settings), family="clusters")

    def _fewer_channels(self, idea: Idea) -> Iterator[Idea]:
        """The next channel group to shrink by a quarter, by time saved for divergence risked."""
        taken = {step.site for step in idea.plan.steps if step.rule == "channel_pruning"}
        ranked = [group for group in self._ranked_groups() if group.id not in taken]
        for group in ranked[:1]:
            multiple = next(m for m in _CHANNEL_MULTIPLES if group.size >= 2 * m or m == 1)
            params = {"ratio": _CHANNEL_RATIO, "multiple": multiple}
            if math.ceil(group.size * (1 - _CHANNEL_RATIO) / multiple) * multiple < group.size:
                step = Step("channel_pruning", group.id, params, "lossy")
                yield replace(idea, plan=idea.plan.having(step), held=idea.level, broke=idea.level)

    def _ranked_groups(self) -> list[ChannelGroup]:
        """Channel groups, the most roofline time for the least probed divergence first."""

        def worth(group: ChannelGroup) -> float:
            sites = {use.site for use in (*group.producers, *group.consumers)}
            damage = sum(s.divergence for site, s in self._sensitivities().items() if site in sites)
            return sum(self.layer_seconds.get(site, 0.0) for site in sites) / (damage + _LEAST_DAMAGE)

        if self._groups is None:
            self._groups = sorted(groups(self.program), key=lambda group: (-worth(group), group.id))
        return self._groups

    def _at_level(self, idea: Idea, step: Step, level: float) -> Idea:
        bits = allocate_bits(self.program, self._sensitivities(), level, 2, self.highest)
        skip = set(step.params.get("skip", ()))
        params = {
            **step.params,
            "bits": {site: count for site, count in bits.items() if site not in skip},
            "scales": "mse",
            "rounding": "compensated",
        }
        plan = idea.plan.having(Step(step.rule, step.site, params, "lossy"))
        return replace(idea, plan=plan, level=level)

    def _with_skips(self, idea: Idea, step: Step) -> Iterator[Idea]:
        """The most sensitive layers for their time left in float."""
        for skip in self._more_skipped(step, self._sensitivities().keys()):
            params = {**step.params, "skip": skip}
            yield Idea(idea.plan.having(Step(step.rule, step.site, params, "lossy")), idea.family)

    def _more_skipped(self, step: Step, sites: Collection[str]) -> Iterator[list[str]]:
        """The most sensitive of the sites for their time: twice as many as the step skips, up to half."""

        def relief(site: str) -> float:
            return self._sensitivities()[site].divergence / self.layer_seconds.get(site, 1.0)

        ranked = sorted(sites, key=lambda site: (-relief(site), site))
        count = max(1, 2 * len(step.params.get("skip", ())))
        if count <= len(ranked) // 2:
            yield sorted(ranked[:count])

    def _sensitivities(self) -> Mapping[str, Sensitivity]:
        if self._cached is None:
            self._cached = for_all_layers(self.program, self.sensitivity())
        return self._cached


def _weights_in(layers: list[Layer]) -> int:
    return sum(math.prod(layer.shape) for layer in layers)


def _bits_step(plan: Plan) -> Step | None:
    """The step whose bits a line of levels may lower; none beside 4-bit blocks, which have theirs."""
    if plan.find("block_int4") is not None:
        return None
    return next((step for step in plan.steps if step.rule in _BITS_RULES), None)


def _weight_only(stored: str) -> Step:
    return Step("weight_only", params={"stored": stored, "default_bits": 8}, kind="lossy")
