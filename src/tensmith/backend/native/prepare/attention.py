"""Attention and rotary position embedding as the small ops that older exporters write, which kernels know.

attention    transposes of heads, softmax(q k^T * scale + bias) v; a query that sees no key gets zeros
rotary       (a, b) -> (a cos - b sin, a sin + b cos) on slices of the features
"""

from __future__ import annotations

import math

import numpy as np

from tensmith.ir import Node
from tensmith.ir.builder import ProgramBuilder
from tensmith.kernel.view import Shape


def attention(builder: ProgramBuilder, node: Node, shape: Shape) -> bool:
    """Without keys of the past, padding and windows; only y is made."""
    attrs, name = node.attrs, node.output
    windows = attrs["left_window_size"] >= 0 or attrs["right_window_size"] >= 0
    if any(node.inputs[4:]) or any(node.outputs[1:]) or windows:
        return False
    heads = (attrs["q_num_heads"], attrs["kv_num_heads"], attrs["kv_num_heads"])
    parts = [
        _heads(builder, value, count, f"{name} {letter}")
        for value, count, letter in zip(node.inputs, heads, "qkv")
    ]
    if any(part is None for part in parts):
        return False
    (q, q_shape), (k, k_shape), (v, v_shape) = (part for part in parts if part is not None)
    k, v = (
        _repeated(builder, value, size, q_shape[1] // size[1], f"{value} repeated")
        for value, size in ((k, k_shape), (v, v_shape))
    )
    rows, columns = q_shape[2], k_shape[2]
    turned = builder.add("transpose", (k,), f"{name} k turned", perm=(0, 1, 3, 2))
    scores = builder.add("matmul", (q, turned), f"{name} products")
    scale = 1 / math.sqrt(q_shape[3]) if attrs["scale"] is None else attrs["scale"]
    factor = builder.constant(f"{name} scale", np.array(scale, np.float32))
    scores = builder.add("mul", (scores, factor), f"{name} scores")
    if attrs["softcap"]:
        cap = builder.constant(f"{name} cap", np.array(attrs["softcap"], np.float32))
        bent = builder.add("tanh", (builder.add("div", (scores, cap), f"{name} bent"),), f"{name} tanh")
        scores = builder.add("mul", (bent, cap), f"{name} capped")
    mask = node.operand(3)
    if mask and (builder.program.type(mask).static or ())[-1:] != (columns,):
        return False
    if attrs["is_causal"]:
        later = np.triu(np.full((rows, columns), -np.inf, np.float32), 1)
        scores = builder.add("add", (scores, builder.constant(f"{name} later", later)), f"{name} causal")
    weights = _weights(builder, scores, mask, name)
    whole = builder.add("matmul", (weights, v), f"{name} heads" if len(shape) == 3 else name)
    if len(shape) == 3:
        back = builder.add("transpose", (whole,), f"{name} joined", perm=(0, 2, 1, 3))
        builder.reshape(back, (shape[0], rows, q_shape[1] * v_shape[3]), name)
    return True


def _heads(builder: ProgramBuilder, value: str, heads: int | None, name: str) -> tuple[str, Shape] | None:
    """[N, L, H*D] as [N, H, L, D]."""
    shape = builder.program.type(value).static
    if shape is None or (len(shape) == 3 and not heads):
        return None
    if len(shape) == 4:
        return value, shape
    n, length, width = shape
    assert heads is not None
    split = builder.reshape(value, (n, length, heads, width // heads), f"{name} split")
    turned = builder.add("transpose", (split,), f"{name} heads", perm=(0, 2, 1, 3))
    return turned, (n, heads, length, width // heads)


def _repeated(builder: ProgramBuilder, value: str, shape: Shape, times: int, name: str) -> str:
    """Every head as often as there are queries that share it."""
    if times == 1:
        return value
    n, heads, length, depth = shape
    single = builder.reshape(value, (n, heads, 1, length, depth), f"{name} single")
    sizes = builder.constant(f"{name} sizes", np.array([n, heads, times, length, depth], np.int64))
    many = builder.add("expand", (single, sizes), f"{name} many")
    return builder.reshape(many, (n, heads * times, length, depth), name)


def _weights(builder: ProgramBuilder, scores: str, mask: str, name: str) -> str:
    """softmax(scores + mask); zeros where a whole row of the mask is -inf."""
    if not mask:
        return builder.add("softmax", (scores,), f"{name} weights")
    never = builder.constant(f"{name} never", np.array(-np.inf, np.float32))
    zero = builder.constant(f"{name} zero", np.array(0, np.float32))
    bias = mask
    if builder.program.type(mask).dtype == "bool":
        bias = builder.add("where", (mask, zero, never), f"{name} bias")
    biased = builder.add("add", (scores, bias), f"{name} biased")
    shares = builder.add("softmax", (biased,), f"{name} shares")
    last = builder.constant(f"{name} last", np.array([-1], np.int64))
    most = builder.add("reduce_max", (biased, last), f"{name} most")
    blind = builder.add("equal", (most, never), f"{name} blind")
    return builder.add("where", (blind, zero, shares), f"{name} weights")


def rotary(builder: ProgramBuilder, node: Node, shape: Shape) -> bool:
    """Of 4-D inputs, or of 3-D ones with num_heads."""
    name, attrs = node.output, node.attrs
    found = _heads(builder, node.inputs[0], attrs["num_heads"], name)
    if found is None:
        return False
    x, (n, heads, length, depth) = found
    width = attrs["rotary_embedding_dim"] or depth
    half, step = width // 2, 2 if attrs["interleaved"] else 1
    tables = []
    for table, word in zip(node.inputs[1:3], ("cos", "sin")):
        if places := node.operand(3):
            table = builder.add("gather", (table, places), f"{name} {word} rows")
        tables.append(builder.reshape(table, (n, 1, length, half), f"{name} {word}"))
    starts = (0, 1) if step == 2 else (0, half)
    a, b = (
        _features(builder, x, start, width if step == 2 else start + half, step, f"{name} from {start}")
        for start in starts
    )
    products = {
        (word, part): builder.add("mul", (table, value), f"{name} {word} {part}")
        for word, table in zip(("cos", "sin"), tables)
        for part, value in (("a", a), ("b", b))
    }
    real = builder.add("sub", (products["cos", "a"], products["sin", "b"]), f"{name} real")
    imaginary = builder.add("add", (products["sin", "a"], products["cos", "b"]), f"{name} imaginary")
    if step == 2:
        real, imaginary = (
            builder.reshape(part, (n, heads, length, half, 1), f"{part} column") for part in (real, imaginary)
        )
    turned = builder.add("concat", (real, imaginary), f"{name} pairs", axis=-1)
    if step == 2:
        turned = builder.reshape(turned, (n, heads, length, width), f"{name} turned")
    if width < depth:
        kept = _features(builder, x, width, depth, 1, f"{name} kept")
        turned = builder.add("concat", (turned, kept), f"{name} whole", axis=-1)
    if len(shape) == 3:
        turned = builder.add("transpose", (turned,), f"{name} joined", perm=(0, 2, 1, 3))
    builder.reshape(turned, shape, name)
    return True


def _features(builder: ProgramBuilder, value: str, start: int, stop: int, step: int, name: str) -> str:
    """value[..., start:stop:step]."""
    bounds = [
        builder.constant(f"{name} {word}", np.array([number], np.int64))
        for word, number in (("start", start), ("stop", stop), ("axis", -1), ("step", step))
    ]
    return builder.add("slice", (value, *bounds), name)
