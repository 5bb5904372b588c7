"""Outliers moved from activations into weights, so that one grid holds all channels of an activation.

A grid of 8 bits reaches as far as the largest channel. Where few channels of what a normalization gives are
many times the others, as in transformers, little of it is left for those. Divided by a scale s a channel,
which the normalization's gain takes, and multiplied by it again in the weights that read them, they fit:
SmoothQuant (Xiao et al., ICML 2023), after cross-layer equalization (Nagel et al., ICCV 2019).

Scales are powers of two. So constants change in their exponents alone, and the program as a whole is the same
function, which is proved and checked: a step of this method stands for exact steps.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from tensmith.errors import ProgramError
from tensmith.formula.arith import Array
from tensmith.ir import Node, Program
from tensmith.ir.ops.product import Product
from tensmith.rewrite.calibration import Calibration
from tensmith.rewrite.exact.scales import MOST_EXPONENT
from tensmith.rewrite.lossy.parameters import Parameters
from tensmith.rewrite.lossy.weights import WeightedLayer, known_shape, layer_of
from tensmith.rewrite.method import LOSSY, WEIGHTS, Form, Method, Params, Prospect, Standing, lossy
from tensmith.rewrite.rule import Rule, Step
from tensmith.rewrite.told import rule_of
from tensmith.rewrite.trail import in_phase, replay_exact

# s = (largest activation)**strength / (largest weight)**(1 - strength), a channel.
_STRENGTHS = (0.25, 0.5, 0.75, 1.0)
_OFFSETS = (0.0, 0.5)
# What a channel reaches, in root mean squares: of a normalization's outputs hardly any lie further out.
_REACH = 4.0
# A smaller share of the error that is left is no reason to move anything.
_WORTH = 0.8
_FLOOR = 2.0**-MOST_EXPONENT


@lossy(
    "migrate",
    stage=WEIGHTS,
    promise="moves scales of channels into the weights that read them: no value changes until it is rounded",
)
class Migrate(Method):
    """params: strength, from 0 (all range to the weights' advantage) to 1 (to the activations'); without it
    each place gets the one of least error by estimate. Steps stand for exact ones."""

    def exact_steps(self, program: Program, params: Params, calibration: Calibration) -> tuple[Step, ...]:
        """The moves that are worth it, place by place; ProgramError where none is."""
        reader = Parameters(self.name, params)
        strength = reader.number("strength", low=0, high=1.001)
        reader.done()
        steps: list[Step] = []
        for place in places(program):
            exponents = _Rounding.of(program, place, calibration).exponents(strength)
            if exponents is not None:
                steps += _moved(program, place, exponents)
        if not steps:
            raise ProgramError("no channels are so much larger than others that moving their scales pays")
        return tuple(steps)

    def apply(self, program: Program, site: str, params: Params, calibration: Calibration) -> Program:
        """The program after these steps."""
        return replay_exact(program, self.exact_steps(program, params, calibration))

    def treatment(self, params: Params, *names: str) -> str:
        return "scales of large channels moved into weights"

    def extensions(self, plan: Standing, prospect: Prospect) -> Iterable[Form]:
        """Before activations are rounded; what that costs may be less."""
        lossy_steps = (step for step in plan.steps if step.kind == "lossy")
        rounds = any(LOSSY[step.rule].rounds_activations for step in lossy_steps)
        if rounds and not plan.on_line and plan.find(self.name) is None and places(prospect.program):
            yield Form(plan.having(self.step()), plan.family, order=5)

    retreats = extensions


@dataclass(frozen=True)
class Place:
    """A value that scales can leave: what gives it, and the layers that read it and nothing else does."""

    value: str
    layers: tuple[WeightedLayer, ...]


def places(program: Program) -> list[Place]:
    """Where a normalization, or what multiplies by its gain, feeds layers. No layer gives its own name up."""
    found = (_place(program, node) for node in program.nodes if node.kind(Product) is None)
    return [place for place in found if place is not None]


def _place(program: Program, node: Node) -> Place | None:
    """The place at a node; None where proved rules could not take the scales on both sides."""
    readers = program.consumers.get(node.output, ())
    layers = [layer for reader in readers if (layer := layer_of(program, reader)) is not None]
    if not layers or len(layers) < len(readers):
        return None
    *_, width = known_shape(program, node.output) or (None,)
    place = Place(node.output, tuple(layers))
    return place if isinstance(width, int) and _moved(program, place, [1] * width) else None


def _moved(program: Program, place: Place, exponents: Sequence[int]) -> tuple[Step, ...]:
    """The steps that move 2**exponents: there and back, into the weights, into the gain; () where they do
    not go."""
    back = Step("scale_there_and_back", place.value, {"exponents": list(exponents)})
    between = rule_of(back).attempt(program, place.value)
    if between is None:
        return ()
    whole = between.producers[place.layers[0].site].inputs[0]
    less = between.producers[whole].inputs[0]
    behind = Step("scale_before_weights", whole)
    taken = rule_of(behind).attempt(between, whole)
    if taken is None:
        return ()
    into_gain = next((rule for rule in in_phase("simplify") if _takes(rule, taken, less)), None)
    return (back, behind, Step(into_gain.name, less)) if into_gain is not None else ()


def _takes(rule: Rule, program: Program, value: str) -> bool:
    """Whether a rule makes a multiplication go, for no more than what constants compute."""
    after = rule.attempt(program, value)
    return after is not None and _varying(after) < _varying(program)


def _varying(program: Program) -> int:
    return sum(node.output not in program.static_values for node in program.nodes)


@dataclass(frozen=True)
class _Rounding:
    """What decides the error of 8-bit products at a place.

    rows: the weights that multiply, [rows, channels] for all layers together; energy: the mean square of each
    channel [channels].
    """

    rows: Array
    energy: Array

    @staticmethod
    def of(program: Program, place: Place, calibration: Calibration) -> _Rounding:
        """As calibration data has it."""
        rows = [layer.rows(program.constants[layer.weight])[0] for layer in place.layers]
        moment = calibration.moment(program, place.layers[0].site)
        if not np.isfinite(moment.second).all():
            raise ProgramError(
                f"what '{place.layers[0].site}' multiplies is not finite on calibration data; check the data"
            )
        return _Rounding(np.concatenate(rows), np.diag(moment.second[0]))

    def exponents(self, strength: float | None) -> list[int] | None:
        """The best of some scales as powers of two; None where hardly anything is won."""
        reach, most = (_floored(a) for a in (self._reach, np.abs(self.rows).max(axis=0)))
        found = []
        for each in _STRENGTHS if strength is None else (strength,):
            scale = each * np.log2(reach) - (1 - each) * np.log2(most)
            scale -= np.median(scale)
            found += [np.clip(np.rint(scale + o), -MOST_EXPONENT, MOST_EXPONENT) for o in _OFFSETS]
        best = min(found, key=self._error)
        if self._error(best) > _WORTH * self._error(np.zeros(len(best))):
            return None
        return [int(k) for k in best]

    @property
    def _reach(self) -> Array:
        return np.asarray(_REACH * np.sqrt(self.energy))

    def _error(self, exponents: Array) -> float:
        """The mean square of what rounding x / s and s w to 8 bits adds to all outputs, by estimate.

        A grid of step d adds d**2 / 12 to each number.
        """
        scale = 2.0**exponents
        grown = self.rows * scale
        step = 2 * (self._reach / scale).max() / 255
        weight_steps = np.abs(grown).max(axis=1) / 127
        of_activations = step**2 * np.square(grown).sum()
        of_weights = np.square(weight_steps).sum() * (self.energy / scale**2).sum()
        return float(of_activations + of_weights) / 12


def _floored(values: Array) -> Array:
    """Positive: what is nothing beside the largest counts as that little."""
    return np.asarray(np.maximum(values, max(float(values.max()), 1.0) * _FLOOR))
