"""Decoders as exporters write them, and wrong ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

VOCABULARY, WIDTH, HEADS, MOST = 31, 16, 2, 64
HEAD = WIDTH // HEADS


def decoder(
    path: Path,
    *,
    mask: str = "compared",
    merged: bool = False,
    causal: bool = True,
    ahead: int = 0,
    scaled: int = 0,
    word: float = 0.0,
    most: int = MOST,
    small: bool = False,
) -> Path:
    """Two layers of attention over learned positions, as exporters write them.

    mask: -inf in a triangle, expanded or filled, or chosen by comparing positions, or sliced from a table, as
    positions are then. merged: products on [batch * length, width]. ahead: what is so far ahead is seen.
    scaled: queries grow with the length beyond so many tokens. word: added to the last logit. most: tokens
    that there are positions for. small: these are counted in 32 bits.
    """
    random = np.random.default_rng(0)
    nodes: list[onnx.NodeProto] = []
    arrays: dict[str, np.ndarray] = {}

    def constant(name: str, value: object) -> str:
        arrays[name] = np.asarray(value)
        return name

    def weight(name: str, *shape: int) -> str:
        return constant(name, (random.standard_normal(shape) / np.sqrt(shape[0])).astype(np.float32))

    def add(op: str, *inputs: str, **attrs: object) -> str:
        name = f"{op}_{len(nodes)}"
        nodes.append(helper.make_node(op, inputs, [name], **attrs))
        return name

    def product(x: str, w: str, out: int) -> str:
        if not merged:
            return add("MatMul", x, w)
        flat = add("Reshape", x, constant("flat", np.array([-1, WIDTH])))
        made = add("Gemm", flat, w, constant("bias", np.zeros(WIDTH, np.float32)))
        return add("Reshape", made, add("Concat", batch, length, constant("width", np.array([out])), axis=0))

    one, zero = constant("one", np.array([1])), constant("zero", np.array([0]))
    batch = add("Shape", "ids", start=0, end=1)
    length = add("Shape", "ids", start=1, end=2)
    count = add("Squeeze", length, zero)
    kind = np.int32 if small else np.int64
    count = add("Cast", count, to=TensorProto.INT32) if small else count
    places = add("Range", constant("start", kind(0)), count, constant("step", kind(1)))
    x = add("Gather", weight("words", VOCABULARY, WIDTH), "ids")
    table = weight("positions", most, WIDTH)
    here = add("Slice", table, zero, length, zero) if mask == "sliced" else add("Gather", table, places)
    x = add("Add", x, here)
    square = add("Concat", length, length, axis=0)
    if mask in ("triangle", "filled"):
        never = constant("never", np.array(-np.inf, np.float32))
        full = add("Expand", never, square)
        if mask == "filled":
            value = numpy_helper.from_array(np.array([-np.inf], np.float32))
            full = add("ConstantOfShape", square, value=value)
        hidden = add("Trilu", full, constant("above", np.array(1)), upper=1)
    elif mask == "sliced":
        later = constant("later", np.triu(np.full((most, most), -3e38, np.float32), 1))
        hidden = add("Slice", later, constant("corner", np.array([0, 0])), square)
    else:
        rows, columns = add("Unsqueeze", places, one), add("Unsqueeze", places, zero)
        seen = add("LessOrEqual", columns, rows) if causal else add("GreaterOrEqual", columns, rows)
        if ahead:
            far = add("Add", rows, constant("far", np.array(ahead)))
            seen = add("Or", seen, add("GreaterOrEqual", columns, far))
        no = constant("no", np.array(-3e38, np.float32))
        hidden = add("Where", seen, constant("yes", np.array(0, np.float32)), no)
    split = constant("split", np.array([0, 0, HEADS, HEAD]))
    joined = constant("joined", np.array([0, 0, WIDTH]))
    for layer in range(2):
        normal = add("LayerNormalization", x, constant(f"scale{layer}", np.ones(WIDTH, np.float32)), axis=-1)
        parts = [product(normal, weight(f"{part}{layer}", WIDTH, WIDTH), WIDTH) for part in "qkv"]
        q, k, v = (add("Transpose", add("Reshape", part, split), perm=[0, 2, 1, 3]) for part in parts)
        if scaled:
            least = constant("least", np.float32(scaled))
            share = add("Div", add("Cast", count, to=TensorProto.FLOAT), least)
            q = add("Mul", q, add("Max", share, constant("1", np.float32(1))))
        scores = add("MatMul", q, add("Transpose", k, perm=[0, 1, 3, 2]))
        shares = add("Softmax", add("Add", scores, hidden), axis=-1)
        found = add("Reshape", add("Transpose", add("MatMul", shares, v), perm=[0, 2, 1, 3]), joined)
        x = add("Add", x, product(found, weight(f"o{layer}", WIDTH, WIDTH), WIDTH))
    last = np.where(np.arange(VOCABULARY) == VOCABULARY - 1, word, 0).astype(np.float32)
    logits = add("MatMul", x, weight("head", WIDTH, VOCABULARY))
    nodes.append(helper.make_node("Add", [logits, constant("last", last)], ["logits"]))
    graph = helper.make_graph(
        nodes, "decoder",
        [helper.make_tensor_value_info("ids", TensorProto.INT64, ["batch", "length"])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", "length", VOCABULARY])],
        [numpy_helper.from_array(array, name) for name, array in arrays.items()],
    )  # fmt: skip
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), path)
    return path
