"""Constants that learn, each in the form it has: codes on a grid, values of a codebook, or plain floats.

What compression made stays as it is made: codes within their bits, as few values as before, and zeros that
were put there on purpose, or as many of them. Weights none of which is negative stay so: of a bank of filters
that gave another sign there would be no logarithm.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch

from tensmith.formula.arith import Array
from tensmith.ir import Node, Program
from tensmith.ir.ops.elementwise import Elementwise
from tensmith.ir.ops.normalization import Normalization
from tensmith.ir.ops.product import Product
from tensmith.ir.ops.quantization import decodes, over_axis
from tensmith.ir.ops.recurrence import Recurrent
from tensmith.recovery.meanings import as_array, onto_grid
from tensmith.rewrite.lossy.int8 import is_at
from tensmith.rewrite.lossy.weights import behind, stored_weights

Tensor: TypeAlias = Any

# A weight moves by shares of what weights are usually like, a scale by shares of itself.
_SCALE_UNIT, _SMALLEST_UNIT = 0.3, 1e-2
# How far from the middle of its code a weight may begin, in steps of the grid.
_INSIDE = 0.45
# Floats are codes in disguise where every row is whole multiples, up to this many times, of one number.
_MOST_CODE, _NEAR = 127, 1e-3
_LOOKED_AT = 64
# How far scales are apart that were one before they were rounded.
_SAME = 1e-6
# Larger numbers are no weights: they rule something out, as masks do.
_LARGEST = 1e4
# Floats are of a codebook where they have so few values, each shared by so many.
_MOST_VALUES, _FEWEST_SHARING = 256, 8


class LearnedTensor(NamedTuple):
    """A tensor that steps change, and the size of a large step."""

    tensor: Tensor
    unit: float


class Learning(ABC):
    """A constant that learns, by the `name` that its numbers or codes have; what is `written` replaces
    constants of the program by name."""

    name: str
    parameters: Mapping[str, LearnedTensor]

    def move(self, device: str) -> None:
        """To where the network computes, with all that does not learn."""
        self.parameters = {
            key: LearnedTensor(tensor.detach().to(device).requires_grad_(True), unit)
            for key, (tensor, unit) in self.parameters.items()
        }
        for name, fixed in vars(self).items():
            if isinstance(fixed, torch.Tensor):
                setattr(self, name, fixed.to(device))

    @abstractmethod
    def value(self) -> Tensor:
        """The numbers that it stands for now."""

    def written(self) -> dict[str, Array]:
        """The constants that say so. No zero is negative: a file would have to say which."""
        return {self.name: as_array(self.value()) + 0.0}


class LearningZeros(Learning):
    """Numbers of which some stay zero; maybe these come little by little (Zhu and Gupta 2017).

    mask: True where the first parameter is none of them. dense: that parameter before any were made.
    """

    mask: Tensor | None = None
    dense: Tensor | None = None
    _zeros = 0

    @property
    def numbers(self) -> Tensor:
        """The first parameter."""
        return next(iter(self.parameters.values())).tensor

    @property
    def masked(self) -> Tensor:
        """The first parameter, and zeros."""
        return self.numbers if self.mask is None else self.numbers * self.mask

    def grown_from(self, dense: Learning) -> None:
        """`dense`: the same constant without the zeros; if it has the same ones, they stay."""
        if self.mask is not None and isinstance(dense, LearningZeros) and type(dense) is type(self):
            numbers = dense.numbers.detach()
            if numbers.shape == self.mask.shape and bool((numbers[~self.mask] != 0).any()):
                self.dense, self._zeros = numbers, int((~self.mask).sum())

    def grow(self, share: float) -> None:
        """To that share of its zeros, the smallest weights of now; none come back but at share 0."""
        if self.dense is None:
            return
        weights = self.numbers
        with torch.no_grad():
            weights.copy_(self.masked if share else self.dense)
            count = round(share * self._zeros)
            smallest = torch.topk(weights.abs().flatten(), count, largest=False, sorted=False).indices
            kept = torch.ones(weights.numel(), dtype=torch.bool, device=weights.device)
            kept[smallest] = False
            self.mask = kept.view(weights.shape)
            weights.mul_(self.mask)

    @property
    def grown(self) -> bool:
        """Whether all zeros are there."""
        return self.mask is None or int((~self.mask).sum()) >= self._zeros

    def clear(self) -> None:
        """Weights that the mask hides are zeros as stored, too."""
        with torch.no_grad():
            self.numbers.copy_(self.masked)

    def find_zeros(self) -> None:
        """What is zero stays so: others set the weights."""
        if self.dense is not None:
            self.mask = self.numbers.detach() != 0


class LearningFloats(LearningZeros):
    """Numbers, some of them zeros that stay. weights: of products, and not what is added."""

    def __init__(self, name: str, array: Array, zeros: bool, weights: bool = True) -> None:
        self.name, self.least = name, _least(array) if weights else -np.inf
        self.mask = torch.as_tensor(array != 0) if zeros and not array.all() else None
        self.parameters = {"values": _parameter(array)}

    def value(self) -> Tensor:
        return torch.clamp(self.masked, min=self.least)


class LearningCodebook(Learning):
    """Numbers of few values, of which zero stays zero."""

    def __init__(self, name: str, array: Array) -> None:
        self.name, self.least = name, _least(array)
        values, places = np.unique(array, return_inverse=True)
        self.places = torch.as_tensor(places.reshape(array.shape))
        self.mask = torch.as_tensor((values != 0).astype(np.float32))
        self.parameters = {"values": _parameter(values)}

    def value(self) -> Tensor:
        values = self.parameters["values"].tensor
        return (torch.clamp(values, min=self.least) * self.mask)[self.places]


class LearningGrid(LearningZeros):
    """Codes times scales, both learned (Esser et al. 2020). A scale that all rows share stays shared.

    scales: as broadcast to the codes they are read. name and scale_name: of the constants that hold
    them; without a scale's name the products are held, in the shape `held`.
    """

    def __init__(
        self,
        names: tuple[str, str],
        codes: Array,
        scales: Array,
        attrs: Mapping[str, Any],
        zeros: bool,
        held: tuple[int, ...] | None = None,
    ) -> None:
        self.name, self.scale_name = names
        self.attrs, self.shape = attrs, codes.shape
        self._held = codes.shape if held is None else held
        whole, self._scale_dtype = codes.astype(np.float32), scales.dtype
        scales = scales.astype(np.float32)
        self.top = float(2 ** np.ceil(np.log2(max(whole.max(), -whole.min() - 1, 1) + 1)) - 1)
        # Files of arrays know no narrower type.
        self._dtype = codes.dtype if codes.dtype.kind in "iu" else np.dtype(np.int8)
        self.low = max(min(-self.top, float(whole.min())), _least(whole))
        self.mask = torch.as_tensor(whole != 0) if zeros and not whole.all() else None
        self._stored = scales.shape
        shared = np.allclose(scales, scales.flat[0], rtol=_SAME, atol=0)
        learned = scales.reshape(-1)[:1] if shared else scales
        self.parameters = {
            "weights": _parameter(whole * over_axis(scales, whole, attrs)),
            "scale": LearnedTensor(_leaf(np.log(np.maximum(learned, 1e-12))), _SCALE_UNIT),
        }

    def lean(self, floats: Array) -> None:
        """The same codes, of weights as near as may be to the numbers that codes were made of: in the middle
        between two borders, small steps would change no code."""
        with torch.no_grad():
            codes, scale = self.codes(), self._spread()
            low, high = (codes - _INSIDE) * scale, (codes + _INSIDE) * scale
            near = torch.minimum(torch.maximum(torch.tensor(floats.astype(np.float32)), low), high)
            self.numbers.copy_(near if self.mask is None else near * self.mask)

    def scales(self) -> Tensor:
        """The scales, in the shape in which they are stored."""
        scales = torch.exp(self.parameters["scale"].tensor)
        return scales.expand(self._stored) if self._stored else scales.reshape(())

    def written_scales(self) -> Array:
        """The scales as their constant holds them, in float32."""
        return _rounded(as_array(self.scales()), self._scale_dtype)

    def value(self) -> Tensor:
        return onto_grid(self.masked, self._spread(), self.low, self.top).reshape(self._held)

    def unrounded(self) -> Tensor:
        """The weights in units of their scales."""
        return self.masked / self._spread()

    def codes(self) -> Tensor:
        """The whole numbers that stand for the weights."""
        return torch.clamp(torch.round(self.unrounded()), self.low, self.top)

    def come_near(self, values: Tensor) -> None:
        """The same codes, at the scales at which they are nearest to `values`: a finer grid rounds most small
        weights to the codes that they had, and would stand for less."""
        scale, codes, before = self.parameters["scale"].tensor, self.codes().detach(), self._spread().detach()

        def over_scales(products: Tensor) -> Tensor:
            with torch.enable_grad():
                whole = (self._spread() * products).sum()
            return torch.clamp(torch.autograd.grad(whole, scale)[0], min=0)

        along, whole = over_scales(codes * values), over_scales(codes * codes)
        with torch.no_grad():
            scale.copy_(torch.where(along * whole > 0, torch.log(along / whole), scale))
            self.parameters["weights"].tensor.mul_(self._spread() / before)

    def _spread(self) -> Tensor:
        """The scale of each weight; blocks repeat theirs."""
        scales = self.scales()
        if block := self.attrs.get("block_size"):
            axis = self.attrs["axis"]
            return scales.repeat_interleave(block, axis).narrow(axis, 0, self.shape[axis])
        if scales.numel() == 1:
            return scales.reshape(())
        axis = self.attrs["axis"] % len(self.shape)
        return scales.reshape([-1 if d == axis else 1 for d in range(len(self.shape))])

    def written(self) -> dict[str, Array]:
        with torch.no_grad():
            # No zero is negative: a file would have to say which.
            codes = self.codes() + 0.0
            if not self.scale_name:
                return {self.name: as_array(codes * self._spread()).reshape(self._held)}
        return {self.name: as_array(codes).astype(self._dtype), self.scale_name: self.written_scales()}


@dataclass(frozen=True)
class _BiasScale:
    """A bias is stored in units of the product of two scales, where kernels add it to sums of products."""

    values: Array
    weights: LearningGrid


class LearningBias(Learning):
    """A bias in 32-bit codes: fine enough to learn as floats."""

    def __init__(self, names: tuple[str, str], codes: Array, scales: Array, of: _BiasScale | None) -> None:
        self.name, self.scale_name = names
        self.fixed, self.of = scales, of
        self.parameters = {"values": _parameter((codes * scales.astype(np.float64)).astype(np.float32))}

    def value(self) -> Tensor:
        return self.parameters["values"].tensor

    def written(self) -> dict[str, Array]:
        scales = self.fixed
        if self.of is not None:
            scales = self.of.values * self.of.weights.written_scales().reshape(scales.shape)
        scales = _rounded(scales, self.fixed.dtype)
        wide = np.rint(as_array(self.value()).astype(np.float64) / scales.astype(np.float64))
        codes = np.clip(wide, -(2**31) + 1, 2**31 - 1).astype(np.int32)
        return {self.name: codes, self.scale_name: scales}


def _least(array: Array) -> float:
    """What none of such numbers may be less than."""
    return 0.0 if array.min(initial=0) >= 0 else -np.inf


def _leaf(array: Array) -> Tensor:
    return torch.tensor(np.asarray(array, np.float32), requires_grad=True)


def _parameter(array: Array) -> LearnedTensor:
    """Numbers that move by shares of their root mean square, but for zeros."""
    used = array[array != 0].astype(np.float64)
    return LearnedTensor(
        _leaf(array), max(float(np.sqrt(np.mean(used**2))) if used.size else 0.0, _SMALLEST_UNIT)
    )


def _rounded(array: Array, dtype: np.dtype[Any]) -> Array:
    """Numbers as a type of floats holds them, in float32."""
    return array.astype(dtype).astype(np.float32)


# Which constants learn


def learning_constants(
    program: Program, zeros: bool, dense: Program | None = None, floats: Program | None = None
) -> dict[str, Learning]:
    """By the constant whose numbers they are. zeros: whether those among the weights stay.

    dense: the program without these zeros, from which they may grow. floats: that before its weights were
    rounded to codes.
    """
    found = _learning(program, zeros)
    if floats is not None:
        _lean(program, found, floats)
    for name, before in (_learning(dense, False) if dense is not None else {}).items():
        if isinstance(after := found.get(name), LearningZeros):
            after.grown_from(before)
    return found


def _learning(program: Program, zeros: bool) -> dict[str, Learning]:
    found: dict[str, Learning] = {}
    biases = []
    for node in program.nodes:
        codes = program.constants.get(node.inputs[0]) if decodes(node) else None
        if codes is None or node.inputs[1] not in program.constants or not _symmetric(program, node):
            continue
        # Whoever looks codes up as they are would take what they stand for.
        if not all(decodes(reader) for name in node.inputs[:2] for reader in program.consumers[name]):
            continue
        if codes.dtype == np.int32:
            biases.append(node)
        else:
            names = (node.inputs[0], node.inputs[1])
            scales = program.constants[names[1]]
            found[names[0]] = LearningGrid(names, codes, scales, node.attrs, zeros)
    for node in biases:
        names = (node.inputs[0], node.inputs[1])
        arrays = (program.constants[names[0]], program.constants[names[1]])
        found[names[0]] = LearningBias(names, *arrays, _bias_scale(program, node, found))
    rows = {own.weight: own for own in stored_weights(program)}
    for name in _floats(program):
        array = program.constants[name]
        own = rows.get(name)
        stored = array if own is None else own.stored(program)
        if own is not None and (grid := _as_grid(own.rows(stored))) is not None:
            attrs = {"axis": stored.ndim - 1 if own.transposed else 0}
            codes = np.rint(stored / over_axis(grid, stored, attrs))
            found[name] = LearningGrid((name, ""), codes, grid, attrs, zeros, array.shape)
        elif own is not None and _has_few_values(array):
            found[name] = LearningCodebook(name, array)
        else:
            found[name] = LearningFloats(name, array, zeros and own is not None, own is not None)
    return found


def _symmetric(program: Program, node: Node) -> bool:
    zero = node.operand(2)
    return not zero or (zero in program.constants and not program.constants[zero].any())


def _bias_scale(program: Program, node: Node, found: Mapping[str, Learning]) -> _BiasScale | None:
    """The two scales whose product a bias's is; None where it is one of its own."""
    (reader, *others) = program.consumers.get(node.output, ()) or (None,)
    if reader is None or others or (grid := _grid_of(program, found, reader, 1)) is None:
        return None
    values = _decoded(program, reader.inputs[0])
    scale = None if values is None else program.constants.get(values.inputs[1])
    if scale is None:
        return None
    product = scale * program.constants[grid.scale_name].reshape(-1)
    stated = program.constants[node.inputs[1]].reshape(-1)
    return _BiasScale(scale, grid) if np.allclose(product, stated, rtol=1e-5, atol=0) else None


