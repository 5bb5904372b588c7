"""An output head that multiplies with its embedding's table: both read one constant of codes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from lossy_samples import LENGTH, TOKENS, WIDTH, WORDS, Net, OnTokens, language_model
from tensmith.backend.onnx import to_onnx, write_onnx
from tensmith.engine.base import ENGINES
from tensmith.errors import ProgramError
from tensmith.formula.arith import Array
from tensmith.hardware import INT8_DOT, detect_cpu
from tensmith.ir import Program, TensorType, interpret
from tensmith.rewrite.lossy.tables import with_tables_opened
from tensmith.rewrite.lossy.weights import lookups, weighted_layers
from tensmith.rewrite.method import apply_lossy
from tensmith.rewrite.rule import EVERYWHERE, Step
from tensmith.rewrite.trail import simplify


def table_of(program: Program) -> str:
    return next(name for name, array in program.constants.items() if array.shape == (WORDS, WIDTH))


def treated(program: Program, method: str, **params: Any) -> Program:
    return apply_lossy(program, Step(method, EVERYWHERE, params, "lossy"), OnTokens())


def scores(program: Program) -> Array:
    return interpret(program, {"x": TOKENS})[program.outputs[0]]


# Without VNNI, ONNX Runtime adds pairs of products in 16 bits, where those of 8 bits a weight saturate.
BITS = {"default_bits": 7 if INT8_DOT.isdisjoint(detect_cpu().features) else 8}
METHODS: list[tuple[str, str, dict[str, Any]]] = [
    ("matmul", "int8", BITS),
    ("gemm", "int8", BITS),
    ("matmul", "weight_only", {"stored": "codes"}),
    ("gemm", "weight_only", {"stored": "codes", "scales": "mse", "rounding": "compensated"}),
    ("matmul", "dynamic_int8", BITS),
]


def test_the_head_is_a_layer_and_its_table_no_other_ones() -> None:
    program = simplify(language_model()).program
    head = weighted_layers(program)[-1]
    assert (head.site, head.weight, head.turned, head.transposed) == (
        program.outputs[0], table_of(program), True, False
    )  # fmt: skip
    assert head.rows(program.constants[head.weight]).shape == (1, WORDS, WIDTH)
    assert [node.op for node in lookups(program, head.weight)] == ["gather"]


@pytest.mark.parametrize(("op", "method", "params"), METHODS)
def test_one_copy_of_bytes_serves_both(op: str, method: str, params: dict[str, Any], tmp_path: Path) -> None:
    program = simplify(language_model(op)).program
    small = simplify(treated(program, method, **params)).program
    tables = [array.dtype for array in small.constants.values() if array.size == WORDS * WIDTH]
    assert tables == [np.int8]
    looked_up = [node for node in small.nodes if node.op == "gather"]
    assert small.type(looked_up[0].inputs[0]).dtype == "i8"
    exact, found = scores(program), scores(small)
    assert np.linalg.norm(found - exact) < 0.03 * np.linalg.norm(exact)
    onnx.checker.check_model(to_onnx(small), full_check=True)
    write_onnx(small, tmp_path / "small.onnx")
    (answer,) = ENGINES["onnxruntime"].prepare(tmp_path / "small.onnx", 1).run({"x": TOKENS}).values()
    # One step of a byte between two roundings of an activation, at most.
    np.testing.assert_allclose(answer, found, atol=0.02 * abs(exact).max())


def test_rows_are_rounded_plainly() -> None:
    """What the head's inputs would have a row make up for, the embedding would not forgive."""
    program = language_model()
    small = treated(program, "weight_only", stored="floats", default_bits=4, rounding="compensated")
    table, rounded = (p.constants[table_of(p)] for p in (program, small))
    step = abs(table).max(1, keepdims=True) / 7
    assert np.all(abs(rounded - table) <= step / 2 * (1 + 1e-6))


def test_a_skipped_head_keeps_its_table_in_floats() -> None:
    program = language_model()
    small = treated(program, "int8", skip=[program.outputs[0]])
    assert small.constants[table_of(small)].dtype == np.float32


def test_zeros_and_codebooks_stay_out_of_tables_unless_asked_for() -> None:
    program = language_model()
    for method, params in (("magnitude_pruning", {"sparsity": 0.5}), ("weight_clustering", {"bits": 2})):
        small = treated(program, method, **params)
        assert np.array_equal(small.constants[table_of(small)], program.constants[table_of(program)])
    step = Step("magnitude_pruning", program.outputs[0], {"sparsity": 0.5}, "lossy")
    pruned = apply_lossy(program, step, OnTokens())
    assert np.mean(pruned.constants[table_of(pruned)] == 0) == 0.5


def test_a_program_of_tables_alone_has_nothing_to_prune() -> None:
    net = Net()
    net.input = TensorType("i64", (2, LENGTH))
    table = net.weights(WORDS, WIDTH)
    turned = net.op("transpose", table, perm=(1, 0))
    program = net.program(net.op("matmul", net.op("gather", table, "x"), turned))
    with pytest.raises(ProgramError, match="tables"):
        treated(program, "magnitude_pruning", sparsity=0.5)


def test_a_table_of_halves_is_looked_up_in_halves(tmp_path: Path) -> None:
    program = language_model()
    halves = {
        name: array.astype(np.float16) if array.dtype == np.float32 else array
        for name, array in program.constants.items()
    }
    small = treated(program.with_constants(halves), "int8", **BITS)
    write_onnx(small, tmp_path / "small.onnx")
    (answer,) = ENGINES["onnxruntime"].prepare(tmp_path / "small.onnx", 1).run({"x": TOKENS}).values()
    assert answer.dtype == np.float16
    assert np.linalg.norm(answer - scores(program)) < 0.03 * np.linalg.norm(answer.astype(float))


@pytest.mark.parametrize(("op", "method", "params"), METHODS)
def test_rows_of_codes_are_opened_again(op: str, method: str, params: dict[str, Any]) -> None:
    """For training: the same answers, by rows of numbers."""
    coded = treated(language_model(op), method, **params)
    opened = with_tables_opened(coded)
    np.testing.assert_array_equal(scores(opened), scores(coded))
    (row,) = (node for node in opened.nodes if node.op == "gather")
    assert opened.producers[row.inputs[0]].op == "dequantize_linear"
    assert with_tables_opened(opened) is opened
