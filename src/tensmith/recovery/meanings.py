"""What ops are in PyTorch. Codes are represented by the numbers that they stand for.

So a dequantization of codes is the numbers themselves. Weights come onto their grids with the gradients of
learned step sizes (Esser et al. 2020): straight through where nothing saturates. Activations are quantized
where nobody asks for gradients; in a step of training they are only cut off at the ends of their grids, which
have 256 levels: what rounding does there hardly matters, and it takes time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from torch.nn import functional

from tensmith.errors import ProgramError
from tensmith.formula.arith import Array, Floats
from tensmith.formula.poly import Poly
from tensmith.formula.scalars import Operators
from tensmith.ir import Node, TensorType
from tensmith.ir.handlers import Handlers
from tensmith.ir.op import Run, Symbolic
from tensmith.ir.ops.attention import positions_allowed
from tensmith.ir.ops.conv_transpose import transposed_window
from tensmith.ir.ops.convolution import window_attrs
from tensmith.ir.ops.elementwise import Elementwise
from tensmith.ir.ops.normalization import Normalization
from tensmith.ir.ops.pooling import GlobalPool, Pool, Window
from tensmith.ir.ops.quantization import OnGrid, encodes, integer_range
from tensmith.ir.ops.recurrence import Recurrent, Stacks
from tensmith.ir.ops.reduction import Reduction
from tensmith.ir.ops.resize import axis_maps, coordinates, nearest, resized_axes, weights
from tensmith.ir.ops.shared import normal_axis
from tensmith.ir.ops.sizes import as_ints, onnx_dtype
from tensmith.ir.ops.slicing import full_pads
from tensmith.ir.tensors import average, reduce_over

# A value while a network runs: a tensor where it is floats, an array where it is known beside the weights.
Tensor: TypeAlias = Any
Meaning = Callable[[Node, Sequence[Any]], Any]

MEANINGS: Handlers[Meaning] = Handlers()


def meaning_of(node: Node) -> Meaning | None:
    """A node's outputs (one tensor, or a tuple) from its inputs; None where there is no such function."""
    if found := MEANINGS.find(node):
        return found
    if node.traits.renames:
        return _renamed
    return _moved if node.traits.moves else None


def tensor(value: Any, like: Tensor) -> Tensor:
    """An input as a tensor beside another one; truth values stay what they are."""
    if isinstance(value, torch.Tensor):
        return value
    found = torch.tensor(np.asarray(value), device=like.device)
    return found if found.dtype == torch.bool else found.to(like.dtype)


def _first(inputs: Sequence[Any]) -> Tensor:
    """Of floats, where there is such a one."""
    tensors = [value for value in inputs if isinstance(value, torch.Tensor)]
    return next((value for value in tensors if value.is_floating_point()), tensors[0])


def as_array(value: Any) -> Array:
    """A value as an array, which may share its memory."""
    return np.asarray(value.detach().cpu() if isinstance(value, torch.Tensor) else value)


# Movement


def _moves(node: Node, first: Array, rest: Sequence[Any]) -> tuple[Array, ...]:
    """What a node that moves data does to an array."""
    others = tuple(None if value is None else as_array(value) for value in rest)
    count = 1 + len(others)
    call = Run(node.attrs, (first, *others), (None,) * count, (None,) * len(node.outputs))
    return node.definition.run(call, Floats())


def _renamed(node: Node, inputs: Sequence[Any]) -> Tensor:
    x, *rest = inputs
    blank = np.broadcast_to(np.zeros((), np.int8), tuple(x.shape))
    return x.reshape(_moves(node, blank, rest)[0].shape)


def _moved(node: Node, inputs: Sequence[Any]) -> tuple[Tensor, ...]:
    """By the places that the elements come from."""
    x, *rest = inputs
    places = np.arange(math.prod(x.shape)).reshape(tuple(x.shape))
    return tuple(_taken(x, places, each) for each in _moves(node, places, rest))


def _taken(x: Tensor, places: Array, found: Array) -> Tensor:
    """The elements of x at the places found: a view, in the order in which x lies, where they are strided."""
    if (cut := _strided(places, found)) is not None:
        return x[cut]
    return (
        x.reshape(-1).index_select(0, torch.tensor(found.reshape(-1), device=x.device)).reshape(found.shape)
    )