def _lean(program: Program, found: Mapping[str, Learning], floats: Program) -> None:
    """Codes of weights begin at the numbers that the same nodes read in `floats`, or near them."""
    for before in floats.nodes:
        for place in _weight_places(before):
            numbers = floats.constants.get(behind(floats, before.inputs[place])[0])
            if numbers is None:
                continue
            after = (node for node in program.nodes if is_at(node, before.output))
            for grid in filter(None, (_grid_of(program, found, node, place) for node in after)):
                matrix = numbers.reshape(-1, numbers.shape[-1])
                if grid.shape in (numbers.shape, matrix.shape):
                    grid.lean(numbers.reshape(grid.shape))


def _weight_places(node: Node) -> Collection[int]:
    """The inputs of a node that are weights of products, or a table."""
    if node.kind(Recurrent) is not None:
        return (1, 2)
    if node.kind(Product) is not None:
        return (1,)
    return (0,) if node.traits.subscripts else ()


def _grid_of(program: Program, found: Mapping[str, Learning], node: Node, place: int) -> LearningGrid | None:
    """The codes that are weights of a node, where it has such."""
    if place not in _weight_places(node):
        return None
    decoded = _decoded(program, node.inputs[place])
    grid = found.get(node.inputs[place] if decoded is None else decoded.inputs[0])
    return grid if isinstance(grid, LearningGrid) else None


