"""The space of plans: where a search starts, and what it can do next to a plan.

Methods say what is worth trying of them (`Method.starts`, `variants`, `extensions`, `retreats`); the space
puts that in order, and adds what belongs to none of them: exact offers, and lines of ever fewer bits.
Everything here is a pure function of the model, the target, the sensitivities and the outcomes so far: a
resumed search walks the same way and finds its candidates in the checkpoint.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from tensmith.egraph.programs import Cost
from tensmith.engine.base import ENGINES
from tensmith.errors import spared
from tensmith.hardware import BF16_DOT, Target
from tensmith.ir import Program
from tensmith.rewrite.kept import changed_layer
from tensmith.rewrite.lossy.weights import stored_weights
from tensmith.rewrite.method import LOSSY, Form, Method, Prospect, Standing
from tensmith.rewrite.rule import Step
from tensmith.rewrite.trail import in_phase
from tensmith.search.allowed import Allowed, without_layers
from tensmith.search.bits import predicted_divergence, price
from tensmith.search.candidate import Candidate
from tensmith.search.plan import UNTOUCHED, Plan
from tensmith.search.regions import Regions
from tensmith.search.sensitivity import Sensitivity

# Levels of the price of memory: one more doubles it. A line of them is searched in strides
# that double until one level holds the budget and one breaks it, then by halving to the finest difference.
# Later lines of a model begin where the last one ended, with the finest stride.
_STRIDE, _FINEST = 2.0, 0.25
_LEVELS = range(-20, 41)
# Nats a sample: what the first level of a line may cost by prediction.
_SMALL_DIVERGENCE = 0.004
# A layer that showed no damage counts as one with so much.
_LEAST_WORTH = 1e-9
# Codes of a trellis save some per cent of a file; of more weights than these, finding them would take seconds
# of each candidate's time.
_MOST_ON_TRELLIS = 2_000_000
# Exact offers come after what methods of an order below say, and before the others.
_OFFERS = 25
# Exact steps at single places that are tried next to an exact plan.
_FORMS = 4


@dataclass(frozen=True)
class Idea:
    """A plan worth trying, and how it came about: its family and its level of the price of memory.

    held, broke: the highest level on the same line that held the budget, the lowest that broke it. stride: of
    the line's first step.
    """

    plan: Plan
    family: str
    level: float | None = None
    held: float | None = None
    broke: float | None = None
    stride: float = _STRIDE


@dataclass
class Space:
    """Plans for one simplified program.

    layer_seconds: the target's roofline time of each layer by site; without it (`--no-hardware`) no move
    looks at the device. target: whose integers and halves count; None: integers of 8 bits, no halves.
    sensitivity: of every layer by site, asked for once and late; lost: nats a sample where a step alone acts
    on the program. equal_forms: exact steps to forms that are tried from the start. cost: what nodes of equal
    programs are estimated to take. allowed: what lossy methods may do at all: every plan of the space is
    `fitted` to that. begun: plans that are tried right after those that always are.
    """

    program: Program
    engines: tuple[str, ...]
    layer_seconds: Mapping[str, float] = field(default_factory=dict)
    target: Target | None = None
    sensitivity: Callable[[], Mapping[str, Sensitivity]] = dict
    lost: Callable[[Step], float] = lambda _: 0.0
    equal_forms: tuple[tuple[Step, ...], ...] = ()
    cost: Cost = lambda _: {}
    allowed: Allowed = field(default_factory=Allowed)
    begun: tuple[Plan, ...] = ()
    _fitted: dict[str, Plan] = field(default_factory=dict, init=False)
    _ended: float | None = field(default=None, init=False)

    @cached_property
    def regions(self) -> Regions:
        """Its parts and their equal forms."""
        return Regions(self.program, self.cost)

    @cached_property
    def prospect(self) -> Prospect:
        """What methods may look at."""
        device = self.target
        fast = device is not None and not device.isa.isdisjoint(BF16_DOT) and self.allowed.everything
        fast = fast and any("bf16" in ENGINES[name].settings.get("precision", ()) for name in self.engines)
        return Prospect(
            self.allowed.covered(self.program),
            8 if device is None else device.weight_bits,
            frozenset({"bf16"} if fast else ()),
            self._seconds_of_weights,
            lambda: {
                site: found.divergence
                for site, found in self._sensitivities.items()
                if site not in self.allowed.kept
            },
            lambda: {
                site: found.in_bytes
                for site, found in self._sensitivities.items()
                if found.in_bytes is not None and site not in self.allowed.kept
            },
            self._lost,
        )

    def _lost(self, step: Step) -> float:
        """Of a step alone, as it is allowed."""
        fitted = self.allowed.fitted_step(step)
        return math.inf if fitted is None else self.lost(fitted)

    @property
    def _seconds_of_weights(self) -> Mapping[str, float]:
        """The roofline time of each layer, a recurrent one's shared out to its weights."""
        known, found = self.layer_seconds, stored_weights(self.program)
        return {**known, **{w.site: w.share * known[w.node.output] for w in found if w.node.output in known}}

    def seeds(self) -> Iterator[Idea]:
        """Where every search starts: the model as it came, its exact rewrite, and the methods' plain forms.

        The safest come first, so that something holds the budget whenever time is short.
        What a first form shows to be worth more (other calibrations, other storage) comes as moves.
        """
        yield Idea(UNTOUCHED, "untouched")
        yield Idea(Plan(), "exact")
        found = sorted(self._told(lambda method: method.starts(self.prospect)), key=lambda form: form.order)
        plain = [self._idea(form) for form in found]
        begun = [Idea(self.fitted(plan), "begun") for plan in self.begun]
        equal = [Idea(Plan.of(steps), "exact") for steps in self.equal_forms]
        yield from (*plain[:2], *begun, *equal, *plain[2:])

    def variants(self, idea: Idea, outcome: Candidate) -> Iterator[Idea]:
        """Other forms of a seed, by the method that brought it; safer ones, where it may break the budget."""
        steps = idea.plan.steps
        yield from self._retreats(idea, outcome)
        if outcome.status != "failed" and outcome.drop is not None and [s.kind for s in steps] == ["lossy"]:
            start = Form(steps, idea.family, idea.plan.settings)
            yield from map(self._idea, LOSSY[steps[0].rule].variants(start, outcome.drop.value))

    def moves(self, idea: Idea, outcome: Candidate) -> Iterator[Idea]:
        """What to try next to an idea that was measured.

        One that holds the budgets goes to fewer bits (and on, see `further`), takes the exact forms that
        engines may prefer where a device is in sight, and what methods add. One that does not, or not surely,
        goes the way back that they know. A trained plan stays as it is.
        """
        yield from self._retreats(idea, outcome)
        if not outcome.holds or idea.plan.is_trained:
            return
        plan = self._standing(idea)
        if plan.graded is not None and not plan.on_line:
            yield self._line(idea, plan.graded)
        found = list(self._told(lambda method: method.extensions(plan, self.prospect)))
        if self.layer_seconds and not plan.on_line:
            found += [*self._offers(plan), *self._forms(plan)]
        yield from (self._next(idea, form) for form in sorted(found, key=lambda form: form.order))

    def _retreats(self, idea: Idea, outcome: Candidate) -> Iterator[Idea]:
        """The ways back of a plan that breaks a budget, or may do so."""
        if outcome.status in ("unsure", "beyond", "rejected") and not idea.plan.is_trained:
            plan = self._standing(idea)
            retreats = self._told(lambda method: method.retreats(plan, self.prospect))
            yield from (self._next(idea, form) for form in retreats)

    def challenges(self, plan: Plan) -> Iterator[Plan]:
        """Plans next to a measured one that lose much, for training to bring back."""
        if plan.is_trained:
            return
        standing = self._standing(Idea(plan, ""))
        for form in self._told(lambda method: method.challenges(standing, self.prospect)):
            yield self.fitted(Plan.of(form.steps, plan.settings))

    def _told(self, ask: Callable[[Method], Iterable[Form]]) -> Iterator[Form]:
        """What the methods say. One that fails at a program of no sense to it has nothing more to say."""
        for method in self.allowed.methods:
            with spared():
                yield from ask(method)

    def _standing(self, idea: Idea) -> Standing:
        """An idea as methods see it."""
        plan, graded = idea.plan, _graded(idea.plan)
        ready = graded is not None or (not self.allowed.graded and plan != UNTOUCHED)
        return Standing(plan.steps, idea.family, graded, idea.level is not None, ready)

    def _idea(self, form: Form) -> Idea:
        return Idea(self.fitted(Plan.of(form.steps, form.settings)), form.family)

    def _next(self, idea: Idea, form: Form) -> Idea:
        """The idea that a form makes of another; on a line it begins a new one at the same level."""
        plan = self.fitted(Plan.of(form.steps, form.settings or idea.plan.settings))
        return replace(idea, plan=plan, family=form.family or idea.family, held=idea.level, broke=idea.level)

    def further(self, idea: Idea, outcome: Candidate) -> Idea | None:
        """The next level on the line of `idea`: the search for the fewest bits that the budget bears."""
        step = _graded(idea.plan)
        if step is None or idea.level is None:
            return None
        held, broke = (idea.level, idea.broke) if outcome.holds else (idea.held, idea.level)
        if broke is None:
            level = idea.level + (idea.stride if idea.held is None else 2 * (idea.level - idea.held))
        elif held is None:
            level = idea.level - (idea.stride if idea.broke is None else 2 * (idea.broke - idea.level))
        else:
            level = (held + broke) / 2
        settled = held is not None and broke is not None and broke - held <= _FINEST
        if settled:
            self._ended = held
        if settled or not _LEVELS[0] <= level <= _LEVELS[-1]:
            return None
        return self._at_level(replace(idea, held=held, broke=broke), step, level)

    def _line(self, idea: Idea, step: Step) -> Idea:
        """The first idea of a line."""
        if self._ended is None:
            return self._at_level(idea, step, self._first_level())
        return self._at_level(replace(idea, stride=_FINEST), step, self._ended)

    def _first_level(self) -> float:
        """The highest level at which the predicted divergence still is small: where the bisection begins."""
        program = self.prospect.program
        small = (level for level in _LEVELS if predicted_divergence(program, level) <= _SMALL_DIVERGENCE)
        return max(small, default=_LEVELS[0])

    def _offers(self, plan: Standing) -> Iterator[Form]:
        """The plan with one more of the exact rewrites that are a matter of taste of the engine."""
        for rule in in_phase("offer"):
            if plan.find(rule.name) is None and any(True for _ in rule.sites(self.program)):
                yield Form(plan.having(Step(rule.name)), plan.family, order=_OFFERS)

    def _forms(self, plan: Standing) -> Iterator[Form]:
        """An exact plan with one more exact step at a place, the cheapest programs by estimate."""
        if all(step.kind == "exact" for step in plan.steps):
            for step in self.regions.moves(plan.steps)[:_FORMS]:
                yield Form((*plan.steps, step), plan.family, order=_OFFERS)

    def _at_level(self, idea: Idea, step: Step, level: float) -> Idea:
        skip, found = set(step.params.get("skip", ())), self._sensitivities
        layers = [each for each in stored_weights(self.prospect.program) if each.site not in skip]
        # Floats of a trellis show it to no file whose rows have scales of their own.
        few = sum(math.prod(layer.shape) for layer in layers) <= _MOST_ON_TRELLIS
        on_trellis = few and step.params.get("stored") != "floats"
        sites = [layer.site for layer in layers]
        plain = [site for site in sites if found[site].plain]
        params = {
            **{name: value for name, value in step.params.items() if name not in ("bits", "scales")},
            **({"plain": plain} if plain else {}),
            "rounding": "dependent" if on_trellis else "coded",
            "price": price(level),
            "worth": {site: float(f"{max(found[site].divergence, _LEAST_WORTH):.4g}") for site in sites},
        }
        plan = idea.plan.having(Step(step.rule, step.site, params, "lossy"))
        return replace(idea, plan=self.fitted(plan), level=level)

    def fitted(self, plan: Plan) -> Plan:
        """The plan as it is allowed, without exact steps that do not apply, and no word on layers that these
        replaced or others removed."""
        plan = self.allowed.fitted(plan)
        exact = [step for step in plan.steps if step.kind == "exact"]
        if not exact and not any(_removed(step, self.program) for step in plan.steps):
            return plan
        if plan.key not in self._fitted:
            self._fitted[plan.key] = self._fit(plan, exact)
        return self._fitted[plan.key]

    def _fit(self, plan: Plan, exact: Sequence[Step]) -> Plan:
        lossy = [step for step in plan.steps if step.kind == "lossy"]
        formed = self.regions.formed(self._leaving(exact) if lossy else exact)
        gone = {each.site for each in stored_weights(self.program)}
        gone -= {each.site for each in stored_weights(formed.program)}
        removed = [_removed(step, formed.program) for step in lossy]
        gone = gone.union(*removed)
        left = (
            step
            for step, own in zip(lossy, removed)
            if not any(step.site in other for other in removed if other is not own)
        )
        fitting = (replace(step, params=without_layers(step.params, gone)) for step in left)
        return Plan.of((*formed.steps, *fitting), plan.settings)

    def _leaving(self, exact: Sequence[Step]) -> list[Step]:
        """The exact steps that leave kept layers where lossy ones find them."""
        taken: list[Step] = []
        for step in exact if self.allowed.kept else ():
            after = self.regions.formed((*taken, step)).program
            if changed_layer(self.program, after, self.allowed.kept) is None:
                taken.append(step)
        return taken if self.allowed.kept else list(exact)

    @cached_property
    def _sensitivities(self) -> Mapping[str, Sensitivity]:
        return self.sensitivity()


def _removed(step: Step, program: Program) -> frozenset[str]:
    """The layers of a program that a step removes as a whole."""
    return frozenset(LOSSY[step.rule].removed(program, step.site)) if step.kind == "lossy" else frozenset()


def _graded(plan: Plan) -> Step | None:
    """The step whose bits a line of levels may lower; none beside one that settles them."""
    lossy = [(step, LOSSY[step.rule]) for step in plan.steps if step.kind == "lossy"]
    if any(method.settles_bits for _, method in lossy):
        return None
    return next((step for step, method in lossy if method.graded), None)