def _strided(places: Array, found: Array) -> tuple[slice, ...] | None:
    """The slice of places that was found, if it is one that PyTorch has: forwards along each axis."""
    if found.ndim != places.ndim or not found.size or not np.may_share_memory(places, found):
        return None
    starts = np.unravel_index(int(found.flat[0]), places.shape)
    ends = np.unravel_index(int(found.flat[-1]), places.shape)
    steps = [
        (end - start) // (size - 1) if size > 1 else 1 for start, end, size in zip(starts, ends, found.shape)
    ]
    if min(steps) < 1:
        return None
    cut = tuple(slice(int(s), int(e) + 1, int(step)) for s, e, step in zip(starts, ends, steps))
    return cut if np.array_equal(places[cut], found) else None


@MEANINGS("transpose")
def _transposed(node: Node, inputs: Sequence[Any]) -> Tensor:
    return inputs[0].permute(node.attrs["perm"] or tuple(reversed(range(inputs[0].ndim))))


@MEANINGS("concat")
def _joined(node: Node, inputs: Sequence[Any]) -> Tensor:
    like = _first(inputs)
    return torch.cat([tensor(value, like) for value in inputs], node.attrs["axis"])


@MEANINGS("gather")
def _gathered(node: Node, inputs: Sequence[Any]) -> Tensor:
    table, indices = inputs
    if not isinstance(table, torch.Tensor):
        raise ProgramError(f"{node.label} looks up what is computed")
    axis = normal_axis(node.attrs["axis"], table.ndim)
    places = torch.as_tensor(np.asarray(indices).reshape(-1) % table.shape[axis], device=table.device)
    shape = (*table.shape[:axis], *np.shape(indices), *table.shape[axis + 1 :])
    return table.index_select(axis, places.long()).reshape(shape)


@MEANINGS("pad")
def _padded(node: Node, inputs: Sequence[Any]) -> Tensor:
    x, pads, fill, axes = (*inputs, None, None)[:4]
    if node.attrs["mode"] != "constant":
        return _moved(node, inputs)
    begins, ends = full_pads(x.ndim, pads, axes)
    return _around(x, begins, ends, 0.0 if fill is None else float(as_array(fill).reshape(-1)[0]))


def _around(x: Tensor, begins: Sequence[Any], ends: Sequence[Any], fill: float) -> Tensor:
    """x with its last axes extended, or cut where a number is negative."""
    widths = [int(width) for pair in reversed(list(zip(begins, ends))) for width in pair]
    return functional.pad(x, widths, value=fill) if any(widths) else x


# Products


@MEANINGS("conv")
def _convolution(node: Node, inputs: Sequence[Any]) -> Tensor:
    x, w, bias = (*inputs, None)[:3]
    strides, dilations, pads = window_attrs(node.attrs, tuple(x.shape[2:]), tuple(w.shape[2:]))
    n = len(strides)
    convolve = getattr(functional, f"conv{n}d")
    w = w.contiguous(memory_format=torch.channels_last) if n == 2 else w
    group = node.attrs["group"]
    if pads[:n] == pads[n:]:
        return convolve(x, w, bias, strides, pads[:n], dilations, group)
    return convolve(_around(x, pads[:n], pads[n:], 0.0), w, bias, strides, 0, dilations, group)


@MEANINGS("conv_transpose")
def _transposed_convolution(node: Node, inputs: Sequence[Any]) -> Tensor:
    """All that any element reaches, then cut to what is asked for."""
    x, w, bias = (*inputs, None)[:3]
    shapes = tuple(x.shape[2:]), tuple(w.shape[2:])
    strides, dilations, begins, out = map(as_ints, transposed_window(node.attrs, *shapes))
    convolve = getattr(functional, f"conv_transpose{len(strides)}d")
    y = convolve(x, w, None, strides, 0, 0, node.attrs["group"], dilations)
    ends = [begin + size - full for begin, size, full in zip(begins, out, y.shape[2:])]
    y = _around(y, [-begin for begin in begins], ends, 0.0)
    return y if bias is None else y + bias.reshape(-1, *(1,) * len(out))


@MEANINGS("einsum")
def _summed_products(node: Node, inputs: Sequence[Any]) -> Tensor:
    like = _first(inputs)
    return torch.einsum(node.attrs["equation"], *(tensor(value, like) for value in inputs))


@MEANINGS("matmul")
def _matmul(node: Node, inputs: Sequence[Any]) -> Tensor:
    like = _first(inputs)
    return torch.matmul(tensor(inputs[0], like), tensor(inputs[1], like))


