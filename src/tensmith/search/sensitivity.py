"""How much each layer's precision matters: the change of the answers when its weights alone get coarse.

What any other step costs by itself is told in the same unit, by the same samples.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from tensmith.backend.onnx import write_onnx
from tensmith.data import Subset
from tensmith.data.dataset import Inputs, sample_count
from tensmith.engine.base import BASELINE_ENGINE, ENGINES
from tensmith.errors import spared
from tensmith.evaluate.accuracy import Preprocess, as_model, best_batch_size
from tensmith.evaluate.likelihood import log_softmax
from tensmith.files import TemporaryFolder
from tensmith.formula.arith import Array
from tensmith.ir import Program
from tensmith.progress import Progress, silent
from tensmith.rewrite.calibration import Calibration
from tensmith.rewrite.lossy.grid import PROBE_BITS, can_make_up, on_grid
from tensmith.rewrite.lossy.weights import StoredWeights, stored_weights
from tensmith.rewrite.method import LOSSY, apply_lossy
from tensmith.rewrite.rule import EVERYWHERE, Step
from tensmith.search.checkpoint import Checkpoint
from tensmith.search.run import RunDescription

# Nats of answers that are no numbers.
_BROKEN = 1e3
# What the checkpoint's facts are called: of all layers, and how that of a step begins.
_FACT, _OF_STEP = "sensitivity", "sensitivity/"
# Of the time budget, for probing all layers: with coarse weights, and of that so much more in bytes.
_COARSE_SHARE, _IN_BYTES_SHARE = 0.05, 0.6
BUDGET_SHARE = (1 + _IN_BYTES_SHARE) * _COARSE_SHARE
# Samples of a batch that layers are probed with.
_AT_ONCE = 8
# Numbers of a sample that are compared, of outputs that tell no classes.
_KEPT = 256
# Bits of weights whose products with bytes saturate on no CPU.
_SAFE_BITS = 7


@dataclass(frozen=True)
class Sensitivity:
    """What a layer at PROBE_BITS does to the answers: divergence in nats, and flipped ones in per cent; None
    where they tell nothing apart.

    plain: whether that is less than what it does where its weights make up for one another's errors, whose
    objective is the layer's output and not the answers. in_bytes: the divergence where the layer alone is in
    8 bits, with what goes into it and what comes out; None where time did not reach all layers.
    """

    divergence: float
    flips: float | None
    plain: bool = False
    in_bytes: float | None = None


@dataclass
class Sensitivities:
    """Those of a run's simplified program, as first measured: a resumed search walks the same way.

    found: by site, of the layers that were probed; empty until somebody asks.
    """

    run: RunDescription
    program: Program
    calibration: Calibration
    checkpoint: Checkpoint
    progress: Progress = silent
    found: dict[str, Sensitivity] = field(default_factory=dict)

    def of_all_layers(self) -> dict[str, Sensitivity]:
        """By site, from the checkpoint or measured now."""
        if self.checkpoint.fact(_FACT) is None:
            self.progress("sensitivity of each layer")
            self.checkpoint.note(_FACT, {site: asdict(each) for site, each in self._measured().items()})
        self.found |= known_sensitivities(self.checkpoint)
        return for_all_layers(self.program, self.found)

    def of_step(self, step: Step) -> float:
        """The divergence where a lossy step alone acts on the program, as first measured."""
        fact = _OF_STEP + json.dumps(step.to_json(), sort_keys=True)
        if (known := self.checkpoint.fact(fact)) is None:
            known = _BROKEN
            with spared():
                after = apply_lossy(self.program, step, self.calibration)
                known = self._probe.compared(after).divergence
            self.checkpoint.note(fact, known)
        if not isinstance(known, float):
            raise self.checkpoint.damaged(TypeError(f"{fact} is no number"))
        return known

    @cached_property
    def _probe(self) -> Probe:
        run = self.run
        seconds, threads = _COARSE_SHARE * run.time_budget, run.judging_threads
        return Probe.of(self.program, run.splits.calibration, run.task.preprocess, threads, seconds)

    def _measured(self) -> dict[str, Sensitivity]:
        run = self.run
        seconds = _COARSE_SHARE * run.time_budget
        found = layer_sensitivity(self.program, self._probe, self.calibration, seconds)
        if run.task.tells_apart:
            return found
        return {site: replace(each, flips=None) for site, each in found.items()}


def known_sensitivities(checkpoint: Checkpoint) -> dict[str, Sensitivity]:
    """By site, as a run probed them; empty where it did not. OutputError where they are damaged."""
    try:
        return {
            site: Sensitivity(
                float(each["divergence"]),
                None if each["flips"] is None else float(each["flips"]),
                bool(each.get("plain", False)),
                None if each.get("in_bytes") is None else float(each["in_bytes"]),
            )
            for site, each in (checkpoint.fact(_FACT) or {}).items()
        }
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise checkpoint.damaged(error) from error


def layer_sensitivity(
    program: Program, probe: Probe, calibration: Calibration, seconds: float
) -> dict[str, Sensitivity]:
    """Sensitivity of layers by site.

    The largest layers come first, and one is always probed; those that time does not reach are left out.
    Divergence is KL(original || probed) of the softmax of the first output (Kullback and Leibler 1951), and
    of Gaussians of the output's variance about each number of the others, and of a first one that is a single
    number: 256 of a sample at most.
    In the time left it is found out, the most sensitive first, where weights had better not make up for one
    another; and in a time of its own, what 8 bits do to each layer.
    """
    layers = sorted(stored_weights(program), key=lambda layer: -math.prod(layer.shape))

    def probed(layer: StoredWeights, rounding: str) -> Sensitivity:
        like = program.constants[layer.weight]
        grid = on_grid(program, layer, PROBE_BITS, {"rounding": rounding}, calibration)
        coarse = program.with_constants({layer.weight: grid.values(like)})
        return probe.compared(coarse)

    found: dict[str, Sensitivity] = {}
    until = time.monotonic() + seconds
    for layer in layers:
        if found and time.monotonic() > until:
            break
        with spared():
            found[layer.site] = probed(layer, "nearest")
    compensated = [layer for layer in layers if layer.site in found and can_make_up(program, layer)]
    for layer in sorted(compensated, key=lambda layer: -found[layer.site].divergence):
        if time.monotonic() > until:
            break
        nearest = found[layer.site]
        with spared():  # moments that are no numbers, for instance
            plain = probed(layer, "compensated").divergence > nearest.divergence
            found[layer.site] = replace(nearest, plain=plain)
    if len(found) < len(layers):
        return found
    losses: dict[str, float] = {}
    until = time.monotonic() + _IN_BYTES_SHARE * seconds
    for site in (layer.site for layer in layers if layer.multiplies):
        if time.monotonic() > until:
            return found
        params = {"calibration": "minmax", "default_bits": _SAFE_BITS, "skip": sorted(found.keys() - {site})}
        with spared():
            treated = LOSSY["int8"].apply(program, EVERYWHERE, params, calibration)
            losses[site] = probe.compared(treated).divergence
    return {site: replace(each, in_bytes=losses.get(site)) for site, each in found.items()}


def for_all_layers(program: Program, found: Mapping[str, Sensitivity]) -> dict[str, Sensitivity]:
    """A sensitivity for every layer: one that was not probed counts as the most sensitive of the others."""
    careful = max(found.values(), key=lambda each: each.divergence, default=Sensitivity(0.0, 0.0))
    careful = replace(careful, plain=False, in_bytes=None)
    return {layer.site: found.get(layer.site, careful) for layer in stored_weights(program)}


@dataclass(frozen=True)
class Probe:
    """Batches of inputs, and the original's answers to them."""

    inputs: list[Inputs]
    answers: list[list[Array]]
    preprocess: Preprocess | None
    threads: int

    @staticmethod
    def of(
        program: Program, view: Subset, preprocess: Preprocess | None, threads: int, seconds: float
    ) -> Probe:
        """As many batches as a program answers in a layer's share of `seconds`, one at least."""
        found = Probe([], [], preprocess, threads)
        seconds /= len(stored_weights(program)) + 1
        with TemporaryFolder() as folder:
            started = time.monotonic()
            run, count = _model(program, Path(folder), preprocess, threads)
            for batch in view.batches(count):
                found.inputs.append(batch.inputs)
                found.answers.append(run(batch.inputs))
                if time.monotonic() - started > seconds:
                    break
        return found

    def compared(self, program: Program) -> Sensitivity:
        """How a program that was changed answers the same inputs."""
        with TemporaryFolder() as folder:
            run, _ = _model(program, Path(folder), self.preprocess, self.threads)
            return _compare(self.answers, list(map(run, self.inputs)))


