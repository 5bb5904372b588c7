"""Recurrent layers against ONNX Runtime, or ONNX's reference where that lacks batches before steps."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from conformance import check, one_node, random
from onnx import numpy_helper

from tensmith.errors import ProgramError
from tensmith.formula.arith import Array, Floats
from tensmith.frontend.onnx import read_onnx
from tensmith.ir.interpreter import interpret
from tensmith.ir.op import OPS, Run, Typed
from tensmith.ir.types import TensorType

GATES = {"lstm": 4, "gru": 3, "rnn": 1}
LENGTHS = np.full(2, 3, np.int32)


def operands(name: str, steps: int = 3, batch: int = 2, size: int = 5, hidden: int = 4, ways: int = 1) -> Any:
    """x, W, R and B, and where the states begin."""
    rows = GATES[name] * hidden
    x, w, r = random(steps, batch, size), random(ways, rows, size, seed=1), random(ways, rows, hidden, seed=2)
    b = random(ways, 2 * rows, seed=3)
    return [x, w, r, b], [random(ways, batch, hidden, seed=4 + i) for i in range(2 if name == "lstm" else 1)]


def folded(name: str, inputs: list[Array | None], **attrs: Any) -> tuple[Array, ...]:
    outputs = 3 if name == "lstm" else 2
    return check(name, inputs, attrs, n_outputs=outputs, formula=False, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("name", GATES)
def test_directions_and_first_states(name: str, direction: str) -> None:
    given, states = operands(name, ways=2 if direction == "bidirectional" else 1)
    hidden = {"direction": direction, "hidden_size": 4}
    folded(name, given, **hidden)
    folded(name, [*given[:3], None, None, *states], **hidden)
    folded(name, [*given, LENGTHS, *states], **hidden)


def test_the_reset_gate_before_and_behind_its_product() -> None:
    given, states = operands("gru", ways=2)
    attrs = {"direction": "bidirectional", "hidden_size": 4}
    before, after = (folded("gru", [*given, None, *states], linear_before_reset=n, **attrs) for n in (0, 1))
    assert abs(before[0] - after[0]).max() > 0.01


def test_peepholes() -> None:
    given, states = operands("lstm", ways=2)
    attrs = {"direction": "bidirectional", "hidden_size": 4}
    with_holes = folded("lstm", [*given, None, *states, random(2, 12, seed=9)], **attrs)
    assert abs(with_holes[0] - folded("lstm", [*given, None, *states], **attrs)[0]).max() > 0.01


@pytest.mark.parametrize("function", ["Relu", "Sigmoid", "Tanh"])
def test_functions_of_one_gate(function: str) -> None:
    given, _ = operands("rnn")
    folded("rnn", given, activations=(function,), hidden_size=4)


@pytest.mark.parametrize("name", GATES)
def test_batches_before_steps(name: str) -> None:
    given, states = operands(name)
    given[0], states = given[0].swapaxes(0, 1), [state.swapaxes(0, 1) for state in states]
    folded(name, [*given, None, *states], layout=1, hidden_size=4)


@pytest.mark.parametrize("name", GATES)
def test_no_steps_leave_the_states(name: str) -> None:
    given, states = operands(name)
    inputs = (given[0][:0], *given[1:], None, *states)
    types = tuple(None if a is None else TensorType.of(a) for a in inputs)
    y, *last = OPS[name].run(
        Run(OPS[name].attributes, inputs, types, (types[0],) * (len(states) + 1)), Floats()
    )
    assert y.shape == (0, 1, 2, 4)
    for state, start in zip(last, states):
        np.testing.assert_array_equal(state, start)


def claimed(model: onnx.ModelProto) -> bool:
    model.graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    return read_onnx(model).nodes[0].opaque is None


UNCLAIMED: list[tuple[str, dict[str, Any], str]] = [
    ("lstm", {"clip": 1.0}, "clip is 1.0"),
    ("lstm", {"input_forget": 1}, "input_forget is 1"),
    ("gru", {"activations": ("HardSigmoid", "Tanh")}, "activation HardSigmoid"),
    ("rnn", {"activations": ("Tanh", "Relu"), "direction": "bidirectional"}, "activations are Tanh, Relu"),
]


@pytest.mark.parametrize(("name", "attrs", "reason"), UNCLAIMED)
def test_what_is_not_claimed_is_left_to_others(name: str, attrs: dict[str, Any], reason: str) -> None:
    given, _ = operands(name, ways=2 if "direction" in attrs else 1)
    full = {**OPS[name].attributes, **attrs}
    assert OPS[name].accepts(Typed(full, tuple(map(TensorType.of, given)), (None,) * 4)) == reason
    assert not claimed(one_node(OPS[name], given, {"hidden_size": 4, **attrs}, 1, 22))


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize(("name", "attrs"), [case[:2] for case in UNCLAIMED])
def test_what_onnx_s_reference_ignores_is_not_interpreted(
    name: str, attrs: dict[str, Any], inside: bool
) -> None:
    given, _ = operands(name, ways=2 if "direction" in attrs else 1)
    model = one_node(OPS[name], given, {"hidden_size": 4, **attrs}, 1, 22)
    refused(branching(model) if inside else model, given, next(iter(attrs)))


def branching(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model in both branches of an If that the first input decides."""
    graph = model.graph
    branch = onnx.helper.make_graph(list(graph.node), "branch", [], list(graph.output))
    nodes = [
        onnx.helper.make_node("ReduceMax", ["x0"], ["most"], keepdims=0),
        onnx.helper.make_node("Cast", ["most"], ["positive"], to=onnx.TensorProto.BOOL),
        onnx.helper.make_node(
            "If", ["positive"], [o.name for o in graph.output], then_branch=branch, else_branch=branch
        ),
    ]
    del graph.node[:]
    graph.node.extend(nodes)
    return model


