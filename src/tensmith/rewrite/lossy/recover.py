"""Weights that training found: constants of a program replaced by others of the same shapes and types.

A step does not train. It names the weights by their hash, and whoever keeps them hands them over.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

import numpy as np

from tensmith.errors import ProgramError
from tensmith.formula.arith import Array
from tensmith.ir import Program
from tensmith.rewrite.archives import digest_of
from tensmith.rewrite.calibration import Calibration
from tensmith.rewrite.lossy.parameters import Parameters
from tensmith.rewrite.lossy.weights import LookupTable, WeightedLayer
from tensmith.rewrite.method import TRAINING, Method, Params, lossy


@lossy("recover", stage=TRAINING, promise="trains what is left to answer as the original does")
class Recover(Method):
    """Zeros, grids and codebooks stay what they are; their values, scales and biases are trained.

    params: weights, the SHA-256 of the arrays found; and how they were found: original (the digest of the
    program that was distilled), data (the fingerprint of samples and splits), samples (to train on), seed,
    steps, batch, rate, and bfloat16, whether products were of such numbers. Training is not repeated where a
    trail is replayed: the weights are kept.
    """

    acts_on = (WeightedLayer, LookupTable)

    def treatment(self, params: Params, *names: str) -> str:
        """How long it was trained."""
        return f"trained for {params['steps']} steps"

    def apply(self, program: Program, site: str, params: Params, calibration: Calibration) -> Program:
        """The program with the trained constants; ProgramError if they are others, or do not fit."""
        reader = Parameters(self.name, params)
        weights = reader.text("weights")
        if not re.fullmatch("[0-9a-f]{64}", weights):
            raise reader.wrong(f"weights is {weights!r}; give a SHA-256 in hex")
        reader.text("original")
        reader.text("data")
        told = {name: reader.count(name, low=0) for name in ("samples", "steps", "batch", "seed")}
        if None in (*told.values(), reader.number("rate", low=0, high=1)):
            raise reader.wrong(f"give {', '.join(told)} and rate: how the weights were found")
        reader.flag("bfloat16")
        reader.done()
        arrays = calibration.trained(weights)
        if digest_of(arrays) != weights:
            raise ProgramError(f"the weights that are kept are not those that were trained: {weights[:12]}")
        found = {name: _fitting(program, name, array) for name, array in arrays.items()}
        return program.with_constants(found)


class _Stated(Protocol):
    """A step, or what a certificate says of one."""

    @property
    def rule(self) -> str: ...
    @property
    def params(self) -> Mapping[str, Any]: ...


def trained_weights(trail: Iterable[_Stated]) -> list[str]:
    """The hashes of all weights that the steps of a trail replace constants by."""
    return [str(step.params.get("weights")) for step in trail if step.rule == Recover.name]


def _fitting(program: Program, name: str, array: Array) -> Array:
    """A trained array in the type of the constant that it replaces."""
    constant = program.constants.get(name)
    if constant is None or constant.shape != array.shape:
        raise ProgramError(f"there is no constant '{name}' of shape {list(array.shape)} to be trained")
    fitted = array.astype(constant.dtype)
    if not np.array_equal(fitted.astype(array.dtype), array):
        raise ProgramError(f"the trained values of '{name}' do not fit its type, {constant.dtype}")
    return fitted
