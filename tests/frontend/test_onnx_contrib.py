"""Operators of ONNX Runtime's own tools are read as what ONNX Runtime computes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper

from tensmith.backend.onnx import to_onnx
from tensmith.formula.arith import Array
from tensmith.frontend.onnx import read_onnx
from tensmith.ir import Program
from tensmith.ir.interpreter import interpret

MICROSOFT = "com.microsoft"
OPSETS = (13, 17, 18, 20, 23)


def one_node(
    op_type: str,
    inputs: Sequence[Array | None],
    outputs: Sequence[str] = ("y0",),
    *,
    opset: int = 17,
    domain: str = MICROSOFT,
    constants: Collection[int] = (),
    own_opset: int | None = None,
    sizes: Mapping[str, Sequence[int | str]] = MappingProxyType({}),
    **attributes: Any,
) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """A model of one node whose inputs of the numbers `constants` are its own, and what to give it."""
    names = ["" if array is None else f"x{number}" for number, array in enumerate(inputs)]
    node = helper.make_node(op_type, names, list(outputs), name="node", domain=domain, **attributes)
    if own_opset is not None:
        node.attribute.append(helper.make_attribute("opset", own_opset))
    fed: dict[str, Array] = {}
    inner = []
    for number, (name, array) in enumerate(zip(names, inputs)):
        if array is not None and number not in constants:
            fed[name] = array
        elif array is not None:
            inner.append(onnx.numpy_helper.from_array(array, name))
    values = [
        helper.make_tensor_value_info(
            name,
            helper.np_dtype_to_tensor_dtype(array.dtype),
            sizes.get(name) or [f"{name}_{axis}" for axis in range(array.ndim)],
        )
        for name, array in fed.items()
    ]
    asked = [helper.make_empty_tensor_value_info(name) for name in outputs if name]
    graph = helper.make_graph([node], "one", values, asked, inner)
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid(MICROSOFT, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8), fed


def answers(model: onnx.ModelProto, fed: Mapping[str, Array]) -> list[Array]:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return list(session.run(None, dict(fed)))


def opaque(program: Program) -> list[str]:
    return [node.op for node in program.nodes if node.opaque is not None]


def reads(
    op_type: str,
    inputs: Sequence[Array | None],
    outputs: Sequence[str] = ("y0",),
    steps: int = 0,
    **options: Any,
) -> Program:
    """Reads a model of one node, and compares with ONNX Runtime, which runs what is written again too.

    steps: by how much codes may differ.
    """
    model, fed = one_node(op_type, inputs, outputs, **options)
    want = answers(model, fed)
    program = read_onnx(model)
    assert opaque(program) == []
    found = interpret(program, fed)
    for name, array, again in zip(program.outputs, want, answers(to_onnx(program), fed), strict=True):
        for got in (found[name], again):
            assert got.dtype == array.dtype and got.shape == array.shape
            exact = 3e-3 if array.dtype == np.float16 else 2e-5
            if array.dtype.kind in "iu":
                assert np.abs(got.astype(int) - array.astype(int)).max(initial=0) <= steps
            else:
                largest = np.abs(array[np.isfinite(array)]).max(initial=1)  # of sums
                np.testing.assert_allclose(got, array, rtol=exact, atol=exact * largest)
    return program


def stays(
    op_type: str, inputs: Sequence[Array | None], outputs: Sequence[str] = ("y0",), **options: Any
) -> None:
    """Such a use is not read."""
    model, _ = one_node(op_type, inputs, outputs, **options)
    for value in model.graph.output:
        value.type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    assert opaque(read_onnx(model)) == [f"{options.get('domain', MICROSOFT) or 'onnx'}.{op_type}"]


def normal(*shape: int, seed: int = 0, dtype: Any = np.float32) -> Array:
    return np.random.default_rng([seed, *shape]).normal(size=shape).astype(dtype)


@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.parametrize("shape", [(), (7,), (2, 3, 5)])
def test_activations(opset: int, shape: tuple[int, ...]) -> None:
    x = np.asarray(3 * normal(*shape))
    reads("Gelu", [x], opset=opset)
    reads("QuickGelu", [x], opset=opset)
    reads("QuickGelu", [x], opset=opset, alpha=1.0)
    reads("QuickGelu", [x], opset=opset, alpha=-0.3)
    if shape:
        reads("FastGelu", [x], opset=opset)
        reads("FastGelu", [x, normal(shape[-1])], opset=opset)
        reads("BiasGelu", [x, normal(shape[-1])], opset=opset)


@pytest.mark.parametrize("opset", OPSETS)
def test_fused_matmul(opset: int) -> None:
    for first, second in [
        ((3, 4), (4, 5)),
        ((2, 3, 4), (4, 5)),
        ((2, 3, 4), (2, 4, 5)),
        ((6, 2, 3, 4), (2, 4, 5)),
    ]:
        for turned_a in (0, 1):
            for turned_b in (0, 1):
                a, b = normal(*first), normal(*second, seed=1)
                a = np.swapaxes(a, -1, -2) if turned_a else a
                b = np.swapaxes(b, -1, -2) if turned_b else b
                reads("FusedMatMul", [a, b], opset=opset, transA=turned_a, transB=turned_b, alpha=0.125)
    reads("FusedMatMul", [normal(4), normal(4, 5)], opset=opset)
    stays("FusedMatMul", [normal(2, 3, 4), normal(2, 4, 5)], transBatchA=1)
    stays("FusedMatMul", [normal(4), normal(4, 5)], transA=1)


@pytest.mark.parametrize("opset", OPSETS)
def test_layer_normalization_of_sums(opset: int) -> None:
    """The standard has LayerNormalization since opset 17, and ONNX Runtime had it before."""
    for shape in [(2, 3, 8), (5, 8)]:
        x, skip = normal(*shape), normal(*shape, seed=1)
        scale, shift, bias = (normal(8, seed=seed) for seed in (2, 3, 4))
        every = ("y0", "", "", "y3")
        reads("SkipLayerNormalization", [x, skip, scale], opset=opset)
        reads("SkipLayerNormalization", [x, skip, scale, shift], opset=opset, epsilon=0.25)
        reads("SkipLayerNormalization", [x, skip, scale, shift, bias], every, opset=opset)
        reads("SkipLayerNormalization", [x, skip, scale, None, bias], every, opset=opset)
        reads("SkipSimplifiedLayerNormalization", [x, skip, scale], opset=opset, epsilon=0.25)
        reads("SkipSimplifiedLayerNormalization", [x, skip, scale, bias], every, opset=opset)
        for axis in (-1, len(shape) - 1):
            reads("SimplifiedLayerNormalization", [x, scale], opset=opset, domain="", axis=axis, epsilon=0.5)
        reads("LayerNormalization", [x, scale, shift], opset=opset, domain="", epsilon=0.125)
    reads("SkipLayerNormalization", [normal(2, 3, 8), normal(3, 8), normal(8)], opset=opset)
    stays(
        "SkipLayerNormalization", [normal(1, 3, 8), normal(2, 3, 8), normal(8)], constants=(0, 1), opset=opset
    )
    reads("SkipLayerNormalization", [normal(2, 3, 8), normal(1, 3, 8), normal(8)], opset=opset)
    reads("SimplifiedLayerNormalization", [normal(2, 3, 8), normal(3, 8)], opset=opset, domain="", axis=1)
    stays("SkipLayerNormalization", [normal(2, 3, 8), normal(2, 3, 8), normal(8)], ("y0", "y1"))


@pytest.mark.parametrize("opset", OPSETS)
def test_embeddings(opset: int) -> None:
    random = np.random.default_rng(0)
    words = random.integers(0, 11, (2, 5)).astype(np.int32)
    segments = random.integers(0, 2, (2, 5)).astype(np.int32)
    mask = np.array([[1, 1, 0, 0, 1], [1, 1, 1, 1, 0]], np.int32)
    tables = [normal(11, 8), normal(7, 8), normal(2, 8)]
    scale, shift = normal(8, seed=1), normal(8, seed=2)
    every = ("y0", "y1", "y2")
    name = "EmbedLayerNormalization"
    for ins, outs, own in [
        ([words, segments, *tables, scale, shift, mask], every[:2], {}),
        ([words, segments, *tables, scale, shift], every, {"epsilon": 0.1}),
        ([words, None, *tables[:2], None, scale, shift, mask], every, {"mask_index_type": 1}),
        ([words, segments, *tables, scale, shift, None, words % 7], every, {}),
        ([words, segments, *tables, scale, shift, None, words[:1] % 7], every, {}),
    ]:
        reads(name, ins, outs, opset=opset, constants=range(2, 7), **own)


@pytest.mark.parametrize("opset", OPSETS)
def test_products_with_activations(opset: int) -> None:
    x, w, bias = normal(2, 4, 7, 6), normal(6, 2, 3, 2), normal(6)
    window = {"group": 2, "strides": [2, 1], "pads": [1, 0, 1, 1], "kernel_shape": [3, 2]}
    for name, params in [("Relu", []), ("Tanh", []), ("Sigmoid", []), ("LeakyRelu", [0.3]),
                         ("HardSigmoid", [0.3, 0.4]), ("Clip", [-0.5, 0.75])]:  # fmt: skip
        bends = {"activation": name, **({"activation_params": params} if params else {})}
        reads("FusedConv", [x, w, bias], opset=opset, **window, **bends)
        reads("FusedConv", [x, w], opset=opset, **window, **bends)
    reads("FusedConv", [x, w, bias, normal(2, 6, 4, 6)], opset=opset, activation="Relu", **window)
    stays("FusedConv", [x, w, bias], activation="Sparkle")
    stays("FusedConv", [x, w, bias], activation="Relu", auto_pad="SAME_UPPER")  # of open sizes
    a, b, c = normal(3, 4), normal(5, 4), normal(5)
    product = {"opset": opset, "transB": 1}
    for name, numbers in [("Relu", []), ("Tanh", []), ("Sigmoid", []), ("LeakyRelu", [0.3]),
                          ("HardSigmoid", [0.3, 0.4])]:  # fmt: skip
        bends = dict(zip(("activation_alpha", "activation_beta"), numbers))
        reads("FusedGemm", [a, b, c], activation=name, alpha=0.5, beta=2.0, **product, **bends)
        reads("FusedGemm", [a, b], activation=name, **product, **bends)
    stays("FusedGemm", [a, b, c], activation="Relu", transB=1, activation_gamma=1.0)


def codes(dtype: Any, *shape: int, seed: int = 0) -> Array:
    info = np.iinfo(dtype)
    return np.random.default_rng([seed, *shape]).integers(info.min, info.max + 1, shape).astype(dtype)


def scale(value: float) -> Array:
    return np.array(value, np.float32)


GRIDS = st.tuples(
    st.sampled_from([np.uint8, np.int8]),
    st.lists(st.floats(2**-9, 2**-4, width=32), min_size=3, max_size=3),
    st.lists(st.integers(0, 127), min_size=3, max_size=3),
    st.integers(0, 1000),
)


@settings(max_examples=25, deadline=None)
@given(GRIDS)
def test_functions_of_codes(grids: tuple[Any, list[float], list[int], int]) -> None:
    """What ONNX Runtime computes; a number between two codes may become either where it was computed."""
    dtype, scales, zeros, seed = grids
    grid = [(scale(one), np.array(zero, dtype)) for one, zero in zip(scales, zeros)]
    a, b = codes(dtype, 2, 3, 5, seed=seed), codes(dtype, 3, 1, seed=seed)
    for name in ("QLinearAdd", "QLinearMul"):
        reads(name, [a, *grid[0], b, *grid[1], *grid[2]], steps=1)
        reads(name, [a, *grid[0], b, *grid[1], *grid[2]], steps=1, constants=(1, 2, 4, 5, 6, 7))
    reads("QLinearLeakyRelu", [a, *grid[0], *grid[1]], steps=1, alpha=0.2, constants=(1, 2, 3, 4))
    reads("QLinearSigmoid", [a, *grid[0], scale(1 / 256), grid[1][1]], steps=1)
    reads("QLinearWhere", [a > 0, a, *grid[0], codes(dtype, 5), *grid[1], *grid[2]], constants=range(2, 9))
    parts = [codes(dtype, 2, size, 4, seed=seed) for size in (3, 2)]
    reads(
        "QLinearConcat",
        [*grid[2], parts[0], *grid[0], parts[1], *grid[1]],
        constants=(0, 1, 3, 4, 6, 7),
        axis=1,
    )


@settings(max_examples=15, deadline=None)
@given(GRIDS, st.integers(1, 3), st.integers(1, 2), st.integers(0, 1), st.booleans())
def test_means_of_codes(
    grids: tuple[Any, list[float], list[int], int], size: int, stride: int, pad: int, counted: bool
) -> None:
    """A code may be the next one where a mean lies between two."""
    dtype, scales, zeros, seed = grids
    (fine, zero), (coarse, end) = [(scale(one), np.array(zero, dtype)) for one, zero in zip(scales, zeros)][
        :2
    ]
    x = codes(dtype, 2, 3, 6, 7, seed=seed)
    window = {"kernel_shape": [size, size], "strides": [stride, stride], "pads": [min(pad, size - 1)] * 4}
    inputs = [x, fine, zero, coarse, end]
    own = {"steps": 1, "constants": (1, 2, 3, 4)}
    reads("QLinearAveragePool", inputs, count_include_pad=int(counted), **window, **own)
    reads("QLinearGlobalAveragePool", inputs, **own)
    low = np.array(np.iinfo(dtype).min, dtype)
    for axis in (-1, 1):
        soft = [x, fine, zero, scale(1 / 256), low]
        reads("QLinearSoftmax", soft, axis=axis, own_opset=13, **own)


def test_means_of_codes_that_stay() -> None:
    x, grid = codes(np.int8, 2, 3, 6, 7), [scale(0.1), np.array(1, np.int8)]
    stays("QLinearGlobalAveragePool", [x, *grid, *grid], channels_last=1)
    soft = [x, *grid, scale(1 / 256), np.array(-128, np.int8)]
    stays("QLinearSoftmax", soft, own_opset=13)  # a scale that is not known
    stays("QLinearSoftmax", soft, own_opset=12, axis=1, constants=(3, 4))
    stays("QLinearSoftmax", [*soft[:3], scale(0.004), soft[4]], own_opset=13, constants=(3, 4))
    stays("QLinearSoftmax", [*soft[:3], scale(0.0), soft[4]], own_opset=13, constants=(3, 4))
    stays("QLinearAdd", [x, np.full(7, 0.1, np.float32), grid[1], x, *grid, *grid])
    stays("QLinearSigmoid", [x, *grid, scale(1 / 256)])


@settings(max_examples=15, deadline=None)
@given(GRIDS, st.booleans(), st.booleans(), st.booleans(), st.sampled_from([1.0, 0.5]))
def test_products_of_codes(
    grids: tuple[Any, list[float], list[int], int], each: bool, turned: bool, biased: bool, alpha: float
) -> None:
    dtype, scales, zeros, seed = grids
    a, w = codes(dtype, 4, 9, seed=seed), codes(np.int8, 9, 5, seed=seed)
    random = np.random.default_rng(seed)
    of_columns = random.uniform(0.001, 0.01, 5).astype(np.float32) if each else scale(scales[1])
    bias = random.integers(-2000, 2000, 5).astype(np.int32) if biased else None
    zero = np.zeros(of_columns.shape, np.int8)
    w = w.T if turned else w
    inputs = [a, scale(scales[0]), np.array(zeros[0], dtype), w, of_columns, zero, bias]
    own = {"transB": int(turned), "alpha": alpha, "constants": range(1, 9)}
    reads("QGemm", inputs, **own)
    reads("QGemm", [*inputs, scale(scales[2] * 4), np.array(zeros[2], dtype)], steps=1, **own)


def test_products_of_codes_that_stay() -> None:
    a, w, zero = codes(np.uint8, 4, 9), codes(np.int8, 9, 5), np.array(3, np.uint8)
    grid, each = [scale(0.1), zero], np.full(5, 0.01, np.float32)
    stays("QGemm", [a, *grid, w, scale(0.1), np.zeros(5, np.int8)])
    stays("QGemm", [a, *grid, w, each, np.zeros(5, np.int8), np.zeros((4, 1), np.int32)])


@settings(max_examples=15, deadline=None)
@given(st.sampled_from([np.uint8, np.int8]), st.booleans(), st.booleans(), st.booleans(), st.integers(0, 99))
def test_products_of_codes_in_floats(dtype: Any, each: bool, zeros: bool, biased: bool, seed: int) -> None:
    random = np.random.default_rng(seed)
    w = codes(dtype, 9, 5, seed=seed)
    of_columns = random.uniform(0.001, 0.01, 5).astype(np.float32) if each else scale(0.01)
    zero = random.integers(0, 9, of_columns.shape).astype(dtype) if zeros else None
    bias = normal(5, seed=seed) if biased else None
    for shape in ((4, 9), (2, 3, 9)):
        x = normal(*shape, seed=seed)
        reads("DynamicQuantizeMatMul", [x, w, of_columns, zero, bias], constants=(1, 2, 3, 4))
        a, a_zero = codes(np.uint8, *shape, seed=seed), np.array(7, np.uint8) if zeros else None
        inputs = [a, w, scale(0.02), of_columns, a_zero, zero, bias]
        reads("MatMulIntegerToFloat", inputs, constants=(1, 3, 5, 6))
        reads("MatMulIntegerToFloat", inputs, constants=range(1, 7))


def test_products_of_codes_in_floats_that_stay() -> None:
    w, each = codes(np.int8, 2, 9, 5), np.full((2, 1, 5), 0.01, np.float32)
    stays("DynamicQuantizeMatMul", [normal(2, 4, 9), w, each, None, None], constants=(1, 2))


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize("each", [False, True])
def test_attention_of_codes(each: bool, dtype: Any, known: bool) -> None:
    random = np.random.default_rng(0)
    a, w = codes(np.uint8, 2, 5, 8), codes(dtype, 8, 24)
    of_columns = random.uniform(0.001, 0.01, 24).astype(np.float32) if each else scale(0.01)
    zero = np.zeros(of_columns.shape, dtype)
    seen = (np.arange(5) < [[4], [2]]).astype(np.int32)
    for mask, sizes in [(None, ()), (np.array([5, 3], np.int32), ["b"]), (seen, ["b", "s"])]:
        inputs = [a, w, normal(24), scale(0.02), of_columns, mask, np.array(100, np.uint8), zero]
        own: dict[str, Any] = {
            "num_heads": 2, "constants": (1, 2, 3, 4, 6, 7) if known else (1, 2, 4, 7),
            "sizes": {"x0": ["b", "s", 8], "x5": sizes},
        }  # fmt: skip
        reads("QAttention", inputs, **own)
        reads("QAttention", inputs, unidirectional=1, **own)
    stays("QAttention", [*inputs, np.zeros((2, 2, 2, 4, 4), np.float32)], **own)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("segmented", [False, True])
@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_embeddings_of_codes(dtype: Any, segmented: bool, masked: bool) -> None:
    random = np.random.default_rng(0)
    ids, segments = (random.integers(0, size, (3, 4)).astype(np.int32) for size in (11, 2))
    tables = [codes(dtype, size, 8) for size in (11, 6, 2)]
    ends = [codes(dtype, 8, seed=number) for number in (1, 2)]
    scales = [scale(one) for one in (0.01, 0.02, 0.03, 0.01, 0.02)]
    zeros = [np.array(zero, dtype) for zero in (3, 4, 5, 6, 7)]
    mask = (np.arange(4) < [[4], [2], [1]]).astype(np.int32) if masked else None
    if not segmented:
        segments = tables[2] = scales[2] = zeros[2] = None
    inputs = [ids, segments, *tables, *ends, mask, *scales, *zeros]
    reads("QEmbedLayerNormalization", inputs, ["y0", "y1"], constants=(*range(2, 7), *range(8, 18)))


@pytest.mark.parametrize("opset", OPSETS)
def test_grids(opset: int) -> None:
    x = 3 * normal(4, 6)
    for dtype in (np.uint8, np.int8, np.uint16, np.int16):
        zero = np.array(3, dtype)
        reads("QuantizeLinear", [x, scale(0.1), zero], opset=opset)
        reads("DequantizeLinear", [codes(dtype, 4, 6), scale(0.1), zero], opset=opset)
        many, zeros = np.linspace(0.1, 0.3, 4, dtype=np.float32), np.arange(4).astype(dtype)
        reads("QuantizeLinear", [x, many, zeros], opset=opset, axis=0)
        reads("DequantizeLinear", [codes(dtype, 4, 6), many, zeros], opset=opset, axis=0)
    reads("QuantizeLinear", [x, scale(0.1)], opset=opset)
    reads("DequantizeLinear", [codes(np.int32, 4, 6), scale(0.1)], opset=opset)


@pytest.mark.parametrize("opset", OPSETS)
def test_attention(opset: int) -> None:
    x, weights, bias = normal(3, 6, 16), 0.3 * normal(16, 48), normal(48)
    lengths = np.array([6, 4, 1], np.int32)
    seen = (np.arange(6) < lengths[:, None]).astype(np.int32)
    holes = np.random.default_rng(0).integers(-1, 3, (3, 6, 6)).astype(np.int32)
    holes[:, :, 0] = 1  # scores that are all far below 0 are coarse
    sizes: dict[str, Sequence[int | str]] = {"x0": ["b", "s", 16]}
    own = {"opset": opset, "constants": (1, 2), "num_heads": 2}
    reads("Attention", [x, weights, bias], sizes=sizes, **own)
    reads("Attention", [x, weights, None], sizes=sizes, scale=0.7, **own)
    masks = [(lengths, ["b"]), (seen, ["b", "s"]), (holes[:, 0], ["b", "s"]), (holes, ["b", "s", "s"])]
    for mask, known in masks:
        for one_way in (0, 1):
            shapes = {**sizes, "x3": known}
            reads("Attention", [x, weights, bias, mask], sizes=shapes, unidirectional=one_way, **own)
            reads("Attention", [x, weights, bias, mask], sizes=shapes, mask_filter_value=-1.5, **own)
    parts = {"qkv_hidden_sizes": [16, 16, 8]}
    reads("Attention", [x, weights[:, :40].copy(), bias[:40]], sizes=sizes, **parts, **own)
    stays("Attention", [x, weights, bias, lengths], **own)  # it might be lengths and starts
    stays("Attention", [x, weights, bias], ("y0", "y1"), **own)


@pytest.mark.parametrize("opset", OPSETS)
def test_attention_of_parts(opset: int) -> None:
    q, k, v, bias = normal(3, 5, 16), normal(3, 6, 16), normal(3, 6, 8), normal(40)
    name, lengths = "MultiHeadAttention", np.array([6, 4, 1], np.int32)
    seen = (np.arange(6) < lengths[:, None]).astype(np.int32)
    shapes: dict[str, Sequence[int | str]]
    shapes = {"x0": ["b", "s", 16], "x1": ["b", "t", 16], "x2": ["b", "t", 8], "x4": ["b", "t"]}
    own = {"opset": opset, "num_heads": 4, "sizes": shapes}
    reads(name, [q, k, v], **own)
    reads(name, [q, k, v, bias], scale=0.5, **own)
    reads(name, [q, k, v, bias, seen], **own)
    reads(name, [q, k, v, None, seen], mask_filter_value=-2.0, **own)
    stays(name, [q, k, v, bias], unidirectional=1, **own)  # of unlike lengths
    shapes = {**shapes, "x1": ["b", "s", 16], "x2": ["b", "s", 8], "x4": ["b"]}
    reads(name, [normal(3, 6, 16), k, v, bias, lengths], unidirectional=1, **{**own, "sizes": shapes})
    stays(name, [q, k, v, None, None, normal(1, 1, 5, 6)], **own)


@pytest.mark.parametrize("opset", OPSETS)
def test_rotary_embedding(opset: int) -> None:
    tables = [normal(9, 4, seed=1), normal(9, 4, seed=2)]
    places = np.random.default_rng(0).integers(0, 9, (2, 5))
    rows, heads = normal(2, 5, 16), normal(2, 3, 5, 8)
    known: dict[str, Sequence[int | str]] = {"x1": ["b", "s"]}
    own = {"opset": opset, "constants": (2, 3)}
    flat = {**known, "x0": ["b", "s", 16]}
    reads("RotaryEmbedding", [rows, places, *tables], sizes=flat, **own)
    reads("RotaryEmbedding", [rows, places, *tables], sizes=flat, num_heads=2, **own)
    apart = {**known, "x0": ["b", 3, "s", 8]}
    reads("RotaryEmbedding", [heads, places, *tables], sizes=apart, **own)
    for x, shape in ((rows, ["b", "s", 16]), (heads, ["b", 3, "s", 8])):
        first = {"x0": shape, "x1": [1]}
        reads("RotaryEmbedding", [x, np.array([3]), *tables], sizes=first, **own)
    stays("RotaryEmbedding", [rows, places, *tables], sizes=flat, interleaved=1, **own)
