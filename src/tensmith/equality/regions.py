"""Two small programs of one value at fixed sizes: compared over prime fields where these can tell, else in
floats and integers.

A prime field has no order and no rounding, so what quantizes, compares or reads bytes is computed as it will
be: on random numbers of many magnitudes, and on bytes of their whole range. Both sides must then agree bit
by bit, or, where sums are taken in another order or a constant was rounded on the way, in float64 to what
rounding the inputs to 32 bits would change (or 1e-9 of the largest number, far above the rounding of sums).
No element may differ by more than that changes any of them, and not many more than it changes: where a step
is taken a little earlier, some elements are a whole step apart, but not all.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache

import numpy as np

from tensmith.equality import sampling
from tensmith.equality.apart import distance
from tensmith.equality.programs import MOST_PRIMES, FieldCheck, compare_programs
from tensmith.errors import ProgramError
from tensmith.formula.arith import Array
from tensmith.ir import Program
from tensmith.ir.interpreter import interpret, interpret_in_float64
from tensmith.ir.types import TensorType

# Multiply-adds and elements up to which a field is cheap, of all primes together, and up to which anything is
# run. They count work, not seconds: what is found of two programs does not hang on how busy a machine is.
_FIELD_WORK = 1 << 28
_ALL_PRIMES_WORK = 1 << 27
_MOST_WORK = 1 << 36
# Steps of a fold up to which the degrees of what it computes are bounded in no time.
_MOST_STEPS = 4
_TOLERANCE = 1e-9
_ULP = 2.0**-23
# Sides may differ in so many times the elements that rounding the inputs changes, and by so many times more.
_AS_OFTEN, _AS_FAR = 8, 4.0
_ROUNDS = 2
# A tensor repeats its numbers after that many, a prime, so that no two rows of it are alike.
_PERIOD = 65_521


def compare_regions(left: Program, right: Program, field: bool) -> FieldCheck:
    """Whether two programs with one output are equal as functions of what either of them reads.

    `field`: whether to try fields at all.
    """
    inputs = {**left.inputs, **right.inputs}
    left, right = (replace(program, inputs=inputs) for program in (left, right))
    work = max(map(_work, (left, right)))
    if work > _MOST_WORK:
        return FieldCheck("unknown", reason=f"{work} multiply-adds are too many to run")
    whole = all(type_.floating for type_ in inputs.values())
    # What rounds or saturates, a field knows nothing of.
    rounds = any(node.traits.rounds for program in (left, right) for node in program.nodes)
    known = [(p, node) for p in (left, right) for node in p.nodes if node.opaque is None]
    steps = max((node.definition.steps(p.call(node)) for p, node in known), default=1)
    if field and whole and not rounds and work <= _FIELD_WORK and steps <= _MOST_STEPS:
        most = max(2, min(MOST_PRIMES, _ALL_PRIMES_WORK // max(work, 1)))
        found = compare_programs(left, right, most=most, seconds=math.inf)
        if found.equal and found.error_probability < 1:
            return found
    return _in_numbers(left, right)


def _work(program: Program) -> int:
    """Multiply-adds and elements of all values, the largest count of a program."""
    total = sum(program.macs(node) for node in program.nodes if node.opaque is None)
    moved = [name for node in program.nodes for name in (*node.inputs, *node.outputs) if name]
    types = [program.facts[name].type for name in moved]
    return total + sum(int(np.prod(type_.static or ())) for type_ in types if type_ is not None)


def _in_numbers(left: Program, right: Program) -> FieldCheck:
    """Equal on random numbers: no bound is known of what that overlooks."""
    for attempt in range(_ROUNDS if left.inputs else 1):
        try:
            inputs, wanted = _answered(left, right, attempt)
        except ProgramError as problem:
            return FieldCheck("unknown", reason=str(problem))
        try:
            same = _exactly(wanted, _value(right, inputs))
            if not same:
                wanted, got = (_wide_value(program, inputs) for program in (left, right))
                same = wanted.dtype.kind == "f" and _nearly(wanted, got, _sensitivity(left, inputs, wanted))
        except ProgramError as problem:
            return FieldCheck("different", reason=f"it does not run any more: {problem}")
        if not same:
            return FieldCheck("different", reason="it differs on random numbers")
    return FieldCheck("equal", reason="equal on random numbers")


def _answered(left: Program, right: Program, seed: int) -> tuple[dict[str, Array], Array]:
    """Random inputs, integers of all their range where the left program runs on them, and what it gives."""
    inputs = _random_inputs((left, right), seed, wide=True)
    with contextlib.suppress(ProgramError):
        return inputs, _value(left, inputs)
    inputs = _random_inputs((left, right), seed, wide=False)
    return inputs, _value(left, inputs)


def _value(program: Program, inputs: Mapping[str, Array]) -> Array:
    given = {name: array.astype(program.inputs[name].numpy) for name, array in inputs.items()}
    return interpret(program, given)[program.outputs[0]]


def _wide_value(program: Program, inputs: Mapping[str, Array]) -> Array:
    return interpret_in_float64(program, inputs)[program.outputs[0]]


def _exactly(a: Array, b: Array) -> bool:
    return a.dtype == b.dtype and bool(np.array_equal(a, b, equal_nan=a.dtype.kind == "f"))


def _nearly(a: Array, b: Array, moves: Array) -> bool:
    """Within rounding of sums, or apart as elements move; what is infinite or no number is so on both."""
    apart = distance(a, b)
    slack = _TOLERANCE * apart.largest
    if not slack < apart.most <= slack + moves.max(initial=0.0):
        return apart.most <= slack
    with np.errstate(all="ignore"):
        differences = np.abs(a - b)
    farthest = np.sort(differences[differences > slack])[::-1]
    return bool(np.all(farthest <= slack + _AS_FAR * moves[np.arange(farthest.size) // _AS_OFTEN]))


def _sensitivity(program: Program, inputs: Mapping[str, Array], value: Array) -> Array:
    """How far elements of the value move when every input is off by one in the last of 24 bits, all one way
    or not, the farthest first."""
    generator = np.random.default_rng(len(inputs))
    moved = np.zeros(value.shape)
    for signs in (lambda shape: np.ones(shape), lambda shape: generator.choice((-1.0, 1.0), shape)):
        near = {
            name: a.astype(np.float64) * (1 + _ULP * signs(a.shape)) if a.dtype.kind == "f" else a
            for name, a in inputs.items()
        }
        change = np.abs(_wide_value(program, near) - value)
        moved = np.maximum(moved, np.where(np.isfinite(change), change, 0.0))
    return np.sort(moved, axis=None)[::-1]


def _random_inputs(programs: tuple[Program, ...], seed: int, wide: bool) -> dict[str, Array]:
    """Floats of many magnitudes or small ones, bytes of their whole range, positions that exist; other
    integers as wide as that says."""
    found = sampling.whole_inputs(programs, {}, np.random.default_rng(seed), wide=wide)
    for place, (name, type_) in enumerate(programs[0].inputs.items()):
        if type_.floating or type_.dtype in ("i8", "u8"):
            numbers = np.roll(_numbers(type_.dtype, seed), 997 * place)
            found[name] = np.resize(numbers, type_.static or ())
    return found


@lru_cache(maxsize=8)
def _numbers(dtype: str, seed: int) -> Array:
    generator = np.random.default_rng(seed)
    type_ = TensorType(dtype, ())
    if type_.floating:
        # Among large numbers softmax hears the largest alone: every other round has small ones.
        low, high = (-3, 0) if seed % 2 else (-6, 6)
        magnitudes = np.exp2(generator.uniform(low, high, _PERIOD))
        return np.asarray((generator.normal(size=_PERIOD) * magnitudes).astype(type_.numpy))
    info = np.iinfo(type_.numpy)
    return generator.integers(info.min, info.max + 1, _PERIOD).astype(type_.numpy)
