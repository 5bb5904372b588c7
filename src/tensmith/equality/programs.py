"""Are two whole programs equal? They are run over prime fields on random inputs and compared exactly.

What is tested: equality of the outputs as quotients of polynomials in the inputs, constants at their exact
binary values, where every function that is not arithmetic (exp, max ...) is an unknown function: only
programs that are equal whatever those functions are pass for sure.

The chance that different programs pass. Let there be k random primes p in [2**20, 2**21), a residue modulo
each of them for every number, and random functions of all k residues (see joint).

1. A polynomial that is not zero, of degree d and with integer coefficients of b bits, is zero modulo a random
   prime at a random point with probability at most e = 2 d / (p - 1) + (b / 20) / 73586: some coefficient is
   not zero, at most b / 20 of the 73586 primes of the range divide it, and for the others the lemma of
   Schwartz and Zippel holds (twice d for Laurent polynomials: one variable after the other, by the exponent
   of largest magnitude). Modulo all k primes: at most e**k.
2. Give every call of a random function with arguments of its own, as formulas, a fresh variable. Values of
   the program are then quotients of polynomials (see degrees). As long as no two different arguments of one
   function coincide in value, this is what is computed. Two arguments coincide modulo all primes with
   probability at most e**k for e of the numerator of their difference times the denominators, or
   (w e)**k for sets of up to w numbers, as maximum takes them.
3. So the programs differ and pass with probability at most e**k of the outputs' difference plus the sum of
   (w e)**k over all pairs of calls of one function in both programs. k is chosen to make this small.

A division by zero, which is 0 here, may make equal programs differ: so only programs that differ several
times in a row are different, and the probability is multiplied by the number of trials.
The keyed hash of joint stands for a random function. Integer inputs are values, not variables: of them, and
of symbolic sizes, only those drawn are tested. Integers are drawn over all their range, numbers that the
programs compare with among them; lengths are once drawn beyond what slices and comparisons hold against them.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np

from tensmith.equality import sampling
from tensmith.equality.cuts import cut
from tensmith.equality.degrees import Calls, Degrees, PolynomialBound, Quotient, Quotients
from tensmith.equality.joint import interpret_jointly
from tensmith.errors import ProgramError
from tensmith.formula.arith import Array, PrimeField
from tensmith.ir import Program
from tensmith.ir.interpreter import interpret
from tensmith.ir.part import without_dead

Verdict = Literal["equal", "different", "unknown"]

_TRIALS = 3
# How often whole numbers are drawn: two by two, Booleans and their opposites; integers at first as positions,
# and then over all their range. More often where an input has fewer of them than _MOST_DRAWS altogether.
_DRAWS, _NARROW_DRAWS, _MOST_DRAWS = 4, 2, 64
MOST_PRIMES = 16
# So improbable an error is small enough.
_ERROR = 1e-9
# A bound above this is worth another test, with cuts.
_POOR = 1e-6


@dataclass(frozen=True)
class FieldCheck:
    """What the test found. `output` is the first that differs.

    `error_probability` bounds the chance that different programs give "equal"; it is 1 where no bound is
    known, and `reason` says why. Without primes nothing had to be run. `sizes` are the symbolic sizes under
    which the test with all primes ran; `cuts` counts the values at which both programs were cut (see cuts).
    """

    verdict: Verdict
    primes: tuple[int, ...] = ()
    degree: int = 0
    error_probability: float = 1.0
    output: str = ""
    reason: str = ""
    seed: int = 0
    sizes: Mapping[str, int] | None = None
    cuts: int = 0

    @property
    def equal(self) -> bool:
        """Whether the programs passed."""
        return self.verdict == "equal"


def compare_programs(
    left: Program,
    right: Program,
    seed: int = 0,
    *,
    most: int = MOST_PRIMES,
    seconds: float = 60.0,
) -> FieldCheck:
    """Whether two programs are equal; see the module.

    As many primes are used as _ERROR asks for, up to `most`. seconds: a budget that limits their number too;
    two are always used, and with no limit of seconds what is found is a function of the programs and the
    seed. Never raises for what the programs are: what cannot be tested is "unknown", with a reason.
    """
    reason = _mismatch(left, right)
    if reason:
        return FieldCheck("different", reason=reason, seed=seed)
    left, right = _prepared(left), _prepared(right)
    for program in (left, right):
        for node in program.nodes:
            if node.opaque is not None:
                return FieldCheck("unknown", seed=seed, reason=f"{node.label} is opaque")
    if left.digest == right.digest:
        return FieldCheck("equal", error_probability=0.0, reason="the same nodes compute them", seed=seed)
    reason = ""
    for small, large in _assignments(left, seed):
        try:
            whole = _Comparison(left, right, small, large, seed)
            halves = cut(left, right) if whole.hopeless() else None
            if halves is not None:
                found = replace(whole, left=halves[0], right=halves[1]).run(most, seconds / 2)
                if found.equal and found.error_probability <= _POOR:
                    return replace(found, cuts=halves[2])
            return whole.run(most, seconds if halves is None else seconds / 2)
        except ProgramError as problem:
            reason = str(problem)
    return FieldCheck("unknown", reason=reason, seed=seed)


def restated(
    left: Program, right: Program, seed: int, primes: int, sizes: Mapping[str, int], cuts: int
) -> FieldCheck | None:
    """What a test that programs passed has to say of itself, computed again without running it: its primes,
    degree and probability. None where no test has these sizes or as many cuts."""
    left, right = _prepared(left), _prepared(right)
    if cuts:
        halves = cut(left, right)
        if halves is None or halves[2] != cuts:
            return None
        left, right = halves[:2]
    for small, large in _assignments(left, seed):
        if small == sizes:
            with contextlib.suppress(ProgramError):  # these sizes suit no window
                return replace(_Comparison(left, right, small, large, seed).passed(primes), cuts=cuts)
    return None


def _prepared(program: Program) -> Program:
    """What its outputs need, with constants that are rounded to whole numbers as these: a field knows nothing
    of rounding."""
    program = without_dead(program)
    rounded: dict[str, Array] = {}
    for node in program.nodes:
        values = [program.facts[name].value for name in node.outputs] if node.traits.rounds else [None]
        rounded |= {name: v for name, v in zip(node.outputs, values) if v is not None and v.dtype != object}
    if not rounded:
        return program
    nodes = tuple(node for node in program.nodes if rounded.keys().isdisjoint(node.outputs))
    return without_dead(replace(program, nodes=nodes, constants={**program.constants, **rounded}))


def _assignments(program: Program, seed: int) -> Iterator[tuple[dict[str, int], dict[str, int]]]:
    return sampling.sizes(program, np.random.default_rng([seed, 0x7E5]))


def _mismatch(left: Program, right: Program) -> str:
    """Why the programs do not even look alike from outside."""
    if dict(left.inputs) != dict(right.inputs):
        return "the inputs differ"
    if left.outputs != right.outputs:
        return "the outputs differ in name or number"
    for name in left.outputs:
        types = [program.facts[name].type for program in (left, right)]
        if all(types) and len({type_.dtype for type_ in types if type_}) > 1:
            return f"output '{name}' has another element type"
    return ""


@dataclass(frozen=True, eq=False)
class _Comparison:
    left: Program
    right: Program
    small: Mapping[str, int]
    large: Mapping[str, int]
    seed: int

    def hopeless(self) -> bool:
        """Whether no number of primes gives a bound, though there is one."""
        _, chance, reason = self._bound
        return not reason and chance(MOST_PRIMES) > _POOR

    def run(self, most: int, seconds: float) -> FieldCheck:
        """First one prime with large sizes, then all primes together with small ones."""
        start = time.perf_counter()
        output = self._differs(self.large, 1, 0)
        if output:
            return self._different(output, 1)
        spent = time.perf_counter() - start
        if output := self._differs_beyond(spent, seconds):
            return self._different(output, 1)
        _, chance, _ = self._bound
        count = next((k for k in range(2, most) if chance(k) <= _ERROR), most)
        affordable = min((seconds - spent) / max(spent, 1e-3), MOST_PRIMES)
        count = max(2, min(count, int(affordable)))
        for draw in self._draws():
            if draw >= _DRAWS and time.perf_counter() - start > seconds / 8:
                break
            if output := self._differs_in(draw, 1 if draw else count):
                return self._different(output, count)
        return self.passed(count)

    def _draws(self) -> list[int]:
        """The numbers of the draws of whole numbers: from _DRAWS on every other one, without opposites."""
        if all(type_.floating for type_ in self.left.inputs.values()):
            return [0]
        programs = self.left, self.right
        given = sampling.shapes(self.left, self.small).items()
        sizes = [math.prod(shape) for name, shape in given if sampling.roams(programs, name)]
        more = _MOST_DRAWS // max(1, min(sizes, default=_MOST_DRAWS)) - 1
        return [*range(_DRAWS), *range(_DRAWS, _DRAWS + 2 * more, 2)]

    def _differs_in(self, draw: int, count: int) -> str:
        """See _differs. Where integers of all their range give no program, these are positions or 0 and 1."""
        if draw >= _NARROW_DRAWS:
            with contextlib.suppress(ProgramError, MemoryError, OverflowError):
                return self._differs(self.small, count, draw, wide=True)
        return self._differs(self.small, count, draw)

    def _differs_beyond(self, spent: float, seconds: float) -> str:
        """See _differs, of sizes beyond the numbers that the programs hold against them; "" where that takes
        too long, or is no program."""
        far = sampling.beyond((self.left, self.right), self.large)
        elements = [
            sum(math.prod(shape) for shape in sampling.shapes(self.left, sizes).values())
            for sizes in (self.large, far)
        ]
        longer = elements[1] / max(1, elements[0])
        if far == self.large or spent * longer**1.5 > seconds / 2:
            return ""
        with contextlib.suppress(ProgramError, MemoryError, OverflowError):
            return self._differs(far, 1, 0)
        return ""

    def passed(self, count: int) -> FieldCheck:
        """What is known once the test with so many primes was passed."""
        degree, chance, reason = self._bound
        probability = 1.0 if reason else min(1.0, chance(count))
        return FieldCheck(
            "equal", self.primes(count, 0), degree, probability, "", reason, self.seed, dict(self.small)
        )

    def _different(self, output: str, count: int) -> FieldCheck:
        reason = f"output '{output}' differs in {_TRIALS} of {_TRIALS} trials"
        return FieldCheck("different", self.primes(count, 0), output=output, reason=reason, seed=self.seed)

    def primes(self, count: int, trial: int) -> tuple[int, ...]:
        """The primes of a trial: a function of the seed."""
        return sampling.random_primes(count, np.random.default_rng([self.seed, count, trial]))

    def _differs(self, assignment: Mapping[str, int], count: int, draw: int, *, wide: bool = False) -> str:
        """The first output that differs in every trial; "" if all are equal in one.

        Trials differ in their primes and real numbers alone, one of which may divide by zero; whole numbers
        have no such excuse.
        """
        output = ""
        for trial in range(_TRIALS):
            output = self._trial(assignment, self.primes(count, trial), trial, draw, wide)
            if not output:
                return ""
        return output

    def _trial(
        self, assignment: Mapping[str, int], primes: tuple[int, ...], trial: int, draw: int, wide: bool
    ) -> str:
        seed = (self.seed << 4) + trial
        whole = self._whole(assignment, draw, wide)
        inputs = [{**whole, **sampling.residues(self.left, assignment, PrimeField(p, seed))} for p in primes]
        sides = [_outputs(program, inputs, primes, seed) for program in (self.left, self.right)]
        for name in self.left.outputs:
            if not all(np.array_equal(a[name], b[name]) for a, b in zip(*sides)):
                return name
        return ""

    @cached_property
    def _bound(self) -> tuple[int, _Chance, str]:
        """(largest degree, chance of a false pass by number of primes, why there is none)."""
        degrees = Degrees()
        bounds = [self._sizes(program, degrees) for program in (self.left, self.right)]
        differences = [_difference(degrees, a, b) for a, b in zip(*bounds)]
        reason = next(filter(None, map(_undecided, (self.left, self.right))), "")
        if degrees.compares and not reason:
            reason = "real numbers are compared inside a node"
        worst = max(differences, key=_once, default=PolynomialBound())
        chance = _Chance(degrees, worst)
        return chance.degree, chance, reason

    def _whole(self, assignment: Mapping[str, int], draw: int, wide: bool = False) -> dict[str, Array]:
        """Integer and Boolean inputs, a function of the seed; of two draws, one has the other's opposites."""
        generator = np.random.default_rng([self.seed, 0x1D5, draw // 2])
        found = sampling.whole_inputs((self.left, self.right), assignment, generator, wide=wide)
        return {name: np.asarray(~a) if draw % 2 and a.dtype == bool else a for name, a in found.items()}

    def _sizes(self, program: Program, degrees: Degrees) -> list[Quotient]:
        inputs = self._whole(self.small, 0)
        for name, shape in sampling.shapes(program, self.small).items():
            if program.inputs[name].floating:
                inputs[name] = degrees.variable(shape)
        found = interpret(program, inputs, degrees)
        return [
            degrees.bound(found[name]) if program.type(name).floating else Quotient()
            for name in program.outputs
        ]


def _outputs(
    program: Program, inputs: list[dict[str, Array]], primes: tuple[int, ...], seed: int
) -> list[dict[str, Array]]:
    if len(primes) == 1:
        return [interpret(program, inputs[0], PrimeField(primes[0], seed))]
    return interpret_jointly(program, inputs, primes, seed)


def _undecided(program: Program) -> str:
    """Why the test of a program has no bound: real numbers decide something. "" if they do not."""
    for node in program.nodes:
        if node.traits.measures:
            continue
        label = node.label
        reads = any(name and program.type(name).floating for name in node.inputs)
        if reads and any(name and not program.type(name).floating for name in node.outputs):
            return f"{label} makes integers or truth values of real numbers"
        if node.traits.orders:
            return f"{label} chooses by the values of real numbers"
    return ""


# The probability


class _Chance:
    """chance(k): the probability of a false pass with k primes. `degree` is the largest met."""

    def __init__(self, degrees: Degrees, output: PolynomialBound) -> None:
        self._output = _once(output)
        self._pairs, largest = _pairs(degrees)
        self.degree = math.ceil(max(output.degree, largest))

    def __call__(self, primes: int) -> float:
        pairs = math.fsum(count * min(1.0, chance) ** primes for count, chance in self._pairs)
        return _TRIALS * (min(1.0, self._output) ** primes + pairs)


def _pairs(degrees: Degrees) -> tuple[list[tuple[float, float]], float]:
    """(pairs of arguments, chance that they coincide modulo one prime) for all pairs of calls; the degree.

    Each call is taken with all later ones at once: steps of a recurrent layer are calls over as many
    denominators as there are steps before them.
    """
    by_function: dict[tuple[str, int], list[Calls]] = {}
    for calls in degrees.calls:
        by_function.setdefault((calls.function, len(calls.args)), []).append(calls)
    found: list[tuple[float, float]] = []
    degree = 0.0
    for group in by_function.values():
        arguments = [Quotients(degrees, column) for column in zip(*(calls.args for calls in group))]
        widths = np.array([calls.width for calls in group])
        for position, a in enumerate(group):
            sizes = [each.differences(position) for each in arguments]
            once = np.max([_chances(size) for size in sizes], axis=0)
            degree = max(degree, *(float(size[:, 0].max()) for size in sizes))
            counts = [float(a.count * b.count) for b in group[position:]]
            counts[0] = a.count * (a.count - 1) / 2
            found += zip(counts, (np.maximum(a.width, widths[position:]) * once).tolist())
    return found, degree


def _chances(sizes: Array) -> Array:
    """`_once` of sizes [n, 3]."""
    bits = np.maximum(sizes[:, 1] - sizes[:, 2], 0.0)
    chances: Array = 2 * sizes[:, 0] / (sampling.LOWEST - 1) + (bits // 20) / sampling.PRIMES_IN_RANGE
    return chances


def _difference(degrees: Degrees, a: Quotient, b: Quotient) -> PolynomialBound:
    """The numerator of a - b times the common denominator, which is zero wherever a divisor is."""
    first, second, den = degrees.common(a, b)
    return (first + second) * degrees.product(den)


def _once(size: PolynomialBound) -> float:
    """The probability that a polynomial that is not zero is zero modulo a random prime at a random point."""
    return 2 * size.degree / (sampling.LOWEST - 1) + math.floor(size.bits / 20) / sampling.PRIMES_IN_RANGE
