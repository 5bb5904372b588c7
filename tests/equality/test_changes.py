"""What a pass leaves alone is not run; what it computes otherwise must be what it was."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from nets import Net
from small_network import network
from tensmith.equality import changes, programs
from tensmith.equality.changes import PassComparison, compare_changes
from tensmith.ir import Node, Program, TensorType, make_node


def with_node(program: Program, name: str, *nodes: Node, **constants: np.ndarray) -> Program:
    """The program with other nodes in the place of the one that makes a value."""
    kept = [new for old in program.nodes for new in (nodes if old.output == name else (old,))]
    return replace(program, nodes=tuple(kept), constants={**program.constants, **constants}, _known={})


def three() -> Program:
    net = Net(1, 4)
    a = net.add("mul", "x", net.constant(1, 4))
    b = net.add("exp", a)
    return net.program(net.add("add", b, a))


def test_what_did_not_change_is_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "compare_regions", None)
    start = network()
    copied = replace(start, nodes=tuple(replace(node) for node in start.nodes), _known={})
    found = compare_changes(start, copied)
    assert (found.evidence, found.error_probability, found.detail) == ("checked", 0.0, "nothing changed")


def test_only_what_differs_is_run(monkeypatch: pytest.MonkeyPatch) -> None:
    regions = []
    compare = changes.compare_regions
    monkeypatch.setattr(
        changes, "compare_regions", lambda *sides: regions.append(sides[:2]) or compare(*sides)
    )
    less = [make_node("neg", ("v0",), ("w",)), make_node("sub", ("v1", "w"), ("v2",))]
    start = three()
    found = compare_changes(start, with_node(start, "v2", *less))
    assert found.evidence == "checked" and 0 < found.error_probability < 1e-8 and found.primes >= 2
    assert [[node.op for node in side.nodes] for side in regions[-1]] == [["add"], ["neg", "sub"]]


def test_operands_that_commute_need_not_be_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "compare_regions", None)
    turned = make_node("add", ("v0", "v1"), ("v2",))
    start = three()
    assert compare_changes(start, with_node(start, "v2", turned)).evidence == "checked"


@pytest.mark.parametrize(
    "wrong",
    [
        make_node("sub", ("v1", "v0"), ("v2",)),
        make_node("add", ("v1", "v1"), ("v2",)),
        make_node("add", ("v1", "x"), ("v2",)),
        make_node("max", ("v1", "v0"), ("v2",)),
    ],
)
def test_another_value_is_named_with_its_node(wrong: Node) -> None:
    start = three()
    found = compare_changes(start, with_node(start, "v2", wrong))
    assert found.different == "v2" and found.node == wrong.label


def test_an_output_of_another_type_is_different() -> None:
    start = three()
    cast = make_node("cast", ("w",), ("v2",), {"to": 11})
    last = replace(start.nodes[-1], outputs=("w",))
    assert compare_changes(start, with_node(start, "v2", last, cast)).different == "v2"


def test_what_rounds_is_tested_on_numbers() -> None:
    net = Net(1, 64)
    scale, low = net.constant(values=np.float32(0.05)), net.constant(values=np.int8(-3))
    high = net.constant(values=np.uint8(125))
    codes = net.add("quantize_linear", "x", scale, low)
    start = net.program(net.add("dequantize_linear", codes, scale, low))
    raised = [
        make_node("quantize_linear", ("x", scale, high), (codes,)),
        make_node("dequantize_linear", (codes, scale, high), ("v1",)),
    ]
    after = replace(start, nodes=tuple(raised), _known={})
    found = compare_changes(start, after)
    assert (found.evidence, found.error_probability) == ("tested", 1.0)
    off = replace(after, constants={**after.constants, high: np.uint8(124)}, _known={})
    assert compare_changes(start, off).different == "v1"


@pytest.mark.parametrize("added", [False, True])
def test_a_step_that_some_elements_take_excuses_no_other(added: bool) -> None:
    """Of so many elements some are next to a step, and are a whole step off when their inputs round."""
    net = Net(1, 1 << 16)
    third, scale = (net.constant(values=np.float32(number)) for number in (1 / 3, 2**-12))
    low = net.constant(values=np.uint16(1 << 15))
    less = net.add("mul", net.add("mul", "x", third), third)
    codes = net.add("quantize_linear", less, scale, low)
    whole = net.add("dequantize_linear", codes, scale, low)
    start = net.program(net.add("add", whole, "x") if added else net.add("identity", whole))
    (value,) = start.outputs

    def changed(factor: float, zero: int) -> PassComparison:
        nodes = (
            make_node("mul", ("x", "factor"), ("scaled",)),
            make_node("quantize_linear", ("scaled" if factor else less, scale, low), ("others",)),
            make_node("dequantize_linear", ("others", scale, "zero"), ("w",)),
            make_node("add", ("w", "x"), (value,)) if added else make_node("identity", ("w",), (value,)),
        )
        constants = {"factor": np.float32(factor), "zero": np.uint16(zero)}
        return compare_changes(start, with_node(start, value, *nodes, **constants))

    ninth = start.constants[third] * start.constants[third]
    assert changed(ninth, 1 << 15).evidence == "tested"
    assert changed(0, (1 << 15) - 1).different == value
    assert changed(ninth, (1 << 15) - 1).different == value


def test_an_equality_of_more_than_the_nearest_values_is_found_from_the_inputs() -> None:
    """b / a is x where b = a * x: as a function of a and b alone it is not."""
    net = Net(1, 4)
    a = net.add("exp", "x")
    b = net.add("mul", a, "x")
    start = net.program(net.add("sigmoid", net.add("identity", "x")), a, b)
    divided = make_node("div", (b, a), ("v2",))
    assert compare_changes(start, with_node(start, "v2", divided)).evidence == "checked"


def test_an_opaque_node_in_what_differs_is_not_checked() -> None:
    start = three()
    strange = Node("onnx.Mystery", ("v1", "v0"), ("v2",), opaque=b"")
    after = replace(with_node(start, "v2", strange), hints={"v2": start.type("v2")})
    assert compare_changes(start, after).evidence == "not checked"


def test_a_program_that_is_none_any_more_is_different() -> None:
    start = three()
    twice = replace(start, nodes=(*start.nodes, start.nodes[0]), _known={})
    found = compare_changes(start, twice)
    assert found.different and "a second time" in found.detail


def test_what_is_found_does_not_hang_on_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    start = three()
    less = [make_node("neg", ("v0",), ("w",)), make_node("sub", ("v1", "w"), ("v2",))]
    found = compare_changes(start, with_node(start, "v2", *less))
    clock = itertools.count(step=1e6)
    monkeypatch.setattr(programs.time, "perf_counter", lambda: next(clock))
    assert compare_changes(start, with_node(start, "v2", *less)) == found


@pytest.mark.parametrize("dtype", ["i16", "i32", "i64"])
def test_integers_of_every_width_are_more_than_0_and_1(dtype: str) -> None:
    inputs = {"x": TensorType(dtype, (64,)), "z": TensorType("f32", (64,))}
    codes = (make_node("cast", ("x",), ("v",), {"to": 1}), make_node("add", ("v", "z"), ("y",)))
    start = Program("p", inputs, ("y",), codes, {})
    assert compare_changes(start, with_node(start, "v", codes[0])).evidence == "checked"
    other = make_node("cast", ("x",), ("w",), {"to": 1}), make_node("mul", ("w", "w"), ("v",))
    assert compare_changes(start, with_node(start, "v", *other)).different == "v"