def refused(model: onnx.ModelProto, given: list[Array], reason: str) -> None:
    model.graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    program = read_onnx(model)
    with pytest.raises(ProgramError, match=f"opaque .* cannot run: ONNX's reference ignores {reason}"):
        interpret(program, dict(zip(program.inputs, given)))


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("name", GATES)
def test_behind_its_length_a_sequence_waits(name: str, direction: str) -> None:
    given, states = operands(name, steps=4, batch=3, ways=2 if direction == "bidirectional" else 1)
    lengths, hidden = np.array([2, 4, 1], np.int32), {"direction": direction, "hidden_size": 4}
    y, *last = folded(name, [*given, lengths, *states], **hidden)
    assert not y[2:, :, 0].any() and not y[1:, :, 2].any() and y[3, :, 1].any()
    if direction == "forward":
        np.testing.assert_array_equal(y[lengths - 1, 0, range(3)], last[0][0])
    folded(name, [*given, lengths], **hidden)
    _, *none = folded(name, [*given, np.array([0, 4, 2], np.int32), *states], **hidden)
    assert not any(state[:, 0].any() for state in none)


@pytest.mark.parametrize("lengths", [[3, 3], [3, 2]])
def test_sequences_of_many_lengths_are_claimed(lengths: list[int]) -> None:
    given, _ = operands("lstm")
    model = one_node(OPS["lstm"], [*given, np.array(lengths, np.int32)], {"hidden_size": 4}, 1, 22)
    assert claimed(model)
    model.graph.initializer.append(numpy_helper.from_array(np.array(lengths, np.int32), "x4"))
    assert claimed(model)


def test_shapes_must_agree() -> None:
    given, states = operands("lstm")
    for place, wrong in enumerate((given[0][0], given[1][:, :8], given[2][:, :8], given[3][:, :8])):
        types = [TensorType.of(wrong if n == place else array) for n, array in enumerate(given)]
        with pytest.raises(ProgramError, match="is f32"):
            OPS["lstm"].infer(Typed(OPS["lstm"].attributes, tuple(types), (None,) * 4))
    model = one_node(OPS["lstm"], [*given, None, *states], {"hidden_size": 4}, 3, 22)
    program = read_onnx(model)
    assert [str(program.type(name)) for name in program.outputs] == [
        "f32[3, 1, 2, 4]", "f32[1, 2, 4]", "f32[1, 2, 4]"
    ]  # fmt: skip