@MEANINGS("gemm")
def _gemm(node: Node, inputs: Sequence[Any]) -> Tensor:
    a, b, c = (*inputs, None)[:3]
    y = node.attrs["alpha"] * ((a.T if node.attrs["transA"] else a) @ (b.T if node.attrs["transB"] else b))
    return y if c is None else y + node.attrs["beta"] * tensor(c, y)


# Windows and reductions


@MEANINGS("resize")
def _resized(node: Node, inputs: Sequence[Any]) -> Tensor:
    """Axis by axis: the nearest elements, or a product with their shares."""
    x, attrs = inputs[0], node.attrs
    if attrs["coordinate_transformation_mode"] == "tf_crop_and_resize":
        raise ProgramError(f"{node.label} has no gradients here")
    blank = np.broadcast_to(np.zeros((), np.int8), tuple(x.shape))
    known = (blank, *(None if value is None else as_array(value) for value in inputs[1:]))
    maps = axis_maps(Run(attrs, known, (None,) * len(known), (None,)), Floats())
    for axis, part in zip(resized_axes(attrs, x.ndim), maps):
        size = x.shape[axis]
        if part.out == size and part.scale == 1:
            continue
        at = coordinates(attrs["coordinate_transformation_mode"], part, size)
        if attrs["mode"] == "nearest":
            x = x.index_select(axis, tensor(nearest(attrs["nearest_mode"], at, size), x).long())
        else:
            shares = tensor(weights(attrs, at, size, part.scale), x)
            x = torch.tensordot(x, shares, ([axis], [1])).movedim(-1, axis)
    return x


@MEANINGS(Pool)
def _pooled(node: Node, inputs: Sequence[Any]) -> Tensor:
    (x,), pool = inputs, node.surely(Pool)
    window = Window.of(node.attrs, tuple(x.shape[2:]))
    n, dilated = len(window.kernel), any(dilation != 1 for dilation in window.dilations)
    if len(node.outputs) > 1 or pool.takes not in ("max", "mean"):
        raise ProgramError(f"{node.label} has no gradients here")
    if pool.takes == "max":
        wide = _around(x, window.begins, window.ends, -math.inf)
        take = getattr(functional, f"max_pool{n}d")
        return take(wide, window.kernel, window.strides, 0, window.dilations)
    included = bool(node.attrs["count_include_pad"])
    if dilated or (included and node.attrs["ceil_mode"]):
        raise ProgramError(f"{node.label} has no gradients here")
    take = getattr(functional, f"avg_pool{n}d")

    def mean(values: Tensor, fill: float) -> Tensor:
        return take(_around(values, window.begins, window.ends, fill), window.kernel, window.strides)

    return mean(x, 0.0) / mean(torch.ones_like(x[:1, :1]), float(included))


@MEANINGS(GlobalPool)
def _whole(node: Node, inputs: Sequence[Any]) -> Tensor:
    (x,), pool = inputs, node.surely(GlobalPool)
    if pool.takes not in ("max", "mean"):
        raise ProgramError(f"{node.label} has no gradients here")
    axes = tuple(range(2, x.ndim))
    return average(_TORCH, x, axes) if pool.takes == "mean" else reduce_over(_TORCH, pool.takes, x, axes)


@MEANINGS(Reduction)
def _reduction(node: Node, inputs: Sequence[Any]) -> Tensor:
    """By the meaning of the op itself."""
    x, axes = (*inputs, None)[:2]
    known = None if axes is None else as_array(axes).reshape(-1)
    return node.surely(Reduction).reduce(_TORCH, x, known, node.attrs)


# Functions of one tensor and of attributes.
_OF_ONE: Mapping[str, Callable[[Tensor, Mapping[str, Any]], Tensor]] = {
    "dropout": lambda x, _: x,
    "elu": lambda x, attrs: functional.elu(x, attrs["alpha"]),
    "identity": lambda x, _: x,
    "leaky_relu": lambda x, attrs: functional.leaky_relu(x, attrs["alpha"]),
    "log_softmax": lambda x, attrs: torch.log_softmax(x, attrs["axis"]),
    "relu": lambda x, _: torch.relu(x),
    "sigmoid": lambda x, _: torch.sigmoid(x),
    "softmax": lambda x, attrs: torch.softmax(x, attrs["axis"]),
}


@MEANINGS(*_OF_ONE)
def _of_one(node: Node, inputs: Sequence[Any]) -> Tensor:
    return _OF_ONE[node.op](inputs[0], node.attrs)


