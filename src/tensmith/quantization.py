"""The short road: weights of few bits without data, one tensor at a time from file to file.

    read     frontend: file -> Program, its weights mapped
    round    rewrite.lossy: a step for each tensor; what it made is put away, what it read is let go
    write    backend.onnx: weights stream into a data file beside the model; a rename makes both real

No engine runs, and no more than one tensor is in memory at once, so a model may be larger than memory. What
is lost is not known without data: of each tensor it is said how far its numbers moved, and no more.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tensmith.backend.onnx import write_onnx
from tensmith.data.mapped import Shelf, let_go
from tensmith.errors import ModelError, OutputError, UsageError
from tensmith.evaluate.size import file_bytes
from tensmith.files import at_home
from tensmith.formula.arith import Array
from tensmith.frontend.model import read_weights_open
from tensmith.frontend.model_copy import refuse_own
from tensmith.ir import Program
from tensmith.ir.ops.quantization import decodes
from tensmith.ir.program import array_bytes
from tensmith.progress import Progress, silent
from tensmith.request import exported_module
from tensmith.rewrite.calibration import WithoutData
from tensmith.rewrite.kept import kept_sites
from tensmith.rewrite.lossy.block_int4 import BLOCK, products
from tensmith.rewrite.lossy.tables import codes_of_table
from tensmith.rewrite.lossy.weights import (
    RecurrentWeights,
    StoredWeights,
    WeightedLayer,
    behind,
    distinct,
    stored_weights,
)
from tensmith.rewrite.method import apply_lossy
from tensmith.rewrite.rule import Step
from tensmith.search.allowed import Allowed

BITS = (4, 8)
# Weights that take more lie in a file beside the model, into which they can be streamed.
_INSIDE = 64 << 20
# Weights whose error is summed at a time.
_AT_A_TIME = 1 << 18


@dataclass(frozen=True)
class RoundedTensor:
    """A tensor of weights that is codes now: of which layer, their bits, how many share a scale (0 for all of
    an output channel), and the root of the mean square by which they moved, over that of the weights.
    """

    weight: str
    site: str
    shape: tuple[int, ...]
    bits: int
    block: int
    error: float


@dataclass(frozen=True)
class Quantization:
    """What `quantize` wrote: sizes in bytes, of all weights before and after and of the files; each tensor.

    Nothing is known of what the model loses: it was not run.
    """

    path: Path
    file_bytes: int
    weight_bytes: int
    original_bytes: int
    tensors: tuple[RoundedTensor, ...]
    kept: tuple[str, ...]

    @property
    def error(self) -> float:
        """Of all tensors together, each weight alike."""
        sizes = [math.prod(tensor.shape) for tensor in self.tensors]
        squares = sum(size * tensor.error**2 for size, tensor in zip(sizes, self.tensors))
        return math.sqrt(squares / sum(sizes)) if self.tensors else 0.0

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        return {
            "path": str(self.path),
            "file_bytes": self.file_bytes,
            "weight_bytes": self.weight_bytes,
            "original_bytes": self.original_bytes,
            "kind": "lossy",
            "judged": False,
            "error": {"value": self.error, "evidence": "measured"},
            "tensors": [
                {**vars(tensor), "shape": list(tensor.shape), "evidence": "measured"}
                for tensor in self.tensors
            ],
            "kept": list(self.kept),
        }


def quantize(
    model: str | os.PathLike[str] | Any,
    output: str | os.PathLike[str],
    *,
    bits: int = 4,
    block: int = BLOCK,
    keep: Sequence[str] = (),
    example_inputs: Any = None,
    progress: Progress | None = None,
) -> Quantization:
    """Writes `model` to the ONNX file `output` with weights of few bits, without data, and so unjudged.

    model: path of an .onnx or a .gguf file, or a PyTorch `nn.Module` with `example_inputs`.
    bits: 4 puts the weights of matrix products into 4 bits, a scale for each `block` (32) of them, and all
    other layers into 8, a scale an output channel; 8 does that to all. Tables that rows are looked up in (of
    words and positions) take 8, a scale a row; one that the head multiplies with, too, stays one. keep:
    layers to leave alone, by name or pattern.
    Memory: one tensor at a time; weights over 64 MB go to `output`.data beside it.
    """
    if bits not in BITS:
        raise UsageError(f"weights take {' or '.join(map(str, BITS))} bits here, not {bits}")
    if block < 16 or block % 16:
        raise UsageError(f"a block is a multiple of 16, not {block}")
    path, tell = at_home(output), progress or silent
    named = isinstance(model, (str, os.PathLike))
    if named:
        refuse_own(at_home(model), path)
    if path.suffix != ".onnx":
        raise UsageError(f"what is written is an ONNX file; '{path.name}' must end in .onnx")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror}; choose another place") from error
    with Shelf(path.parent) as shelf:
        if named:
            program = read_weights_open(at_home(model), shelf.put)
        else:
            program = exported_module(model, example_inputs)
        rounding = _Rounding(program, shelf, Allowed(kept_sites(program, program, keep)), tell)
        if bits == 4:
            rounding.in_blocks(block)
        rounding.in_bytes()
    if rounding.program is program:
        raise ModelError("the model has no layers left with weights to round; `tensmith explain` lists them")
    tell("writing")
    write_onnx(rounding.program, path, external_threshold=_INSIDE)
    return Quantization(
        path,
        int(file_bytes(path).value),
        _weight_bytes(rounding.program),
        _weight_bytes(program),
        tuple(rounding.found),
        rounding.allowed.kept,
    )


def _weight_bytes(program: Program) -> int:
    return sum(map(array_bytes, program.constants.values()))


@dataclass
class _Rounding:
    """A program on its way, and what was rounded so far."""

    program: Program
    shelf: Shelf
    allowed: Allowed
    tell: Progress
    found: list[RoundedTensor] = field(default_factory=list)

    def in_blocks(self, block: int) -> None:
        """Matrix products."""
        layers = products(self._uncovered, block)
        for number, layer in enumerate(layers, 1):
            self.tell(f"matrix product {number} of {len(layers)}: {layer.site}")
            self._round(layer, Step("block_int4", layer.site, {"block": block}, "lossy"))

    def in_bytes(self) -> None:
        """Every layer that still multiplies with floats and every table of them, once a tensor, and recurrent
        weights; ONNX has no codes of doubles."""
        program = self._uncovered
        floats = (own for own in stored_weights(program) if program.type(own.weight).dtype != "f64")
        params = {"stored": "codes", "default_bits": 8}
        for own in distinct(floats):
            self.tell(f"weights in bytes: {own.site}")
            step = Step("weight_only", own.site, params, "lossy")
            self._round(own, step)

    @property
    def _uncovered(self) -> Program:
        return self.allowed.covered(self.program)

    def _round(self, own: StoredWeights, step: Step) -> None:
        """One step, whose codes are compared with what they stand for."""
        known = self.program.constants
        weights = known[own.weight]
        self._apply(step)
        before, axis, block = weights, 0, 0
        if isinstance(own, WeightedLayer):
            opened, turned = behind(self.program, self.program.producers[own.site].inputs[1])
            node = self.program.producers[opened]
            names, axis, block = node.inputs[:2], node.attrs["axis"], node.attrs["block_size"]
            before = weights.T if own.turned != turned else weights
        elif isinstance(own, RecurrentWeights):
            made = self.program.constants.keys() - known.keys()
            (node,) = (node for node in self.program.nodes if decodes(node) and node.inputs[0] in made)
            names, axis, before = node.inputs[:2], node.attrs["axis"], weights.reshape(own.shape)
        else:
            names = codes_of_table(self.program, own.site)
        codes, scales = (self.program.constants[name] for name in names)
        if not np.isfinite(scales).all():
            raise ModelError(f"weight '{own.weight}' holds NaN or infinity; export a model that works")
        error = _relative_error(before, codes, scales, axis, block)
        bits = self.program.type(names[0]).bits
        self.found.append(RoundedTensor(own.weight, own.site, weights.shape, bits, block, error))
        for array in (weights, codes, scales):
            let_go(array)

    def _apply(self, step: Step) -> None:
        fitted = self.allowed.fitted_step(step)
        assert fitted is not None
        before = self.program.constants
        with np.errstate(all="ignore"):  # of what is no number; whoever rounded it looks at the scales
            after = apply_lossy(self.program, fitted, WithoutData())
        made = {name: array for name, array in after.constants.items() if before.get(name) is not array}
        self.program = after.with_constants({name: self.shelf.put(array) for name, array in made.items()})


def _relative_error(weights: Array, codes: Array, scales: Array, axis: int, block: int) -> float:
    """|codes * scales - weights| / |weights|, scales one for each of `axis`, or for `block` of them."""
    run = block or 1
    rows, near = np.moveaxis(weights, axis, 0), np.moveaxis(codes, axis, 0)
    steps = np.moveaxis(scales, axis, 0) if block else scales.reshape(-1, *(1,) * (rows.ndim - 1))
    many = max(1, _AT_A_TIME * len(rows) // rows.size // run)
    lost = whole = 0.0
    for first in range(0, len(steps), many):
        place = slice(first * run, (first + many) * run)
        part = rows[place].astype(np.float32)
        step = np.repeat(steps[first : first + many].astype(np.float32), run, 0)[: len(part)]
        lost += float(np.square(near[place].astype(np.float32) * step - part).sum(dtype=np.float64))
        whole += float(np.square(part).sum(dtype=np.float64))
    return math.sqrt(lost / whole) if whole else 0.0
