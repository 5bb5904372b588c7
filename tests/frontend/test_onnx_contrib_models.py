"""Whole models that ONNX Runtime's own tools wrote are read without opaque nodes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx.parser import parse_model

from tensmith.backend.native.emit.folder import write_folder
from tensmith.backend.native.emit.loader import Model
from tensmith.backend.native.plan import make_plan
from tensmith.backend.onnx import to_onnx
from tensmith.formula.arith import Array
from tensmith.frontend.onnx import read_onnx
from tensmith.ir.interpreter import interpret
from tensmith.kernel import Kernel, host_isa
from tensmith.rewrite.trail import simplify

BERT = """
<ir_version: 8, opset_import: ["" : 17]>
bert (int64[b, s] ids, int64[b, s] segments, int64[b, s] mask) => (float[b, s, 16] y)
<int64 one = {1}, int64[1] first = {0}, int64[1] second = {1}, int64[1] third = {2},
 int64[1, 8] numbers = {0, 1, 2, 3, 4, 5, 6, 7}, int64[4] heads = {0, 0, 2, 8}, int64[3] merged = {0, 0, 16},
 float unit = {1}, float least = {-10000}, float root = {2.8284271}, float bend = {1.4142135},
 float half = {0.5}> {
    of_words = Gather (words, ids)
    of_segments = Gather (kinds, segments)
    known = Add (of_words, of_segments)
    shape = Shape (ids)
    size = Gather <axis = 0> (shape, one)
    length = Unsqueeze (size, first)
    ids_of_places = Slice (numbers, first, length, second, second)
    of_places = Gather (places, ids_of_places)
    sum = Add (known, of_places)
    x = LayerNormalization <axis = -1, epsilon = 1e-12> (sum, scale0, shift0)
    rows = Unsqueeze (mask, second)
    matrices = Unsqueeze (rows, third)
    kept = Cast <to = 1> (matrices)
    hidden = Sub (unit, kept)
    masks = Mul (hidden, least)
    q1 = MatMul (x, wq)
    q2 = Add (bq, q1)
    q3 = Reshape (q2, heads)
    q = Transpose <perm = [0, 2, 1, 3]> (q3)
    k1 = MatMul (x, wk)
    k2 = Add (bk, k1)
    k3 = Reshape (k2, heads)
    k = Transpose <perm = [0, 2, 3, 1]> (k3)
    v1 = MatMul (x, wv)
    v2 = Add (bv, v1)
    v3 = Reshape (v2, heads)
    v = Transpose <perm = [0, 2, 1, 3]> (v3)
    a1 = MatMul (q, k)
    a2 = Div (a1, root)
    a3 = Add (a2, masks)
    a4 = Softmax <axis = -1> (a3)
    a5 = MatMul (a4, v)
    a6 = Transpose <perm = [0, 2, 1, 3]> (a5)
    a = Reshape (a6, merged)
    o1 = MatMul (a, wo)
    o2 = Add (bo, o1)
    o3 = Add (o2, x)
    o = LayerNormalization <axis = -1, epsilon = 1e-12> (o3, scale1, shift1)
    i1 = MatMul (o, wi)
    i2 = Add (bi, i1)
    i3 = Div (i2, bend)
    i4 = Erf (i3)
    i5 = Add (i4, unit)
    i6 = Mul (i2, i5)
    i = Mul (i6, half)
    f1 = MatMul (i, wf)
    f2 = Add (bf, f1)
    f = Add (f2, o)
    y = LayerNormalization <axis = -1, epsilon = 1e-12> (f, scale2, shift2)
}
"""
UNET = """
<ir_version: 8, opset_import: ["" : 17]>
unet (float[n, 3, 16, 16] x) => (float[n, 4, 16, 16] y, float[n, 10] z)
<float[4] sizes = {1, 1, 2, 2}> {
    a1 = Conv <pads = [1, 1, 1, 1]> (x, wa, ba)
    a = Relu (a1)
    b1 = AveragePool <kernel_shape = [2, 2], strides = [2, 2]> (a)
    b2 = Conv <pads = [1, 1, 1, 1]> (b1, wb, bb)
    b3 = LeakyRelu <alpha = 0.1> (b2)
    b4 = Conv <pads = [1, 1, 1, 1]> (b3, wc, bc)
    b = Add (b4, b3)
    c1 = Resize <mode = "nearest"> (b, , sizes)
    c2 = Concat <axis = 1> (a, c1)
    c3 = Conv <pads = [1, 1, 1, 1]> (c2, wd, bd)
    c4 = Sigmoid (c3)
    c = Mul (c3, c4)
    y = Softmax <axis = -1> (c)
    d1 = GlobalAveragePool (b)
    d = Flatten (d1)
    z = Gemm <transB = 1> (d, we, be)
}
"""
WIDTH, INNER = 16, 32


def bert() -> onnx.ModelProto:
    """A layer of BERT on words of 13, places of 8 and segments of 2."""
    shapes = {"words": (13, WIDTH), "places": (8, WIDTH), "kinds": (2, WIDTH)}
    shapes |= {f"w{name}": (WIDTH, WIDTH) for name in "qkvo"} | {"wi": (WIDTH, INNER), "wf": (INNER, WIDTH)}
    shapes |= {f"b{name}": (WIDTH,) for name in "qkvof"} | {"bi": (INNER,)}
    shapes |= {f"{name}{number}": (WIDTH,) for name in ("scale", "shift") for number in range(3)}
    random = np.random.default_rng(0)
    model = parse_model(BERT)
    for name, shape in shapes.items():
        array = random.normal(scale=0.3, size=shape).astype(np.float32)
        model.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    return model


def answers(model: onnx.ModelProto, given: dict[str, Array]) -> list[Array]:
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return list(session.run(None, given))


def read_alike(model: onnx.ModelProto, given: dict[str, Array], tolerance: float) -> None:
    """Reads a model, simplifies it and writes it; all of these answer alike."""
    program = read_onnx(model)
    assert [node.op for node in program.nodes if node.opaque is not None] == []
    simple = simplify(program).program
    want = answers(model, given)
    for got in (
        [interpret(program, given)[name] for name in program.outputs],
        [interpret(simple, given)[name] for name in simple.outputs],
        answers(to_onnx(simple), given),
    ):
        for one, array in zip(got, want, strict=True):
            np.testing.assert_allclose(one, array, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("attention", [False, True])
def test_bert_of_the_transformer_optimizer(tmp_path: Path, attention: bool) -> None:
    from onnxruntime.transformers.fusion_options import FusionOptions
    from onnxruntime.transformers.optimizer import optimize_model

    onnx.save(bert(), tmp_path / "bert.onnx")
    options = FusionOptions("bert")
    options.enable_attention = attention
    optimized = optimize_model(
        str(tmp_path / "bert.onnx"), "bert", 2, WIDTH, optimization_options=options, opt_level=0
    ).model
    names = {node.op_type for node in optimized.graph.node if node.domain == "com.microsoft"}
    fused = {"EmbedLayerNormalization", "SkipLayerNormalization", "BiasGelu"}
    assert names == (fused | {"Attention"} if attention else fused)
    random = np.random.default_rng(0)
    given = {
        "ids": random.integers(0, 13, (3, 6)), "segments": random.integers(0, 2, (3, 6)),
        "mask": (np.arange(6) < np.array([[6], [4], [1]])).astype(np.int64),
    }  # fmt: skip
    read_alike(optimized, given, 1e-5)


@pytest.mark.parametrize("each", [False, True])
@pytest.mark.parametrize("fused", [False, True])
def test_bert_of_the_dynamic_quantizer(tmp_path: Path, fused: bool, each: bool) -> None:
    """Optimized, quantized and as ONNX Runtime then writes it; all products are of bytes, natively too."""
    from onnxruntime.quantization import QuantType, quantize_dynamic
    from onnxruntime.transformers.fusion_options import FusionOptions
    from onnxruntime.transformers.optimizer import optimize_model

    source, coded, final = (tmp_path / f"{name}.onnx" for name in ("bert", "codes", "final"))
    model = bert()
    for value in (*model.graph.input, *model.graph.output):
        for dim, size in zip(value.type.tensor_type.shape.dim, (1, 6)):
            dim.dim_value = size
    onnx.save(model, source)
    if fused:
        options = FusionOptions("bert")
        optimized = optimize_model(str(source), "bert", 2, WIDTH, optimization_options=options, opt_level=0)
        optimized.save_model_to_file(str(source))
    quantize_dynamic(
        source, coded, weight_type=QuantType.QInt8, per_channel=each,
        extra_options={"DefaultTensorType": onnx.TensorProto.FLOAT},
    )  # fmt: skip
    settings = onnxruntime.SessionOptions()
    settings.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    settings.optimized_model_filepath, settings.log_severity_level = str(final), 4
    onnxruntime.InferenceSession(coded, settings, providers=["CPUExecutionProvider"])
    kinds = {node.op_type for path in (coded, final) for node in onnx.load(path).graph.node}
    wanted = {"QAttention", "QEmbedLayerNormalization"} if fused else {"MatMulIntegerToFloat"}
    assert kinds >= wanted | {"DynamicQuantizeLinear", "DynamicQuantizeMatMul"}
    random = np.random.default_rng(0)
    given = {
        "ids": random.integers(0, 13, (1, 6)), "segments": random.integers(0, 2, (1, 6)),
        "mask": np.array([[1, 1, 1, 1, 0, 0]]),
    }  # fmt: skip
    for path in (coded, final):
        read_alike(onnx.load(path), given, 1e-5)
        plan = make_plan(read_onnx(path), host_isa())
        kernels = [action.work for action in plan.kernels if isinstance(action.work, Kernel)]
        assert [kernel.problem.dtype for kernel in kernels] == ["u8"] * (4 if fused else 6)
        folder = tmp_path / path.stem
        write_folder(plan, folder)
        (found,) = Model(folder)(**given).values()
        np.testing.assert_allclose(found, answers(onnx.load(path), given)[0], rtol=1e-5, atol=1e-5)


def unet() -> onnx.ModelProto:
    """A network of two scales, and a classifier beside it."""
    shapes = {"wa": (6, 3, 3, 3), "wb": (8, 6, 3, 3), "wc": (8, 8, 3, 3), "wd": (4, 14, 3, 3), "we": (10, 8)}
    random = np.random.default_rng(0)
    model = parse_model(UNET)
    for name, shape in shapes.items():
        weights = random.normal(scale=0.3, size=shape).astype(np.float32)
        bias = random.normal(scale=0.3, size=shape[0]).astype(np.float32)
        model.graph.initializer.append(onnx.numpy_helper.from_array(weights, name))
        model.graph.initializer.append(onnx.numpy_helper.from_array(bias, f"b{name[1]}"))
    return model


@pytest.mark.parametrize("signed", [False, True])
def test_unet_of_the_static_quantizer(tmp_path: Path, signed: bool) -> None:
    """Answers are alike but for codes that lie between two, which layers hand on."""
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

    images = np.random.default_rng(0).normal(size=(4, 3, 16, 16)).astype(np.float32)

    class Reader(CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self.left = [{"x": image[None]} for image in images]

        def get_next(self) -> dict[str, Array] | None:
            return self.left.pop() if self.left else None

    onnx.save(unet(), tmp_path / "unet.onnx")
    codes = QuantType.QInt8 if signed else QuantType.QUInt8
    quantize_static(
        tmp_path / "unet.onnx", tmp_path / "codes.onnx", Reader(), quant_format=QuantFormat.QOperator,
        activation_type=codes, weight_type=QuantType.QInt8, per_channel=signed,
    )  # fmt: skip
    quantized = onnx.load(tmp_path / "codes.onnx")
    names = {node.op_type for node in quantized.graph.node if node.domain == "com.microsoft"}
    assert names == {
        "QLinearAdd", "QLinearAveragePool", "QLinearConcat", "QLinearGlobalAveragePool", "QLinearLeakyRelu",
        "QLinearMul", "QLinearSigmoid", "QLinearSoftmax", "QGemm",
    }  # fmt: skip
    read_alike(quantized, {"x": images}, 0.02)