@MEANINGS(Normalization)
def _normalization(node: Node, inputs: Sequence[Any]) -> tuple[Tensor, ...]:
    """By the meaning of the op itself."""
    return node.surely(Normalization).meaning(_TORCH, node.attrs, *inputs)[: len(node.outputs)]


@MEANINGS("lrn")
def _responses(node: Node, inputs: Sequence[Any]) -> Tensor:
    (x,), attrs = inputs, node.attrs
    before, after = (attrs["size"] - 1) // 2, attrs["size"] // 2
    squares = functional.pad((x * x).movedim(1, -1), (before, after)).unfold(-1, attrs["size"], 1).sum(-1)
    return x * (attrs["bias"] + attrs["alpha"] / attrs["size"] * squares.movedim(-1, 1)) ** -attrs["beta"]


@MEANINGS("layer_normalization")
def _layer_normalization(node: Node, inputs: Sequence[Any]) -> Any:
    """Where only its first output is wanted, as PyTorch has it: faster."""
    x, scale, bias = (*inputs, None)[:3]
    if len(node.outputs) > 1:
        return _normalization(node, inputs)
    shape = x.shape[normal_axis(node.attrs["axis"], x.ndim) :]
    y = functional.layer_norm(x, shape, eps=node.attrs["epsilon"]) * scale
    return y if bias is None else y + bias


@MEANINGS("batch_normalization")
def _batch_normalization(node: Node, inputs: Sequence[Any]) -> Tensor:
    x, scale, bias, mean, variance = inputs
    return functional.batch_norm(x, mean, variance, scale, bias, eps=node.attrs["epsilon"])


@MEANINGS("attention")
def _attention(node: Node, inputs: Sequence[Any]) -> Tensor:
    """Of all keys at once: without those of the past, padding, and queries that see no key."""
    attrs, (q, k, v, mask) = node.attrs, (*inputs, None)[:4]
    if any(value is not None for value in inputs[4:]) or len(node.outputs) > 1 or attrs["softcap"]:
        raise ProgramError(f"{node.label} has no gradients here")
    counts = (attrs["q_num_heads"], attrs["kv_num_heads"], attrs["kv_num_heads"])
    heads = [_heads(value, count) for value, count in zip((q, k, v), counts)]
    rows, columns = heads[0].shape[2], heads[1].shape[2]
    bias = None if mask is None else tensor(mask, q)
    if bias is not None and bias.dtype == torch.bool:
        bias = torch.zeros_like(bias, dtype=q.dtype).masked_fill(~bias, -math.inf)
    if bias is not None and bias.shape[-1] < columns:
        bias = functional.pad(bias, (0, columns - bias.shape[-1]), value=-math.inf)
    allowed = positions_allowed(Run(attrs, (None,) * 7, (None,) * 7, (None,)), rows, columns)
    if allowed is not None:
        bias = q.new_zeros(()) if bias is None else bias
        bias = bias.masked_fill(~tensor(allowed, q), -math.inf)
    if bias is not None and bool(torch.isneginf(bias.amax(-1)).any()):
        raise ProgramError(f"{node.label} has queries that see no key, and no gradients for them here")
    sharing = heads[0].shape[1] // heads[1].shape[1]
    q, k, v = heads[0], *(each.repeat_interleave(sharing, 1) for each in heads[1:])
    y = functional.scaled_dot_product_attention(q, k, v, attn_mask=bias, scale=attrs["scale"])
    return _whole_rows(y, inputs[0])


def _heads(x: Tensor, count: int | None) -> Tensor:
    """[N, L, H*D] as [N, H, L, D]."""
    return x if x.ndim == 4 else x.unflatten(2, (count, -1)).transpose(1, 2)


def _whole_rows(heads: Tensor, like: Tensor) -> Tensor:
    """[N, H, L, D] as [N, L, H*D], where another value is so."""
    return heads if like.ndim == 4 else heads.transpose(1, 2).flatten(2)


