"""What prepares a program is proved, or compared with what it was given; the folder says which."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from native_programs import Net, compile_folder

from tensmith.backend.native.emit import loader
from tensmith.backend.native.emit.loader import Model, ModelError
from tensmith.backend.native.plan import make_plan
from tensmith.backend.native.prepare import pipeline
from tensmith.equality.changes import compare_changes
from tensmith.errors import EngineError
from tensmith.ir import Program, TensorType, interpret, make_node
from tensmith.kernel import host_isa


def attended() -> Program:
    """Attention, which `decompose` writes as products around a softmax."""
    net = Net(1, 12, 32)
    heads = net.add("attention", "x", "x", "x", q_num_heads=2, kv_num_heads=2)
    return net.program(net.add("sigmoid", heads))


def rotated() -> Program:
    """A rotary position embedding, which `decompose` writes as products of slices."""
    net = Net(1, 2, 6, 8)
    return net.program(net.add("rotary_embedding", "x", net.constant(1, 6, 4), net.constant(1, 6, 4)))


def upsampling() -> Program:
    """A transposed convolution, which a rule writes as a convolution and an interleaving."""
    net = Net(1, 6, 5, 7)
    return net.program(net.add("conv_transpose", "x", net.constant(6, 4, 3, 3), strides=(2, 2)))


def signed_pair() -> Program:
    """A convolution between pairs of signed codes."""
    net = Net(1, 4, 6, 6)
    scale, zero = net.constant(values=np.float32(2**-4)), net.constant(values=np.int8(5))

    def pair(value: str) -> str:
        codes = net.add("quantize_linear", value, scale, zero)
        return net.add("dequantize_linear", codes, scale, zero)

    return net.program(pair(net.conv(pair("x"), 4, 4)))


def known(program: Program) -> dict[str, str]:
    return {one.step: one.evidence for one in make_plan(program, host_isa()).prepared}


def test_a_plan_says_what_is_known_of_each_step() -> None:
    passes = dict.fromkeys(pipeline.PASSES, "checked")
    assert known(attended()) == passes
    assert known(signed_pair()) == {**passes, "codes_made_unsigned": "proved"}
    assert known(upsampling()) == {**passes, "transposed_convolution_by_phases": "proved"}


def test_a_folder_lists_the_passes_under_prepared(tmp_path: Path) -> None:
    folder = compile_folder(attended(), tmp_path)
    rows = json.loads((folder / "model.json").read_text())["prepared"]
    assert [row["step"] for row in rows] == list(pipeline.PASSES)
    assert all(row.keys() == {"step", "evidence", "primes", "error_probability", "detail"} for row in rows)
    last = rows[-1]
    assert last["primes"] >= 2 and 0 < last["error_probability"] < 1e-8
    assert last["detail"] == "values computed otherwise: 1 over prime fields"
    assert Model(folder).manifest["prepared"] == rows


def test_a_folder_of_before_is_loaded_and_one_of_nonsense_is_not(tmp_path: Path) -> None:
    folder = compile_folder(attended(), tmp_path)
    manifest = json.loads((folder / "model.json").read_text())
    for prepared, loads in ((None, True), ("proved", False)):
        changed = {**manifest, "prepared": prepared}
        if prepared is None:
            del changed["prepared"]
        digest = loader.digest_of(changed)
        (folder / "model.json").write_text(json.dumps({**changed, "digest": digest}))
        if loads:
            assert Model(folder).manifest["needs"] == manifest["needs"]
        else:
            with pytest.raises(ModelError, match="prepared"):
                Model(folder)


# Sabotage


def other_signs(program: Program) -> Program:
    nodes = [replace(n, op="add") if n.op == "sub" else n for n in program.nodes]
    return replace(program, nodes=tuple(nodes), _known={})


def other_scale(program: Program) -> Program:
    constants = {n: a * np.float32(1.001) if "scale" in n else a for n, a in program.constants.items()}
    return replace(program, constants=constants, _known={})


def no_sigmoid(program: Program) -> Program:
    nodes = [replace(n, op="tanh") if n.op == "sigmoid" else n for n in program.nodes]
    return replace(program, nodes=tuple(nodes), _known={})


@pytest.mark.parametrize(
    ("build", "step", "sabotage"),
    [
        (rotated, "decompose", other_signs),
        (attended, "decompose", other_scale),
        (attended, "decompose", no_sigmoid),
        (attended, "open packed products", no_sigmoid),
    ],
)
def test_a_wrong_pass_ends_the_compile(
    monkeypatch: pytest.MonkeyPatch,
    build: Callable[[], Program],
    step: str,
    sabotage: Callable[[Program], Program],
) -> None:
    honest = pipeline.PASSES[step]
    monkeypatch.setattr(
        pipeline, "PASSES", {**pipeline.PASSES, step: lambda program: sabotage(honest(program))}
    )
    with pytest.raises(EngineError, match=f"preparing step '{step}' changes '.*' at node '"):
        make_plan(build(), host_isa())


# What the passes must not do


@pytest.mark.parametrize("scale", [-0.25, 0.0, np.nan, 3e38, 1e-42])
def test_a_grid_that_does_not_rise_stays_where_it_is(scale: float) -> None:
    """max(f(x)) is not f(max(x)) for a falling f, and no code comes back from a scale of zero."""
    net = Net(1, 2, 4, 4)
    grid = net.constant(values=np.float32(scale)), net.constant(values=np.uint8(7))
    pooled = net.add("max_pool", net.add("dequantize_linear", "x", *grid), kernel_shape=(2, 2))
    again = net.add("dequantize_linear", net.add("quantize_linear", pooled, *grid), *grid)
    program = replace(net.program(again), inputs={"x": TensorType("u8", (1, 2, 4, 4))})
    after = pipeline.prepared(program)[0]
    assert not compare_changes(program, after).different
    x = {"x": np.random.default_rng(0).integers(0, 256, (1, 2, 4, 4)).astype(np.uint8)}
    for name, array in interpret(program, x).items():
        np.testing.assert_array_equal(interpret(after, x)[name], array)


@pytest.mark.parametrize("name", ["y scale", "y heads", "y q split", "y k turned", "y.1"])
@pytest.mark.parametrize("op", ["attention", "instance_normalization"])
def test_values_of_a_model_may_have_the_names_that_steps_give(name: str, op: str) -> None:
    net = Net(1, 12, 32)
    more, attrs = ("x", "x"), {"q_num_heads": 2, "kv_num_heads": 2}
    if op != "attention":
        more, attrs = (net.constant(12), net.constant(12)), {}
    first = make_node(op, ("x", *more), ("y",), attrs)
    last = make_node("mul", ("y", name), ("z",))
    net.constants[name] = np.float32(3)
    program = replace(net.program("z"), nodes=(first, last))
    after = pipeline.prepared(program)[0]
    x = {"x": np.random.default_rng(0).normal(size=(1, 12, 32)).astype(np.float32)}
    np.testing.assert_allclose(interpret(after, x)["z"], interpret(program, x)["z"], atol=1e-4)


@pytest.mark.parametrize("depth", [8, 16, 64])
def test_attention_is_equal_up_to_the_rounding_of_its_scale(depth: int) -> None:
    """The root of the scale is no number of 32 bits, and large scores make much of it."""
    net = Net(1, 12, 2 * depth)
    program = net.program(net.add("attention", "x", "x", "x", q_num_heads=2, kv_num_heads=2))
    passes = {one.step: one.evidence for one in pipeline.prepared(program)[1]}
    assert passes["decompose"] in ("checked", "tested")
    assert compare_changes(program, other_scale(pipeline.PASSES["decompose"](program))).different