def _model(
    program: Program, folder: Path, preprocess: Preprocess | None, threads: int
) -> tuple[Callable[[Inputs], list[Array]], int]:
    """What answers batches by all that is compared, and how many samples one takes at most."""
    path = folder / "probe.onnx"
    write_onnx(program, path)
    session = ENGINES[BASELINE_ENGINE].prepare(path, threads)
    model, names = as_model(session, preprocess), [spec.name for spec in session.outputs]

    def run(batch: Inputs) -> list[Array]:
        answers = model(batch)
        first, *others = (answers[name] for name in names)
        if first.ndim == 1 and sample_count(batch) == 1:  # what it answers has no axis of samples
            first = first[None]
        return [first, *(_some(each) for each in others if each.dtype.kind == "f")]

    return run, min(_AT_ONCE, best_batch_size(session))


def _some(output: Array) -> Array:
    """So many numbers of an output that answers can be kept: states and caches are large."""
    flat = output.reshape(-1)
    return flat[:: max(1, flat.size // (_KEPT * max(1, len(output) if output.ndim else 1)))].copy()


def _compare(reference: list[list[Array]], probed: list[list[Array]]) -> Sensitivity:
    divergence, flips, count = 0.0, 0, 0
    if not reference:
        return Sensitivity(0.0, 0.0)
    reference, probed = ([[_trimmed(first), *rest] for first, *rest in each] for each in (reference, probed))
    tells = reference[0][0].ndim > 1 and reference[0][0].shape[-1] != 1
    broken = Sensitivity(_BROKEN, 100.0 if tells else None)
    numbers = slice(int(tells), None)
    variances = [_variance(batches) for batches in list(zip(*reference))[numbers]]
    for before, after in zip(reference, probed):
        if any(a.shape != b.shape for a, b in zip(before, after)):  # as many rows as were found, of boxes
            return broken
        if not before[0].size:
            continue
        rows = len(before[0].reshape(-1, before[0].shape[-1])) if tells else len(np.atleast_1d(before[0]))
        if tells:
            p, q = (log_softmax(x.reshape(rows, -1)) for x in (before[0], after[0]))
            divergence += float(np.sum(np.exp(p) * (p - q)))
            flips += int(np.sum(p.argmax(axis=1) != q.argmax(axis=1)))
        for a, b, variance in zip(before[numbers], after[numbers], variances):
            there = np.isfinite(a)
            squares = np.square(a[there].astype(np.float64) - b[there])
            divergence += rows * float(squares.mean()) / (2 * variance) if squares.size else 0.0
        count += rows
    if not math.isfinite(divergence):
        return broken
    flipped = 100 * flips / max(1, count) if tells else None
    return Sensitivity(max(0.0, divergence) / max(1, count), flipped)


def _trimmed(output: Array) -> Array:
    """An output without axes of size 1 at its end, as pools leave: classes [n, classes, 1, 1] are classes."""
    while output.ndim > 2 and output.shape[-1] == 1:
        output = output[..., 0]
    return output


def _variance(batches: Sequence[Array]) -> float:
    """Of all numbers of an output; 1 of one that does not vary."""
    found = np.concatenate([batch[np.isfinite(batch)] for batch in batches]).astype(np.float64)
    variance = float(found.var()) if found.size else 0.0
    return variance if variance > 0 else 1.0