@MEANINGS("rotary_embedding")
def _rotated(node: Node, inputs: Sequence[Any]) -> Tensor:
    """(a, b) -> (a cos - b sin, a sin + b cos)."""
    attrs, (x, *tables, places) = node.attrs, (*inputs, None)[:4]
    heads = _heads(x, attrs["num_heads"])
    cos, sin = (tensor(table, x) for table in tables)
    if places is not None:
        rows = torch.as_tensor(as_array(places), device=x.device)
        cos, sin = cos[rows], sin[rows]
    cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
    width = attrs["rotary_embedding_dim"] or heads.shape[-1]
    paired = (-1, 2) if attrs["interleaved"] else (2, -1)
    axis = -1 if attrs["interleaved"] else -2
    a, b = heads[..., :width].unflatten(-1, paired).unbind(axis)
    turned = torch.stack((cos * a - sin * b, sin * a + cos * b), axis).flatten(-2)
    turned = torch.cat((turned, heads[..., width:]), -1)
    return _whole_rows(turned, x)


# Elements


# Of the largest power of e in float32.
_LARGEST_EXPONENT = 88.0


class _Torch(Operators):
    """PyTorch's arithmetic; see `formula.arith.Arith`."""

    exact = False

    matmul = staticmethod(torch.matmul)

    def const(self, value: Any, like: Tensor | None = None) -> Tensor:
        assert like is not None
        value = value.constant if isinstance(value, Poly) else value
        return torch.as_tensor(value, dtype=like.dtype, device=like.device)

    def call(self, function: str, *args: Tensor) -> Tensor:
        if function == "exp":  # infinite, that of a sigmoid's 1 + exp(-x) would have no gradient
            args = (args[0].clamp(max=_LARGEST_EXPONENT),)
        return getattr(torch, "remainder" if function == "mod" else function)(*args)

    def compare(self, relation: str, a: Tensor, b: Tensor) -> Tensor:
        return getattr(torch, "eq" if relation == "equal" else relation)(a, b)


_TORCH = _Torch()


@MEANINGS(Elementwise)
def _elementwise(node: Node, inputs: Sequence[Any]) -> Tensor:
    """By the meaning of the op itself."""
    like = _first(inputs)
    operands = tuple(None if value is None else tensor(value, like) for value in inputs)
    known = tuple(_known(value) for value in inputs)
    return node.surely(Elementwise).value(_TORCH, Symbolic(node.attrs, (), known), *operands)


def _known(value: Any) -> Array | None:
    learns = isinstance(value, torch.Tensor) and (value.requires_grad or value.numel() > 1)
    return None if value is None or learns else as_array(value)


@MEANINGS("cast")
def _cast(node: Node, inputs: Sequence[Any]) -> Tensor:
    """Floats of any width are what they were; anything else is known beside what learns."""
    (x,) = inputs
    if TensorType(onnx_dtype(node.attrs["to"]), None).floating:
        return x if x.is_floating_point() else x.to(torch.float32)
    if x.requires_grad:
        raise ProgramError(f"{node.label} has no gradients here")
    return _moves(node, as_array(x), ())[0]


@MEANINGS(Recurrent)
def _recurrent(node: Node, inputs: Sequence[Any]) -> tuple[Tensor, ...]:
    """By the meaning of the op itself, step by step."""
    arrays = Stacks(torch.matmul, torch.stack, lambda shape, like: like.new_zeros(shape))
    if len(inputs) > 4 and inputs[4] is not None:
        lengths = torch.as_tensor(as_array(inputs[4]), device=_first(inputs).device)
        inputs = (*inputs[:4], lengths, *inputs[5:])
    return node.surely(Recurrent).fold(inputs, node.attrs, _TORCH, arrays)[: len(node.outputs)]


# Grids


def onto_grid(x: Tensor, scale: Tensor, low: float, high: float) -> Tensor:
    """The nearest of scale * (low .. high), whose gradients are those of learned step sizes."""
    codes = torch.clamp(x / scale, low, high)
    return (codes + (torch.round(codes) - codes).detach()) * scale


@MEANINGS(OnGrid)
def _on_grid(node: Node, inputs: Sequence[Any]) -> Tensor:
    x, scale, zero = (*inputs, None)[:3]
    if not encodes(node):
        if not isinstance(x, torch.Tensor):
            raise ProgramError(f"{node.label} is of codes that do not learn")
        return x
    bounds = None if zero is None else integer_range(TensorType.of(zero).dtype)
    steps = as_array(scale).reshape(-1)
    if bounds is None or np.size(zero) != 1 or steps.size != 1:
        raise ProgramError(f"{node.label} has no gradients here")
    offset = float(np.asarray(zero).reshape(-1)[0])
    low, high = bounds[0] - offset, bounds[1] - offset
    if torch.is_grad_enabled():
        return functional.hardtanh(x, low * float(steps[0]), high * float(steps[0]))
    return onto_grid(x, scale, low, high)
