"""What a lossy rewrite is: a method with parameters, applied at a site in the light of calibration data."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, TypeAlias, TypeVar

from tensmith.blas import blas_threads
from tensmith.errors import ProgramError
from tensmith.ir import Program
from tensmith.registry import Registry
from tensmith.rewrite.calibration import Calibration
from tensmith.rewrite.kept import KEPT, Covered, UncoveredCalibration, demand_unchanged, kept_by
from tensmith.rewrite.lossy.weights import StoredWeights, WeightedLayer
from tensmith.rewrite.rule import EVERYWHERE, Kind, Step

# What a step tells its method: plain JSON values.
Params: TypeAlias = Mapping[str, Any]
# The order in which methods act on one program, whatever order the search found them in.
STRUCTURE, WEIGHTS, NUMBERS, TRAINING = 1, 2, 3, 4

# Bits of all weights that are worth trying where training follows; times the price of memory, where codes are
# chosen by what they cost: at one size, those lose less before training.
_CHALLENGING_BITS, _CHALLENGING_PRICES = (4, 3, 2), (2, 4, 8)
# Nats of what shows no damage.
_LEAST_DAMAGE = 1e-6


@dataclass(frozen=True)
class Prospect:
    """What a method may look at when it says what is worth trying.

    program: the simplified one. bits: the most that a weight may take on the device. precisions: those beside
    fp32 in which an engine at hand multiplies fast. seconds: roofline time of each layer by site, empty where
    no device is in sight. divergence: by layer, nats a sample at coarse weights; in_bytes: where it
    alone is in 8 bits, with what goes into it, if that is known; lost: nats a sample where a step alone acts.
    All three are asked for late, as they are measured.
    """

    program: Program
    bits: int
    precisions: frozenset[str]
    seconds: Mapping[str, float]
    divergence: Callable[[], Mapping[str, float]]
    in_bytes: Callable[[], Mapping[str, float]] = dict
    lost: Callable[[Step], float] = lambda _: 0.0

    def time(self, sites: Iterable[str]) -> float:
        """The roofline seconds of some layers."""
        return sum(self.seconds.get(site, 0.0) for site in sites)

    def most_sensitive(self, damage: Mapping[str, float], skipped: int) -> list[str] | None:
        """The layers of most damage for their time: twice as many as are skipped, up to half."""
        ranked = sorted(damage, key=lambda site: (-damage[site] / self.seconds.get(site, 1.0), site))
        count = max(1, 2 * skipped)
        return sorted(ranked[:count]) if count <= len(ranked) // 2 else None


def worth(seconds: float, nats: float) -> float:
    """What is to go first: most time for the least that the answers change by."""
    return seconds / (nats + _LEAST_DAMAGE)


@dataclass(frozen=True)
class Form:
    """Steps that make a plan, and what kind of plan that is. Forms of lower `order` are tried first.

    family: what plans that descend from each other are called; "" keeps it. settings: the engine's.
    """

    steps: tuple[Step, ...]
    family: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)
    order: int = 50


@dataclass(frozen=True)
class Standing:
    """A plan that was measured, as methods see it: `graded` is its step that a line of bits may lower.

    on_line: it is a point of such a line. ready: it has a graded step, or no method may bring one: what acts
    before such a step may join it.
    """

    steps: tuple[Step, ...]
    family: str
    graded: Step | None
    on_line: bool
    ready: bool

    def find(self, rule: str) -> Step | None:
        """The step of a rule for the program as a whole."""
        return next((step for step in self.steps if (step.rule, step.site) == (rule, EVERYWHERE)), None)

    def sites(self, rule: str) -> set[str]:
        """Where a rule acts."""
        return {step.site for step in self.steps if step.rule == rule}

    def having(self, *steps: Step) -> tuple[Step, ...]:
        """The steps with others in the places of their like."""
        instead = {(step.rule, step.site) for step in steps}
        return (*(s for s in self.steps if (s.rule, s.site) not in instead), *steps)


@dataclass(frozen=True)
class MethodOutlook:
    """What a layer alone would be by a method, as a search first tries it: estimated, and never a claim.

    words: with which parameters. bytes: of its weights as they are shipped. macs: the share of its
    multiply-adds that is left, 0 where the layer goes. dtype: what it multiplies in. loaded: bytes of its
    weights as each inference reads them, where that is not what it was. bits: of a weight, where those decide
    what it costs.
    """

    words: str
    bytes: float
    macs: float = 1.0
    dtype: str = "fp32"
    loaded: float | None = None
    bits: int | None = None


class Method(ABC):
    """A lossy rewrite. `params` are plain JSON values; a step with equal params, program and data replays."""

    name: ClassVar[str]
    kind: ClassVar[Kind] = "lossy"
    # STRUCTURE changes shapes, WEIGHTS changes constants only, NUMBERS changes element types, TRAINING what
    # constants of any type hold.
    stage: ClassVar[int]
    # One sentence for the report: what the method gives up and for what.
    promise: ClassVar[str]
    # Its steps take `bits` and `skip` by layer: a search walks down a line of ever fewer bits.
    graded: ClassVar[bool] = False
    # Lists of layers in its parameters that it does less to, or nothing: the mildest first.
    spares: ClassVar[tuple[str, ...]] = ("skip",)
    # The zeros that it makes are worth something as such: whoever changes weights later leaves them.
    zeros: ClassVar[bool] = False
    # Its steps settle the bits of weights: no line is walked beside them.
    settles_bits: ClassVar[bool] = False
    # The weights that it acts on where it acts on the program as a whole.
    acts_on: ClassVar[tuple[type[StoredWeights], ...]] = (WeightedLayer,)
    # It rounds activations, each to one grid for all channels.
    rounds_activations: ClassVar[bool] = False

    def sites(self, program: Program) -> Iterator[str]:
        """Where the method can act; one EVERYWHERE for methods that treat the program as a whole."""
        yield EVERYWHERE

    def removed(self, program: Program, site: str) -> Iterable[str]:
        """The layers that a step of it removes as a whole: other steps of a plan say nothing of them."""
        return ()

    @abstractmethod
    def apply(self, program: Program, site: str, params: Params, calibration: Calibration) -> Program:
        """The treated program. ProgramError on params or a site that make no sense."""

    def exact_steps(
        self, program: Program, params: Params, calibration: Calibration
    ) -> tuple[Step, ...] | None:
        """The exact steps that a step of the method stands for: calibration chooses them, and trails hold
        them in its place. None where it is lossy itself."""
        return None

    def treatment(self, params: Params, *names: str) -> str:
        """What it does to a layer of one or more names, in words for the report."""
        if self.graded:
            kind = "weights of short codes" if "price" in params else f"{bits_of(params, *names)}-bit weights"
            return f"{self.name}, {kind}"
        shown = ", ".join(f"{key} {value}" for key, value in params.items() if key != "bits")
        return f"{self.name} ({shown})" if shown else self.name

    # What a search tries of the method. A method that says nothing is used only where somebody names it.

    def starts(self, prospect: Prospect) -> Iterable[Form]:
        """Plain forms to begin with."""
        return ()

    def variants(self, start: Form, lost: float) -> Iterable[Form]:
        """Other forms of one of its starts, which was measured and lost so much."""
        return ()

    def extensions(self, plan: Standing, prospect: Prospect) -> Iterable[Form]:
        """What a plan within the budget may become with (more of) the method."""
        return ()

    def retreats(self, plan: Standing, prospect: Prospect) -> Iterable[Form]:
        """What a plan that breaks the budget may become with less of the method."""
        step = plan.find(self.name) if self.graded else None
        if step is None or plan.graded is not step or plan.on_line:
            return
        (mildest, *others), params = self.spares, step.params
        treated, further = self.outlooks(prospect), {site for name in others for site in params.get(name, ())}
        damage = (self.rounds_activations and prospect.in_bytes()) or prospect.divergence()
        own = {site: lost for site, lost in damage.items() if site in treated and site not in further}
        spared = params.get(mildest, ())
        sites = prospect.most_sensitive(own, len(spared))
        if sites is not None:
            yield Form(plan.having(replace(step, params={**params, mildest: sites})), plan.family)
        for name in others if spared else ():
            left = {key: value for key, value in params.items() if key != mildest}
            whole = sorted({*spared, *params.get(name, ())})
            yield Form(plan.having(replace(step, params={**left, name: whole})), plan.family)

    def challenges(self, plan: Standing, prospect: Prospect) -> Iterable[Form]:
        """What a plan may become with so much of the method that only training brings it back."""
        step = plan.find(self.name) if self.graded else None
        if step is None or plan.graded is not step:
            return
        if (price := step.params.get("price")) is not None:
            for times in _CHALLENGING_PRICES:
                dearer = replace(step, params={**step.params, "price": times * price})
                yield Form(plan.having(dearer), plan.family)
            return
        kept = {key: value for key, value in step.params.items() if key not in ("bits", "price", "worth")}
        for bits in _CHALLENGING_BITS:
            if bits < step.params.get("default_bits", 8):
                params = {**kept, "default_bits": bits, "scales": "mse", "rounding": "compensated"}
                yield Form(plan.having(replace(step, params=params)), plan.family)

    def outlooks(self, prospect: Prospect) -> Mapping[str, MethodOutlook]:
        """What each layer would be, by site; none that it does not act on, or would not shrink."""
        return {}

    def step(self, site: str = EVERYWHERE, **params: Any) -> Step:
        """A step of the method."""
        return Step(self.name, site, params, "lossy")


def bits_of(params: Params, *names: str) -> int:
    """The bits a layer gets: its own in params["bits"], by any of its names, or params["default_bits"]."""
    own = params.get("bits", {})
    value = next((own[name] for name in names if name in own), params.get("default_bits", 8))
    if not isinstance(value, int):
        raise ProgramError(f"bits of '{names[0]}' are {value!r}, not a whole number")
    return value


LOSSY: Registry[Method] = Registry("lossy method", "tensmith.rewrite.lossy")

Class = TypeVar("Class", bound=type[Method])


def lists_of_layers() -> tuple[str, ...]:
    """The parameters of methods that are lists of layers."""
    return (*dict.fromkeys(name for method in LOSSY.values() for name in method.spares), "plain")


def lossy(name: str, *, stage: int, promise: str) -> Callable[[Class], Class]:
    """Registers a lossy method class."""

    def register(cls: Class) -> Class:
        cls.name, cls.stage, cls.promise = name, stage, promise
        LOSSY.add(name, cls())
        return cls

    return register


def without_zeros(steps: Iterable[Step]) -> tuple[Step, ...]:
    """The steps of a trail but for those that make zeros which are worth something as such."""
    return tuple(step for step in steps if step.kind == "exact" or not LOSSY[step.rule].zeros)


def independent(steps: Iterable[Step]) -> tuple[Step, ...]:
    """The steps of a trail, with codes that stand each for itself where they depend on one another."""
    return tuple(
        replace(step, params={**step.params, "rounding": "coded"})
        if step.params.get("rounding") == "dependent"
        else step
        for step in steps
    )


def apply_lossy(program: Program, step: Step, calibration: Calibration) -> Program:
    """One lossy step; ProgramError where it changes a layer that its parameters name as kept."""
    method, kept = LOSSY[step.rule], kept_by(step)
    with blas_threads(1):
        if not kept:
            return method.apply(program, step.site, step.params, calibration)
        covered = Covered.of(program, kept)
        asked = UncoveredCalibration(calibration, covered.uncovered)
        after = covered.uncovered(method.apply(covered.program, step.site, _own(step), asked))
    demand_unchanged(program, after, kept, f"lossy method '{method.name}'")
    return after


def exact_steps(program: Program, step: Step, calibration: Calibration) -> tuple[Step, ...] | None:
    """The exact steps that one of a method stands for, which leave kept layers alone; None where it is lossy
    itself."""
    method, kept = LOSSY[step.rule], kept_by(step)
    with blas_threads(1):
        if not kept:
            return method.exact_steps(program, step.params, calibration)
        covered = Covered.of(program, kept)
        asked = UncoveredCalibration(calibration, covered.uncovered)
        return method.exact_steps(covered.program, _own(step), asked)


def _own(step: Step) -> dict[str, Any]:
    """What a step tells its method."""
    return {name: value for name, value in step.params.items() if name != KEPT}
