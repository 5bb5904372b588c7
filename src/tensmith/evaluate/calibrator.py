"""Statistics of a program's inner values over calibration data, by running it in an engine.

Memory stays at one batch of the values asked for: they are taken in groups, and everything kept (histograms,
moments) is small and of fixed size.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tensmith.backend.onnx import write_onnx
from tensmith.engine.base import ENGINES
from tensmith.errors import ProgramError
from tensmith.evaluate.accuracy import Inputs, Preprocess, View, as_model
from tensmith.formula.arith import Array
from tensmith.ir import Node, Program
from tensmith.ir.ops.convolution import window_attrs, windows
from tensmith.rewrite.calibration import Histogram, Moment

_GROUP_BYTES = 8 << 20
_MOST_BATCH = 16
_POSITIONS = 32_768


class Calibrator:
    """A `Calibration` over one view of data. Results are kept for the program they were computed for."""

    def __init__(self, view: View, samples: int, preprocess: Preprocess | None, threads: int) -> None:
        self._view, self._samples = view, samples
        self._preprocess, self._threads = preprocess, threads
        self._cache: dict[tuple[str, str, str], Any] = {}

    def histograms(self, program: Program, values: Iterable[str]) -> Mapping[str, Histogram]:
        """See Calibration."""

        def update(name: str, array: Array, before: Histogram | None) -> Histogram:
            now = Histogram.of(array)
            return now if before is None else before.merged(now)

        return self._over_data(program, "histogram", list(values), update)

    def means(self, program: Program, values: Iterable[str]) -> Mapping[str, Array]:
        """See Calibration."""

        def update(name: str, array: Array, before: tuple[Array, int] | None) -> tuple[Array, int]:
            axis = 1 if array.ndim >= 3 else -1
            flat = np.moveaxis(array, axis, -1).reshape(-1, array.shape[axis])
            sums, count = flat.sum(axis=0, dtype=np.float64), len(flat)
            return (sums, count) if before is None else (before[0] + sums, before[1] + count)

        totals = self._over_data(program, "mean", list(values), update)
        return {name: sums / max(count, 1) for name, (sums, count) in totals.items()}

    def moment(self, program: Program, site: str) -> Moment:
        """See Calibration. At most 32768 positions are used, drawn evenly over the samples."""
        node = program.producers[site]
        value = node.inputs[0]
        generator = np.random.default_rng(0)
        rows_a_sample = max(1, _POSITIONS // max(1, self._samples))

        def update(name: str, array: Array, before: Moment | None) -> Moment:
            patches = _patches(program, node, array)  # [group, rows, d]
            keep = min(patches.shape[1], rows_a_sample * len(array))
            if keep < patches.shape[1]:
                patches = patches[:, np.sort(generator.choice(patches.shape[1], keep, replace=False))]
            rows = patches.astype(np.float64)
            first, second = rows.sum(axis=1), rows.swapaxes(1, 2) @ rows
            total, count = (first, second), keep
            if before is not None:
                total = (first + before.first * before.count, second + before.second * before.count)
                count += before.count
            return Moment(total[0] / count, total[1] / count, count)

        found = self._over_data(program, f"moment of {site}", [value], update)
        moment: Moment = found[value]
        return moment

    def _over_data(
        self, program: Program, kind: str, values: list[str], update: Callable[[str, Array, Any], Any]
    ) -> dict[str, Any]:
        digest = program.digest
        wanted = [name for name in dict.fromkeys(values) if (digest, kind, name) not in self._cache]
        for group in _groups(program, wanted):
            found: dict[str, Any] = {}
            for arrays in self._run(program, group):
                for name in group:
                    found[name] = update(name, arrays[name], found.get(name))
            for name, result in found.items():
                self._cache[digest, kind, name] = result
        return {name: self._cache[digest, kind, name] for name in values}

    def _run(self, program: Program, values: list[str]) -> Iterator[Mapping[str, Array]]:
        inputs = [name for name in values if name in program.inputs]
        inner = [name for name in values if name not in program.inputs]
        batch = _batch_size(program, values)
        with tempfile.TemporaryDirectory(prefix="tensmith-") as folder:
            run = None
            if inner:
                path = Path(folder) / "inner.onnx"
                write_onnx(replace(program, outputs=tuple(inner)), path)
                session = ENGINES["onnxruntime"].prepare(path, self._threads)
                run = as_model(session, self._preprocess)
            for part in self._view.batches(batch):
                found: dict[str, Array] = dict(run(part.inputs)) if run else {}
                found.update((name, self._given(name, part.inputs)) for name in inputs)
                yield found

    def _given(self, name: str, samples: Inputs) -> Array:
        if isinstance(samples, Mapping):
            return samples[name]
        return self._preprocess(samples) if self._preprocess else samples


def _groups(program: Program, values: list[str]) -> Iterator[list[str]]:
    """Values in groups whose arrays for one batch stay within bounds."""
    group: list[str] = []
    size = 0
    for name in values:
        mine = _bytes_a_sample(program, name)
        if group and size + mine > _GROUP_BYTES:
            yield group
            group, size = [], 0
        group.append(name)
        size += mine
    if group:
        yield group


def _batch_size(program: Program, values: list[str]) -> int:
    bytes_a_sample = sum(_bytes_a_sample(program, name) for name in values)
    return max(1, min(_MOST_BATCH, _GROUP_BYTES // max(1, bytes_a_sample)))


def _bytes_a_sample(program: Program, value: str) -> int:
    dims = program.type(value).shape or ()
    return 4 * int(np.prod([dim if isinstance(dim, int) else 64 for dim in dims[1:]], initial=1))


def _patches(program: Program, node: Node, array: Array) -> Array:
    """What each output position multiplies with the weights: [group, rows, d]."""
    if node.op == "conv":
        shape = program.type(node.inputs[1]).static
        if shape is None:
            raise ProgramError(f"the weights of '{node.output}' have no fixed shape")
        kernel = shape[2:]
        strides, dilations, pads = window_attrs(node.attrs, array.shape[2:], kernel)
        view = windows(array, kernel, strides, dilations, pads)  # [N, C, out..., kernel...]
        n, groups = len(kernel), node.attrs["group"]
        order = (0, *range(2, 2 + n), 1, *range(2 + n, 2 + 2 * n))
        rows = view.transpose(order).reshape(-1, groups, int(np.prod(shape[1:])))
        return rows.swapaxes(0, 1)
    if node.op in ("matmul", "gemm"):
        if node.op == "gemm" and node.attrs["transA"]:
            array = array.swapaxes(-1, -2)
        return array.reshape(1, -1, array.shape[-1])
    raise ProgramError(f"'{node.output}' is a {node.op}; moments are of conv, gemm and matmul")
