"""Constants that learn, each in the form it has: codes on a grid, values of a codebook, or plain floats.

What compression made stays as it is made: codes within their bits, as few values as before, and zeros that
were put there on purpose, or as many of them. Weights none of which is negative stay so: of a bank of filters
that gave another sign there would be no logarithm.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch

from tensmith.formula.arith import Array
from tensmith.ir.ops.quantization import over_axis
from tensmith.recovery.meanings import Tensor, as_array, onto_grid

# A weight moves by shares of what weights are usually like, a scale by shares of itself.
_SCALE_UNIT, _SMALLEST_UNIT = 0.3, 1e-2
# How far from the middle of its code a weight may begin, in steps of the grid.
_INSIDE = 0.45
# How far scales are apart that were one before they were rounded.
_SAME = 1e-6


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
class BiasScale:
    """A bias is stored in units of the product of two scales, where kernels add it to sums of products."""

    values: Array
    weights: LearningGrid


class LearningBias(Learning):
    """A bias in 32-bit codes: fine enough to learn as floats."""

    def __init__(self, names: tuple[str, str], codes: Array, scales: Array, of: BiasScale | None) -> None:
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