def _decoded(program: Program, name: str) -> Node | None:
    """The dequantization that a value is, turned or not."""
    node = program.producers.get(name)
    while node is not None and not decodes(node) and node.picked:
        node = program.producers.get(node.inputs[0])
    return node if node is not None and decodes(node) else None


def _floats(program: Program) -> Iterator[str]:
    """Constants of more than one float32 that are weights, biases, factors or a table's rows, and no more."""
    places = {node: _learned_places(node) for node in program.nodes}
    for name, array in program.constants.items():
        readers = program.consumers.get(name, ())
        if array.dtype == np.float32 and array.size > 1 and readers and name not in program.outputs:
            read = ((node, at) for node in readers for at, each in enumerate(node.inputs) if each == name)
            if all(at in places[node] for node, at in read) and np.abs(array).max() <= _LARGEST:
                yield name


def _learned_places(node: Node) -> Collection[int]:
    """The inputs of a node at which constants learn."""
    if node.kind(Product) is not None or node.kind(Normalization) is not None:
        return (1, 2)
    if node.kind(Recurrent) is not None:
        return (1, 2, 3)
    elementwise = node.kind(Elementwise)
    if elementwise is not None and elementwise.function in ("add", "mul"):
        return (0, 1)
    # Turned weights, and tables whose rows are looked up.
    return (0,) if node.traits.moves or node.traits.subscripts else ()


