"""Recurrent layers as native code: every form of them, whole and step by step."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from native_programs import Net, answers, compile_folder
from sanitized import MEMORY, UNOPTIMIZED, has_sanitizers, sanitized

from tensmith.backend.native.emit.loader import Model
from tensmith.backend.native.plan import make_plan
from tensmith.backend.native.prepare.pipeline import prepared
from tensmith.equality.changes import compare_changes
from tensmith.errors import EngineError
from tensmith.hardware import detect_cpu
from tensmith.ir import Program, TensorType, interpret, make_node
from tensmith.kernel.isa import Isa, host_isa, isa_named

GATES = {"lstm": 4, "gru": 3, "rnn": 1}


def layer(
    net: Net,
    op: str,
    hidden: int,
    wanted: int = 1,
    holes: bool = False,
    x: str = "x",
    lengths: str = "",
    **attrs: Any,
) -> list[str]:
    """The wanted outputs (bits) of a recurrent layer over x, with first states that are constants."""
    ways = 2 if attrs.get("direction") == "bidirectional" else 1
    turned = attrs.get("layout", 0)
    batch, size = net.shape[0 if turned else 1], net.shape[2]
    rows = GATES[op] * hidden
    w, r, b = net.constant(ways, rows, size), net.constant(ways, rows, hidden), net.constant(ways, 2 * rows)
    start = (batch, ways, hidden) if turned else (ways, batch, hidden)
    states = [net.constant(*start) for _ in range(2 if op == "lstm" else 1)]
    inputs = [x, w, r, b, lengths, *states, *([net.constant(ways, 3 * hidden)] if holes else [])]
    name = f"v{len(net.nodes)}"
    outputs = [f"{name} {n}" if wanted >> n & 1 else "" for n in range(len(states) + 1)]
    while not outputs[-1]:
        outputs.pop()
    net.nodes.append(make_node(op, inputs, outputs, {"hidden_size": hidden, **attrs}))
    return [output for output in outputs if output]


def layers(steps: int, batch: int) -> Program:
    """One of every form, of sizes that fill vectors and that do not, and several panels of weights."""
    net = Net(steps, batch, 5)
    wide = {"direction": "bidirectional"}
    return net.program(
        *layer(net, "lstm", 18, wanted=7, holes=True, **wide),
        *layer(net, "lstm", 3, wanted=2),
        *layer(net, "lstm", 32, wanted=5, direction="reverse"),
        *layer(net, "lstm", 103, wanted=1),
        *layer(net, "gru", 33, wanted=3, **wide),
        *layer(net, "gru", 130, wanted=3, **wide),
        *layer(net, "gru", 17, wanted=3, linear_before_reset=1),
        *layer(net, "rnn", 40, wanted=1, **wide),
        *layer(net, "rnn", 1, wanted=2, activations=("Relu",)),
    )


def assert_close(found: dict[str, Any], expected: dict[str, Any]) -> None:
    for name, wanted in expected.items():
        np.testing.assert_allclose(found[name], wanted, rtol=2e-5, atol=2e-6, err_msg=name)


@pytest.mark.parametrize(("steps", "batch"), [(4, 1), (3, 7)])
def test_every_form(steps: int, batch: int, tmp_path: Path) -> None:
    assert_close(*answers(layers(steps, batch), tmp_path))


def test_rows_behind_their_lengths_wait(tmp_path: Path) -> None:
    """Lengths that are known, and such as are found at run time."""
    net = Net(4, 3, 5)
    known = net.constant(values=np.array([2, 4, 1], np.int32))
    sums = net.add("reduce_sum", "x", net.constant(values=np.array([0, 2])), keepdims=0)
    positive = net.add("cast", net.add("greater", sums, net.constant(values=np.float32(0))), to=6)
    found = net.add("mul", positive, net.constant(values=np.int32(3)))
    wide = {"direction": "bidirectional"}
    program = net.program(
        *layer(net, "lstm", 18, wanted=7, holes=True, lengths=known, **wide),
        *layer(net, "lstm", 3, wanted=2, lengths=found, direction="reverse"),
        *layer(net, "gru", 33, wanted=3, lengths=found, **wide),
        *layer(net, "rnn", 5, wanted=1, lengths=known),
    )
    assert_close(*answers(program, tmp_path))


def test_other_vectors(tmp_path: Path) -> None:
    assert_close(*answers(layers(2, 3), tmp_path, isa_named("generic")))


def test_batches_before_steps_and_what_follows(tmp_path: Path) -> None:
    net = Net(2, 3, 5)
    y, last = layer(net, "gru", 8, wanted=3, layout=1)
    flat = net.add("reshape", y, net.constant(values=np.array([2, 24], np.int64)))
    assert_close(*answers(net.program(net.add("relu", flat), last), tmp_path))


@pytest.mark.skipif(not has_sanitizers(), reason="the compiler has no sanitizers")
def test_only_its_own_memory(tmp_path: Path) -> None:
    for number, (program, shape) in enumerate(
        ((layers(2, 5), (2, 5, 5)), (layers_of_codes()[0], (3, 2, 16)))
    ):
        plan, folder = make_plan(program, host_isa()), tmp_path / str(number)
        folder.mkdir()
        x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
        found, complaint = sanitized(plan, {"x": x}, folder, MEMORY + UNOPTIMIZED)
        assert complaint == ""
        assert_close(found, interpret(plan.program, {"x": x}))


def with_states(steps: int) -> Program:
    """A layer whose states come in and go out."""
    net = Net(steps, 1, 6)
    layer(net, "lstm", 20, wanted=7)
    (node,) = net.nodes
    inputs = {"x": TensorType("f32", (steps, 1, 6)), **dict.fromkeys("hc", TensorType("f32", (1, 1, 20)))}
    node = replace(node, inputs=(*node.inputs[:5], "h", "c"), outputs=("y", "next h", "next c"))
    constants = {name: array for name, array in net.constants.items() if name in node.inputs}
    return Program("net", inputs, node.outputs, (node,), constants)


def test_step_by_step_is_the_whole_sequence(tmp_path: Path) -> None:
    folders = [compile_folder(with_states(steps), tmp_path / str(steps)) for steps in (9, 1)]
    whole, single = map(Model, folders)
    x = np.random.default_rng(1).standard_normal((9, 1, 6)).astype(np.float32)
    h = c = np.zeros((1, 1, 20), np.float32)
    expected = whole(x=x, h=h, c=c)
    for step in range(9):
        found = single(x=x[step : step + 1], h=h, c=c)
        h, c = found["next h"], found["next c"]
        np.testing.assert_allclose(found["y"][0], expected["y"][step], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(c, expected["next c"], rtol=1e-5, atol=1e-6)


def coded(program: Program) -> Program:
    """With W and R as bytes, a scale a row."""
    nodes, constants = [], dict(program.constants)
    for node in program.nodes:
        inputs = list(node.inputs)
        for place in (1, 2):
            array = constants.pop(inputs[place])
            matrix = array.reshape(-1, array.shape[2])
            scales = np.abs(matrix).max(1) / 127
            name = f"{node.output} {place}"
            constants[f"{name} codes"] = np.rint(matrix / scales[:, None]).astype(np.int8)
            constants[f"{name} scales"] = scales.astype(np.float32)
            constants[f"{name} shape"] = np.array(array.shape, np.int64)
            opened = make_node("dequantize_linear", (f"{name} codes", f"{name} scales"), (name,), {"axis": 0})
            inputs[place] = f"{name} 3d"
            nodes += [opened, make_node("reshape", (name, f"{name} shape"), (inputs[place],))]
        nodes.append(replace(node, inputs=tuple(inputs)))
    return replace(program, nodes=tuple(nodes), constants=constants, _known={})


def layers_of_codes() -> tuple[Program, Program]:
    """The same with weights as bytes and as floats: quarters of states that fill words and that do not."""
    net = Net(3, 2, 16)
    program = net.program(
        *layer(net, "lstm", 37, wanted=1),
        *layer(net, "gru", 16, wanted=3, direction="bidirectional"),
        *layer(net, "gru", 35, wanted=1, linear_before_reset=1),
        *layer(net, "rnn", 3, wanted=2),
    )
    return coded(program), program


def test_weights_stay_codes(tmp_path: Path) -> None:
    program, floats = layers_of_codes()
    assert_close(*answers(program, tmp_path))
    sizes = [make_plan(each, host_isa()).weights.nbytes for each in (floats, program)]
    assert sizes[1] < 0.5 * sizes[0]


@pytest.mark.parametrize(
    "isa", [isa_named("avx2", {"avx_vnni"}), isa_named("avx512", {"avx512_vnni"}), isa_named("avx2")]
)
def test_bytes_times_digits_on_other_vectors(isa: Isa, tmp_path: Path) -> None:
    if not isa.needs <= detect_cpu().features:
        pytest.skip("this CPU has no such instructions")
    assert_close(*answers(layers_of_codes()[0], tmp_path, isa))


def test_states_of_every_size_and_what_is_no_number(tmp_path: Path) -> None:
    """Digits are of the largest element: small ones beside it are as exact as a sum with it is."""
    program = coded(with_states(1))
    model, random = Model(compile_folder(program, tmp_path)), np.random.default_rng(2)
    x, c = np.zeros((1, 1, 6), np.float32), np.zeros((1, 1, 20), np.float32)
    states = [random.standard_normal((1, 1, 20)) * size for size in (0, 1e-35, 1e-8, 1, 1e4)]
    states.append(10.0 ** random.uniform(-9, 0, (1, 1, 20)))
    for h in (np.asarray(state, np.float32) for state in states):
        given = {"x": x, "h": h, "c": c}
        for name, wanted in interpret(program, given).items():
            np.testing.assert_allclose(model(**given)[name], wanted, rtol=1e-4, atol=3e-6)
    h[0, 0, 13] = np.nan
    assert np.isnan(model(x=x, h=h, c=c)["y"]).all()


@pytest.mark.parametrize("name", ["avx2", "avx512"])
def test_long_states_err_no_more_than_the_bound_of_floats(name: str, tmp_path: Path) -> None:
    """A state a of 256 elements or more in two digits: |error| <= 2^-16 max(|a|) sum(|w|), and a rounding."""
    isa = isa_named(name, {"avx2": {"avx_vnni"}, "avx512": {"avx512_vnni"}}[name])
    if not isa.needs <= detect_cpu().features:
        pytest.skip("this CPU has no such instructions")
    hidden, random = 259, np.random.default_rng(3)
    codes = random.integers(-127, 128, (hidden, hidden)).astype(np.int8)
    net = Net(1, 2, 1)
    zeros = net.constant(values=np.zeros((1, hidden, 1), np.float32))
    w = net.add("dequantize_linear", net.constant(values=codes), net.constant(values=np.float32(0.01)))
    r = net.add("reshape", w, net.constant(values=np.array([1, hidden, hidden])))
    h = net.add("reshape", "x", net.constant(values=np.array([1, 2, hidden])))
    first = net.constant(values=np.zeros((1, 2, 1), np.float32))
    attrs = {"hidden_size": hidden, "activations": ("Relu",)}
    net.nodes.append(make_node("rnn", (first, zeros, r, "", "", h), ("y",), attrs))
    net.shape = (2, hidden)
    model = Model(compile_folder(net.program("y"), tmp_path, isa))
    for size in (1e-5, 1.0, 300.0):
        x = np.float32(random.uniform(-size, size, (2, hidden)))
        exact = np.maximum(x.astype(np.float64) @ (codes.T * np.float64(np.float32(0.01))), 0)
        bound = np.abs(x).max(1, keepdims=True) * np.abs(codes).sum(1) * 0.01 * (2**-16 + 2**-20)
        error = np.abs(model(x=x)["y"][0, 0] - exact)
        assert (error <= bound).all()
        assert error.max() > 1e-3 * bound.max()


def test_the_input_s_product_is_taken_out_and_checked() -> None:
    program = layers(3, 2)
    after, passes = prepared(program)
    assert {record.step: record.evidence for record in passes}["decompose"] == "checked"
    assert all(not node.inputs[1] for node in after.nodes if node.op in GATES)


def test_another_order_of_the_reset_gate_is_noticed() -> None:
    net = Net(3, 2, 5)
    outputs = layer(net, "gru", 4, wanted=3)
    program = net.program(*outputs)
    (node,) = program.nodes
    other = replace(node, attrs={**node.attrs, "linear_before_reset": 1})
    assert compare_changes(program, replace(program, nodes=(other,), _known={})).different == outputs[0]


def test_computed_weights_are_refused_by_name() -> None:
    net = Net(3, 1, 5)
    outputs = layer(net, "rnn", 5)
    (node,) = net.nodes
    net.nodes = [make_node("slice", ("x", *(net.constant(values=np.array([n])) for n in (0, 1))), ("r",)),
                 replace(node, inputs=(*node.inputs[:2], "square", *node.inputs[3:]))]  # fmt: skip
    net.nodes.insert(1, make_node("matmul", ("column", "r"), ("square",)))
    net.nodes.insert(1, make_node("transpose", ("r",), ("column",), {"perm": (0, 2, 1)}))
    with pytest.raises(EngineError, match=r"\(rnn\) has no native kernel"):
        make_plan(net.program(*outputs), host_isa())


@pytest.mark.parametrize("name", ["weights", "tables"])
def test_a_first_state_of_any_name_is_no_other_constant(name: str, tmp_path: Path) -> None:
    net = Net(2, 1, 3)
    outputs = layer(net, "gru", 16)
    (node,) = net.nodes
    net.nodes = [replace(node, inputs=(*node.inputs[:5], name))]
    net.constants[name] = net.constants.pop(node.inputs[5])
    assert_close(*answers(net.program(*outputs), tmp_path))
