"""Claims run as programs: both sides of an obligation on random numbers, at sizes 0, 1 and odd ones.

Formulas are over the reals and know no element types, no broadcasting of a size that happens to be 1, and no
axis without elements. Programs do, so they refute what only formulas would accept.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from tensmith.errors import ProgramError
from tensmith.formula.arith import Array
from tensmith.ir import Program
from tensmith.ir.interpreter import interpret, interpret_in_float64
from tensmith.rewrite.instance import RESULT, Numbers, numbers, size_names
from tensmith.rewrite.rule import FormulaObligation

# Relative to the largest number of a result, in float64: far above rounding, far below a mistake.
_TOLERANCE = 1e-9
# Instances at which the left side is defined, and how many are tried to find them.
_ENOUGH, _MOST = 6, 40
_SIZES = (0, 1, 1, 2, 3, 5, 7, 9)
# What is larger than a size alone. Of many sizes, windows in space say, tensors have the product.
_AMONG, _AMONG_MANY, _MANY = 5, 3, 8


@dataclass(frozen=True)
class InstanceTrial:
    """`witness` says where the sides differ; `empty`, that the left one was defined nowhere."""

    witness: str = ""
    empty: bool = False


def run_instances(obligation: FormulaObligation) -> InstanceTrial:
    """Both sides at some sizes. An obligation that is no claim about terms has nothing to run."""
    if obligation.terms is None:
        return InstanceTrial()
    left, right, case = obligation.terms
    seed = int.from_bytes(hashlib.sha256(obligation.name.encode()).digest()[:8], "little")
    generator = np.random.default_rng(seed)
    empty, left_over = True, _ENOUGH
    names = size_names(left, right, case=case)
    for number, sizes in enumerate(assignments(names, case.lower, generator)):
        try:
            instance = numbers(left, case, sizes, generator)
            program = instance.program(left)
            wanted = interpret(program, instance.inputs)[RESULT]
        except ProgramError:
            continue  # no tensors of these sizes, or the left side does not take them
        reason = _differs(program, wanted, instance, obligation)
        if reason:
            at = ", ".join(f"{name}={size}" for name, size in sizes.items()) or "fixed sizes"
            return InstanceTrial(f"differs as programs at {at}: {reason}")
        if np.any(_finite(wanted)):
            empty, left_over = False, left_over - 1
        if left_over <= 0 and number > len(names):
            break
    return InstanceTrial(empty=empty)


def assignments(
    names: list[str], lower: Mapping[str, int], generator: np.random.Generator
) -> Iterator[dict[str, int]]:
    """Sizes to try: all as small as they may be, all 1, all 3; each alone as small as it may be, among
    larger ones; then each at random, few and small first."""
    for size in (0, 1, 3)[: 3 if names else 1]:
        yield {name: max(lower.get(name, 0), size) for name in names}
    among = _AMONG if len(names) < _MANY else _AMONG_MANY
    for alone in names if len(names) > 1 else ():
        yield {name: lower.get(name, 0) + (0 if name == alone else among) for name in names}
    for _ in range(_MOST if names else 2):
        yield {name: lower.get(name, 0) + int(generator.choice(_SIZES)) for name in names}


def _differs(program: Program, wanted: Array, instance: Numbers, obligation: FormulaObligation) -> str:
    """Why the right side is not what the left one is; "" if it is."""
    assert obligation.terms is not None
    try:
        other = instance.program(obligation.terms[1])
        got = interpret(other, instance.inputs)[RESULT]
    except ProgramError as error:
        return f"the right side does not run: {error}"
    if got.dtype != wanted.dtype or got.shape != wanted.shape:
        return f"{wanted.dtype.name}{list(wanted.shape)} and {got.dtype.name}{list(got.shape)}"
    if agree(wanted, got):
        return ""
    values = [interpret_in_float64(side, instance.inputs)[RESULT] for side in (program, other)]
    return "" if agree(*values) else "other numbers"


def agree(wanted: Array, got: Array) -> bool:
    """Whether `got` is `wanted` wherever that is a number."""
    if wanted.dtype.kind != "f":
        return bool(np.array_equal(wanted, got))
    there = _finite(wanted)
    a, b = wanted[there].astype(np.float64), got[there].astype(np.float64)
    scale = max(float(np.max(np.abs(a), initial=0.0)), 1.0)
    return bool(np.all(np.abs(a - b) <= _TOLERANCE * scale))  # false of what is no number


def _finite(array: Array) -> Array:
    return np.isfinite(array) if array.dtype.kind == "f" else np.ones(array.shape, dtype=bool)