def _has_few_values(array: Array) -> bool:
    values = len(np.unique(array))
    return values <= min(_MOST_VALUES, array.size // _FEWEST_SHARING)


def _as_grid(rows: Array) -> Array | None:
    """The scales [rows] of rows [groups, rows, d] that are whole multiples of one number each, or None.

    Rows of zeros have the others' mean scale: on a finer grid the first step would make weights of them.
    """
    flat = rows.reshape(-1, rows.shape[-1])
    largest = np.abs(flat).max(1)
    if flat.shape[1] < 2 or not largest.any():
        return None
    some = flat[:, np.argsort(-np.abs(flat).sum(0))[:_LOOKED_AT]]
    used = largest > 0
    scales = np.zeros(largest.shape)
    for code in range(1, _MOST_CODE + 1):
        missing = used & (scales == 0)
        if not missing.any():
            break
        rows = np.flatnonzero(missing)
        rows = rows[(abs(_rest(some[rows], largest[rows] / code)) < _NEAR).all(1)]
        rows = rows[(abs(_rest(flat[rows], largest[rows] / code)) < _NEAR).all(1)]
        scales[rows] = largest[rows] / code
    scales[~used] = scales[used].mean()
    return scales.astype(np.float32) if scales.all() else None


def _rest(rows: Array, scales: Array) -> Array:
    codes = rows / scales[:, None]
    return np.asarray(codes - np.rint(codes))
