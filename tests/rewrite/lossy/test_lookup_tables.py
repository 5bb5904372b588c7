"""Tables that rows are looked up in and no layer multiplies with: rounded as layers are."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lossy_samples import LENGTH, TOKENS, WIDTH, WORDS, Net, OnTokens
from tensmith.backend.onnx import write_onnx
from tensmith.deploy.layers import treatment
from tensmith.engine.base import ENGINES
from tensmith.formula.arith import Array
from tensmith.formula.poly import Poly
from tensmith.ir import Program, TensorType, interpret, make_node
from tensmith.ir.types import DTYPES
from tensmith.rewrite.lossy.weights import LookupTable, called, stored_weights
from tensmith.rewrite.method import LOSSY, Prospect, apply_lossy
from tensmith.rewrite.rule import EVERYWHERE, Step
from tensmith.rewrite.trail import simplify
from tensmith.search.plan import Plan

PROSPECT = partial(Prospect, bits=8, precisions=frozenset(), seconds={}, divergence=dict)


def encoder(lookups: int = 1) -> Program:
    """Words to vectors, then a layer; the table is looked up in once, or twice."""
    net = Net()
    net.input = TensorType("i64", (Poly.symbol("batch"), LENGTH))
    table = net.weights(WORDS, WIDTH)
    x = net.op("gather", table, "x")
    if lookups == 2:
        x = net.op("mul", x, net.op("gather", table, net.op("neg", net.op("neg", "x"))))
    return simplify(net.program(net.op("matmul", net.op("relu", x), net.weights(WIDTH, WIDTH)))).program


def table_of(program: Program) -> LookupTable:
    (table,) = {own.weight: own for own in stored_weights(program) if isinstance(own, LookupTable)}.values()
    return table


def treated(program: Program, method: str, **params: Any) -> Program:
    return apply_lossy(program, Step(method, EVERYWHERE, params, "lossy"), OnTokens())


def answers(program: Program) -> Array:
    return interpret(program, {"x": TOKENS})[program.outputs[0]]


def table_bytes(program: Program) -> int:
    return sum(array.nbytes for array in program.constants.values() if array.size >= WORDS * WIDTH)


METHODS: list[tuple[str, dict[str, Any]]] = [
    ("int8", {"default_bits": 7}),
    ("dynamic_int8", {"default_bits": 7}),
    ("weight_only", {"stored": "codes"}),
    ("weight_only", {"stored": "codes", "scales": "mse", "rounding": "compensated"}),
]


@pytest.mark.parametrize(("method", "params"), METHODS)
@pytest.mark.parametrize("lookups", [1, 2])
def test_a_table_is_stored_in_codes_alone(
    method: str, params: dict[str, Any], lookups: int, tmp_path: Path
) -> None:
    program = encoder(lookups)
    small = simplify(treated(program, method, **params)).program
    assert table_bytes(small) == WORDS * WIDTH
    exact, found = answers(program), answers(small)
    assert np.linalg.norm(found - exact) < 0.03 * np.linalg.norm(exact)
    write_onnx(small, tmp_path / "small.onnx")
    (answer,) = ENGINES["onnxruntime"].prepare(tmp_path / "small.onnx", 1).run({"x": TOKENS}).values()
    np.testing.assert_allclose(answer, found, atol=0.02 * abs(exact).max())


def test_its_rows_stay_floats_of_few_values_where_the_graph_is_to_stay() -> None:
    program = encoder()
    name = table_of(program).weight
    small = treated(program, "weight_only", stored="floats", default_bits=3)
    assert small.nodes == program.nodes
    assert all(len(np.unique(row)) <= 7 for row in small.constants[name])


def test_short_codes_cost_a_table_what_it_is_worth() -> None:
    """A table that matters more is rounded less."""
    program = encoder()
    table, (layer,) = table_of(program), [w for w in stored_weights(program) if w.op == "matmul"]

    def moved(worth: float) -> float:
        params = {"rounding": "coded", "price": 0.1, "worth": {table.site: worth, layer.site: 1e-3}}
        small = treated(program, "weight_only", stored="floats", **params)
        return float(np.abs(small.constants[table.weight] - program.constants[table.weight]).mean())

    assert moved(1e-1) < 0.5 * moved(1e-4)


@pytest.mark.parametrize("method", ["int8", "dynamic_int8", "weight_only"])
def test_whoever_skips_or_keeps_one_lookup_leaves_the_table_alone(method: str) -> None:
    program = encoder(2)
    for site in called(program, table_of(program)):
        for word in ("skip", "kept"):
            small = treated(program, method, **{word: [site]})
            assert table_bytes(small) == 4 * WORDS * WIDTH, word


def test_a_report_says_of_each_lookup_what_became_of_the_table() -> None:
    program = encoder(2)
    first, second = (own for own in stored_weights(program) if isinstance(own, LookupTable))
    step = Step("int8", EVERYWHERE, {"skip": [first.site]}, "lossy")
    for own in (first, second):
        assert treatment(Plan((step,)), own, program) == "left in float by int8"
        assert treatment(Plan((replace(step, params={}),)), own, program) == "int8, 8-bit weights"
        other = replace(step, params={"bits": {second.site: 4}})
        assert treatment(Plan((other,)), own, program) == "int8, 4-bit weights"
    small = apply_lossy(program, other, OnTokens())
    (codes,) = (array for array in small.constants.values() if array.size == WORDS * WIDTH)
    assert abs(codes).max() == 7


def test_two_layers_of_one_matrix_are_told_apart() -> None:
    net = Net(image=(4, 8))
    weights = net.weights(8, 8)
    program = net.program(net.op("add", net.op("matmul", "x", weights), net.op("matmul", "x", weights)))
    first, second = stored_weights(program)
    plan = Plan((Step("int8", EVERYWHERE, {"skip": [second.site]}, "lossy"),))
    assert treatment(plan, first, program) == "int8, 8-bit weights"
    assert treatment(plan, second, program) == "left in float by int8"


def test_coordinates_and_what_others_read_are_no_tables() -> None:
    net = Net()
    net.input = TensorType("i64", (2, LENGTH))
    boxes, offsets = net.weights(4 * WORDS, 4), net.weights(WORDS, WIDTH)
    rows = net.op("gather", offsets, "x")
    columns = net.op("gather", offsets, "x", axis=1)
    shifted = net.op(
        "sub", rows, net.op("reduce_max", columns, net.constant([0, 1, 2], np.int64), keepdims=0)
    )
    joined = net.op("concat", net.op("gather", boxes, "x"), shifted, axis=2)
    assert not stored_weights(simplify(net.program(joined)).program)


@pytest.mark.parametrize("below", [-np.inf, np.finfo(np.float32).min, -1e4])
def test_masks_are_no_tables(below: float) -> None:
    net = Net()
    net.input = TensorType("i64", (2, LENGTH))
    for visible in (np.tri(128, 128, dtype=bool), np.arange(128 * 128).reshape(128, 128) != 700):
        mask = net.constant(np.where(visible, 0, below))
        assert not stored_weights(simplify(net.program(net.op("gather", mask, "x"))).program)


@pytest.mark.parametrize("dtype", ["bf16", "f16", "f64"])
def test_tables_of_other_floats(dtype: str, tmp_path: Path) -> None:
    """ONNX multiplies no vectors of bfloat16: such tables stay as they are."""
    program = encoder()
    name = table_of(program).weight
    table = program.constants[name].astype(DTYPES[dtype])
    wide = make_node("cast", ("rows",), (table_of(program).site,), {"to": 1})
    nodes = [replace(node, outputs=("rows",)) if node.op == "gather" else node for node in program.nodes]
    nodes.insert(1, wide)
    other = replace(program, nodes=tuple(nodes), constants={**program.constants, name: table}, _known={})
    small = treated(other, "weight_only", stored="codes")
    assert table_bytes(small) == (2 if dtype == "bf16" else 1) * WORDS * WIDTH
    write_onnx(small, tmp_path / "small.onnx")
    (answer,) = ENGINES["onnxruntime"].prepare(tmp_path / "small.onnx", 1).run({"x": TOKENS}).values()
    assert np.linalg.norm(answer - answers(program)) < 0.03 * np.linalg.norm(answer)


def test_each_node_that_looks_rows_up_names_the_table() -> None:
    program = encoder(2)
    sites = [own.site for own in stored_weights(program) if isinstance(own, LookupTable)]
    assert len(sites) == 2 and set(sites) <= LOSSY["int8"].outlooks(PROSPECT(program)).keys()
    for site in sites:
        step = Step("weight_only", site, {"stored": "codes"}, "lossy")
        assert table_bytes(apply_lossy(program, step, OnTokens())) == WORDS * WIDTH


def test_blocks_of_4_bits_take_tables_along() -> None:
    net = Net()
    net.input = TensorType("i64", (2, LENGTH))
    rows = net.op("gather", net.weights(WORDS, 64), "x")
    program = simplify(net.program(net.op("matmul", rows, net.weights(64, 64)))).program
    (form,) = LOSSY["block_int4"].starts(PROSPECT(program))
    assert [step.rule for step in form.steps] == ["block_int4", "weight_only"]


def test_16_bit_weights_say_what_a_table_would_be() -> None:
    program = encoder()
    found = LOSSY["half"].outlooks(PROSPECT(program))
    assert found[table_of(program).site].bytes == 2 * WORDS * WIDTH
