"""Statistics of a program's inner values over calibration data, by running it in an engine.

Memory stays at the program, its weights once more in the engine, and one batch: values are taken in groups,
batches are as large as what is alive in them allows, and everything kept (histograms, moments) is small and
of fixed size.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeAlias

import numpy as np

from tensmith.blas import blas_threads
from tensmith.data.dataset import Inputs, Subset, sample_count
from tensmith.errors import ProgramError
from tensmith.evaluate.accuracy import Model, Preprocess, as_model
from tensmith.evaluate.activations import Activations, pieces_to, session_of
from tensmith.files import TemporaryFolder, atomic_path, sha256_bytes
from tensmith.formula.arith import Array
from tensmith.ir import Node, Program
from tensmith.ir.ops.convolution import window_attrs, windows
from tensmith.ir.ops.product import Product
from tensmith.ir.part import without_dead
from tensmith.rewrite.archives import read_trained
from tensmith.rewrite.calibration import MOST_MOMENT_BYTES, Histogram, Moment
from tensmith.rewrite.lossy.weights import RecurrentWeights, StoredWeights, find_multiplying

# Kept of one sample in a pass, and alive at once in a batch; a batch holds one sample at least.
_GROUP_BYTES = 8 << 20
_BATCH_BYTES = 8 << 20
_MOST_BATCH = 16
# Of a matrix of moments, so many are added to at a time: it may be larger than everything else.
_COLUMNS = 256
# Positions a moment is averaged over: so many for each of its unknowns, within bounds.
_POSITIONS_A_DEPTH = 8
_FEWEST_POSITIONS, _MOST_POSITIONS = 4096, 32_768
# Samples those positions are drawn from at most.
_MOMENT_SAMPLES = 128

# What is drawn of an array, so many positions a sample: float32 [group, rows, d].
Rows: TypeAlias = Callable[[Array, float, np.random.Generator], Array]


class Calibrator:
    """A `Calibration` over one view of data. Results are kept for the program they were computed for.

    kept: the folder of trained weights, if there are any.
    """

    def __init__(
        self,
        view: Subset,
        preprocess: Preprocess | None,
        threads: int,
        kept: Path | None = None,
    ) -> None:
        self._view, self._kept = view, kept
        self._preprocess, self._threads = preprocess, threads
        self._histograms: dict[str, dict[str, Histogram]] = {}  # by program and value
        self._spill = TemporaryFolder()
        self._activations = Activations(partial(self._run, most=_MOMENT_SAMPLES), threads)

    def histograms(self, program: Program, values: Iterable[str]) -> Mapping[str, Histogram]:
        """See Calibration."""
        names, known = list(values), self._histograms.setdefault(program.digest, {})
        for group in _groups(program, [name for name in dict.fromkeys(names) if name not in known]):
            known.update(self._gathered(program, group))
        return {name: known[name] for name in names}

    def moment(self, program: Program, site: str) -> Moment:
        """See Calibration. Positions are drawn evenly over the samples.

        It waits on disk for whoever asks again of a program that begins alike.
        """
        own = find_multiplying(program, site)
        if 8 * own.depth**2 > MOST_MOMENT_BYTES:
            raise ProgramError(f"'{site}' sums {own.depth} products: the moments of its inputs are too large")
        if isinstance(own, RecurrentWeights):
            program, value = _with_states(program, own)
            digest, rows = without_dead(replace(program, outputs=(value,))).digest, partial(_steps, own)
            arrays = self._values(program, value)
        else:
            batch = _batch(program)
            pieces = pieces_to(program, site, batch)
            digest, rows = pieces[-1].digest, partial(_patches, program, own.node)
            arrays = self._activations.of(pieces, batch)
        path = Path(self._spill.name) / f"{_moment_key(program, own, digest)}.npz"
        if not path.exists():
            moment = self._gathered_moment(own, arrays, rows)
            second = moment.second.astype(np.float32)
            with atomic_path(path) as staged, staged.open("wb") as file:
                np.savez(file, first=moment.first, second=second, count=moment.count)
        with np.load(path, allow_pickle=False) as found:
            return Moment(found["first"], found["second"].astype(np.float64), int(found["count"]))

    def trained(self, weights: str) -> Mapping[str, Array]:
        """See Calibration."""
        return read_trained(self._kept, weights)

    def _values(self, program: Program, value: str) -> Iterator[Array]:
        for found in self._run(program, [value], most=_MOMENT_SAMPLES):
            yield found[value]

    def _gathered_moment(self, own: StoredWeights, arrays: Iterator[Array], rows: Rows) -> Moment:
        # One a site: what is drawn for it must not depend on what was drawn before.
        generator = np.random.default_rng(list(own.site.encode()))
        sums = _Sums()
        with blas_threads(self._threads):
            for array in arrays:
                wanted = _positions(own.depth) / min(len(self._view), _MOMENT_SAMPLES)
                sums.add(rows(array, wanted, generator))
                del array
        return sums.moment()

    def _gathered(self, program: Program, values: list[str]) -> dict[str, Histogram]:
        found: dict[str, Histogram] = {}
        for arrays in self._run(program, values):
            for name, array in arrays.items():
                now = Histogram.of(array)
                found[name] = found[name].merged(now) if name in found else now
            del arrays, array  # before the next batch is made
        return found

    def _run(
        self, program: Program, values: Sequence[str], batch: int | None = None, most: int | None = None
    ) -> Iterator[Mapping[str, Array]]:
        """The values of each batch, which nobody else holds, of at most `most` samples.

        A short batch is filled up where the file may not answer it.
        """
        given = [name for name in values if name in program.inputs]
        inner = replace(program, outputs=tuple(name for name in values if name not in given))
        inner = without_dead(inner)
        with ExitStack() as stack:
            run: Model = lambda _: {}  # noqa: E731
            if inner.outputs:
                session = stack.enter_context(session_of(inner, self._threads))
                run = as_model(session, self._preprocess)
            seen, size = 0, batch or _batch(inner)
            for part in self._view.batches(size):
                if most is not None and seen >= most:
                    return
                seen += sample_count(part.inputs)
                samples = _filled(part.inputs, size) if size == _fixed(program) else part.inputs
                yield {**run(samples), **{name: self._given(name, samples) for name in given}}

    def _given(self, name: str, samples: Inputs) -> Array:
        if isinstance(samples, Mapping):
            return samples[name]
        return self._preprocess(samples) if self._preprocess else samples


class _Sums:
    """First and second moments as they grow, in place: matrices of wide layers are larger than the layers."""

    def __init__(self) -> None:
        self._first: Array = np.zeros(())
        self._second: Array = np.zeros(())
        self._count = 0

    def add(self, rows: Array) -> None:
        """Takes float32 [group, positions, d]."""
        if not self._count:
            groups, _, depth = rows.shape
            self._first, self._second = np.zeros((groups, depth)), np.zeros((groups, depth, depth))
        self._first += rows.sum(axis=1, dtype=np.float64)
        for start in range(0, rows.shape[2], _COLUMNS):
            columns = slice(start, start + _COLUMNS)
            self._second[:, columns] += rows[:, :, columns].swapaxes(1, 2) @ rows
        self._count += rows.shape[1]

    def moment(self) -> Moment:
        """The means; the sums are used up."""
        self._first /= self._count
        self._second /= self._count
        return Moment(self._first, self._second, self._count)


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


def _positions(depth: int) -> int:
    """How many a moment of so many inputs is averaged over."""
    return min(_MOST_POSITIONS, max(_FEWEST_POSITIONS, _POSITIONS_A_DEPTH * depth))


def _moment_key(program: Program, own: StoredWeights, digest: str) -> str:
    """digest: of what computes what the weights multiply."""
    shape = program.type(own.node.inputs[own.place]).static
    told = (digest, own.site, own.op, sorted(own.node.attrs.items()), shape)
    return sha256_bytes(repr(told).encode())


def _with_states(program: Program, own: RecurrentWeights) -> tuple[Program, str]:
    """The value that a matrix multiplies: elements, or the states after each step, which a program may not
    give yet."""
    if own.multiplies:
        return program, own.node.inputs[0]
    if own.node.outputs[0]:
        return program, own.node.outputs[0]
    name = program.unused(own.site)
    giving = {own.node: replace(own.node, outputs=(name, *own.node.outputs[1:]))}
    return replace(program, nodes=tuple(giving.get(node, node) for node in program.nodes)), name


def _steps(own: RecurrentWeights, array: Array, wanted: float, generator: np.random.Generator) -> Array:
    """Randomly drawn elements or states, `wanted` a sequence: float32 [group, rows, d].

    States behind the length of a sequence are zeros, which nobody multiplies.
    """
    array = array.swapaxes(0, 1) if own.multiplies else array.transpose(2, 0, 1, 3)  # samples first
    flat = array.reshape(-1, own.groups, own.depth)
    said = flat.any(axis=(1, 2))
    if own.node.operand(4) and said.any():
        flat = flat[said]
    keep = min(len(flat), max(1, int(wanted * len(array))))
    chosen = flat[generator.choice(len(flat), keep, replace=False)]
    return chosen.swapaxes(0, 1).astype(np.float32, copy=False)


def _batch(program: Program) -> int:
    """Samples that are run at once: as many as the file fixes, where values do not begin with so many."""
    static = {"", *program.static_values}
    names = [name for node in program.nodes for name in node.outputs if name not in static]
    types = [program.facts[name].type for name in names]
    fixed = _fixed(program)
    if fixed and not all(t and t.shape and t.dims[0] == fixed for t in types):
        return fixed
    return max(1, min(_MOST_BATCH, _BATCH_BYTES // max(1, _bytes_alive(program))))


def _fixed(program: Program) -> int | None:
    """How many samples the file fixes."""
    first = next((t.dims[0] for t in program.inputs.values() if t.shape), None)
    return first if isinstance(first, int) else None


def _filled(samples: Inputs, size: int) -> Inputs:
    """The same again, from the first one on, until there are so many."""
    if sample_count(samples) == size:
        return samples
    rows = np.arange(size) % sample_count(samples)
    if isinstance(samples, Mapping):
        return {name: array[rows] for name, array in samples.items()}
    return samples[rows]


def _bytes_alive(program: Program) -> int:
    """Bytes of one sample that are in memory at once at most: a value goes after its last reader."""
    readers = Counter(name for node in program.nodes for name in set(node.inputs))
    readers.update(program.outputs)  # which stay
    static = {"", *program.static_values}
    alive = most = sum(_bytes_a_sample(program, name) for name in program.inputs)
    for node in program.nodes:
        alive += sum(_bytes_a_sample(program, name) for name in set(node.outputs) - static)
        most = max(most, alive)
        for name in set(node.inputs) - static:
            readers[name] -= 1
            alive -= 0 if readers[name] else _bytes_a_sample(program, name)
    return most


def _bytes_a_sample(program: Program, value: str) -> int:
    type_ = program.facts[value].type
    dims = type_.shape or () if type_ else ()
    return 4 * int(np.prod([dim if isinstance(dim, int) else 64 for dim in dims[1:]], initial=1))


def _patches(
    program: Program, node: Node, array: Array, each: float, generator: np.random.Generator
) -> Array:
    """What randomly drawn output positions, `each` a sample, multiply with the weights: float32
    [group, rows, d]."""
    wanted = max(1, int(each * len(array)))
    product = node.kind(Product)
    if product is None or not product.windowed:
        if node.attrs.get("transA"):
            array = array.swapaxes(-1, -2)
        flat = array.reshape(-1, array.shape[-1])
        keep = min(len(flat), wanted)
        return flat[generator.choice(len(flat), keep, replace=False)][None].astype(np.float32, copy=False)
    shape = program.type(node.inputs[1]).static
    if shape is None:
        raise ProgramError(f"the weights of '{node.output}' have no fixed shape")
    n, groups = len(shape) - 2, node.attrs["group"]
    strides, dilations, pads = window_attrs(node.attrs, array.shape[2:], shape[2:])
    view = windows(array, shape[2:], strides, dilations, pads)  # [N, C, out..., kernel...]
    placed = view.transpose(0, *range(2, 2 + n), 1, *range(2 + n, 2 + 2 * n))
    positions = int(np.prod(placed.shape[: 1 + n]))
    keep = min(positions, wanted)
    chosen = np.unravel_index(generator.choice(positions, keep, replace=False), placed.shape[: 1 + n])
    rows = placed[chosen].reshape(keep, groups, int(np.prod(shape[1:])))
    return rows.swapaxes(0, 1).astype(np.float32, copy=False)
