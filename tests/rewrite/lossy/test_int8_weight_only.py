"""Layers of an int8 program whose weights are codes and whose activations stay floats."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lossy_samples import Interpreted, Net, inputs_of, residual, run, transformer
from tensmith.backend.onnx import write_onnx
from tensmith.deploy.layers import treatment
from tensmith.engine.base import ENGINES
from tensmith.errors import ProgramError
from tensmith.formula.arith import Array
from tensmith.ir import Program, TensorType, interpret, make_node
from tensmith.ir.ops.quantization import decodes, encodes
from tensmith.ir.types import DTYPES
from tensmith.rewrite.lossy.weights import stored_weights
from tensmith.rewrite.method import LOSSY, apply_lossy
from tensmith.search.plan import Plan


def treated(program: Program, **params: Any) -> Program:
    return apply_lossy(program, LOSSY["int8"].step(**params), Interpreted())


class OfType(Interpreted):
    """Calibration of a program that takes such floats."""

    def __init__(self, dtype: Any) -> None:
        super().__init__()
        self._dtype = dtype

    def _value(self, program: Program, name: str) -> Array:
        x = inputs_of(program, seed=2)["x"].astype(self._dtype)
        return x if name == "x" else interpret(replace(program, outputs=(name,)), {"x": x})[name]


def operands(program: Program, site: str) -> tuple[bool, bool]:
    """Whether what a layer multiplies is opened codes: its activations, its weights."""
    x, weights = (program.producers.get(name) for name in program.producers[site].inputs[:2])
    while weights is not None and not decodes(weights) and len(weights.inputs) == 1:
        weights = program.producers.get(weights.inputs[0])
    return x is not None and decodes(x), weights is not None and decodes(weights)


@pytest.mark.parametrize("bits", [3, 8])
def test_only_the_weights_of_a_named_layer_are_rounded(bits: int) -> None:
    program = residual()
    first, *others = (own.site for own in stored_weights(program))
    after = treated(program, weight_only=[first], default_bits=bits)
    assert operands(after, first) == (False, True)
    assert {operands(after, site) for site in others if site in after.producers} == {(True, True)}
    kept = treated(program, skip=[first], weight_only=[first])
    assert operands(kept, first) == (False, False)


def test_rounded_weights_are_off_by_half_a_step() -> None:
    net = Net(image=(6,))
    hidden = net.op("matmul", "x", net.weights(6, 8))
    program = net.program(net.op("matmul", net.op("relu", hidden), net.weights(8, 4)))
    x = np.random.default_rng(1).normal(size=(5, 6)).astype(np.float32)
    after = treated(program, weight_only=[hidden])
    before, rounded = (interpret(replace(p, outputs=(hidden,)), {"x": x})[hidden] for p in (program, after))
    weights = next(iter(program.constants.values()))
    step = np.abs(weights).max(0) / 127
    assert np.abs(rounded - before).max() > 0
    assert (np.abs(rounded - before) <= np.abs(x).sum(1)[:, None] * step / 2 * 1.001).all()


def test_a_constant_of_two_layers_of_both_kinds() -> None:
    net = Net(image=(6,))
    weights = net.weights(6, 6)
    first = net.op("matmul", "x", weights)
    second = net.op("matmul", net.op("relu", first), weights)
    after = treated(net.program(second), weight_only=[first])
    assert operands(after, first) == (False, True) and operands(after, second) == (True, True)
    assert not any(encodes(node) and node.inputs[0] == "x" for node in after.nodes)


def test_a_layer_that_is_skipped_keeps_floats_that_others_share() -> None:
    net = Net(image=(6,))
    weights = net.weights(6, 6)
    first = net.op("matmul", "x", weights)
    second = net.op("matmul", net.op("relu", first), weights)
    third = net.op("matmul", net.op("relu", second), net.weights(6, 4))
    after = treated(net.program(third), skip=[first], weight_only=[second])
    assert operands(after, first)[1] is operands(after, second)[1] is False


def test_biases_of_all_layers_that_read_codes_make_up_for_them() -> None:
    net = Net(image=(6,))
    weights, none = net.weights(6, 6), [net.constant(np.zeros(6)) for _ in range(2)]
    first = net.op("gemm", "x", weights, none[0], transB=1)
    second = net.op("gemm", net.op("relu", first), weights, none[1], transB=1)
    third = net.op("gemm", net.op("relu", second), net.weights(4, 6), net.constant(np.zeros(4)), transB=1)
    program = net.program(third)
    worth = dict.fromkeys((first, second, third), 0.5)
    params = {"rounding": "coded", "price": 1.0, "worth": worth, "weight_only": [first, second]}
    after = treated(program, **params)
    for site in (first, second):
        assert np.abs(after.constants[after.producers[site].inputs[2]]).max() > 0


def test_the_report_tells_and_what_is_no_layer_is_refused() -> None:
    program = residual()
    first, second = stored_weights(program)[:2]
    step = LOSSY["int8"].step(weight_only=[first.site], default_bits=8)
    words = [treatment(Plan.of((step,)), own, program) for own in (first, second)]
    assert words == ["int8, 8-bit weights, multiplied in float", "int8, 8-bit weights"]
    with pytest.raises(ProgramError, match="'nobody' is not a layer"):
        treated(program, weight_only=["nobody"])
    with pytest.raises(ProgramError, match="weight_only is 4; give a list of layers"):
        treated(program, weight_only=4)
    with pytest.raises(ProgramError, match="nothing is left to quantize"):
        treated(program, weight_only=[own.site for own in stored_weights(program)])


def test_a_program_of_halves_answers_in_halves() -> None:
    net = Net(image=(6,))
    net.input = TensorType("f16", net.input.shape)
    weights = [net.constant(net.random.normal(size=shape), np.float16) for shape in ((6, 8), (8, 4))]
    hidden = net.op("relu", net.op("matmul", "x", weights[0]))
    program = net.program(net.op("matmul", hidden, weights[1]))
    x = {"x": np.random.default_rng(1).normal(size=(5, 6)).astype(np.float16)}
    (before,), (after,) = (interpret(p, x).values() for p in (program, treated(program)))
    assert after.dtype == before.dtype == np.float16
    assert np.linalg.norm((after - before).astype(float)) < 0.1 * np.linalg.norm(before.astype(float))


@pytest.mark.parametrize("skip", [[], ["v3"]])
@pytest.mark.parametrize("dtype", ["f16", "f64"])
def test_what_is_no_layer_computes_in_the_type_that_it_had(
    dtype: str, skip: list[str], tmp_path: Path
) -> None:
    base, kind = transformer(), DTYPES[dtype]
    nodes = tuple(
        make_node("relu", node.inputs, node.outputs) if node.op == "gelu" else node for node in base.nodes
    )
    base = replace(base, nodes=nodes)
    constants = {name: array.astype(kind) for name, array in base.constants.items()}
    types = {"x": base.inputs["x"].with_dtype(dtype)}
    program = Program("other", types, base.outputs, base.nodes, constants)
    after = apply_lossy(program, LOSSY["int8"].step(skip=skip), OfType(kind))
    write_onnx(after, tmp_path / "after.onnx")
    x = {"x": inputs_of(base)["x"].astype(kind)}
    (answer,) = ENGINES["onnxruntime"].prepare(tmp_path / "after.onnx", 1).run(x).values()
    truth = run(base)
    assert answer.dtype == kind
    assert np.linalg.norm(answer.astype(float) - truth) < 0.03 * np.linalg.norm(truth)


@pytest.mark.parametrize("table", [False, True])
def test_small_rows_of_halves_are_not_lost(table: bool) -> None:
    """Their scales are no halves, or hardly: they would be rounded by per cents, or to nothing."""
    sizes = np.array([1.0, 1e-3, 1e-4, 3e-6, 0])
    weights = np.random.default_rng(0).uniform(-1, 1, (5, 256))
    weights = (weights / np.abs(weights).max(1, keepdims=True) * sizes[:, None]).astype(np.float16)
    name, dims = ("gather", (5,)) if table else ("gemm", (256, 256))
    inputs = {"x": TensorType("i64" if table else "f16", dims)}
    node = make_node(name, ("w", "x") if table else ("x", "w"), ("y",), {} if table else {"transB": 1})
    program = Program("halves", inputs, ("y",), (node,), {"w": weights})
    after = apply_lossy(program, LOSSY["weight_only"].step(stored="codes"), Interpreted())
    assert {array.dtype for array in after.constants.values()} >= {np.dtype(np.int8), np.dtype(np.float16)}
    x = np.arange(5) if table else np.eye(256, dtype=np.float16)
    opened = interpret(after, {"x": x})["y"].astype(float)
    error = np.abs((opened if table else opened.T) - weights).max(1)
    assert (error <= 0.01 * sizes).all()
