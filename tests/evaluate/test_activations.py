"""What a layer multiplies is what the program computes, from whatever cut it is computed on."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tensmith.data import Subset, as_dataset
from tensmith.errors import OutputError, is_of_disk
from tensmith.evaluate import activations
from tensmith.evaluate.activations import pieces_to
from tensmith.evaluate.calibrator import Calibrator
from tensmith.formula.poly import Poly
from tensmith.ir import Program, TensorType, make_node
from tensmith.ir.interpreter import interpret
from tensmith.rewrite.lossy.weights import weighted_layers

SQUARE = {"strides": (1, 1), "dilations": (1, 1), "pads": (0, 0, 0, 0)}
SOME = Poly.symbol("n")
SAMPLES = np.random.default_rng(0).standard_normal((10, 4, 3, 3)).astype(np.float32)


def block(batch: Any = SOME) -> Program:
    """A residual block of three convolutions, the second weights dequantized, a head behind a shape."""
    random = np.random.default_rng(1)
    constants = {name: random.standard_normal((4, 4, 1, 1)).astype(np.float32) for name in "acd"}
    constants |= {
        "b.codes": random.integers(-7, 7, (4, 4, 1, 1)).astype(np.int8),
        "b.scale": np.full(4, 0.1, np.float32),
        "b.zero": np.zeros(4, np.int8),
        "head": random.standard_normal((36, 5)).astype(np.float32),
    }
    nodes = (
        make_node("dequantize_linear", ("b.codes", "b.scale", "b.zero"), ("b",), {"axis": 0}),
        make_node("conv", ("x", "a"), ("first",), SQUARE),
        make_node("relu", ("first",), ("early",)),
        make_node("conv", ("early", "b"), ("second",), SQUARE),
        make_node("sigmoid", ("second",), ("gate",)),
        make_node("conv", ("gate", "c"), ("third",), SQUARE),
        make_node("add", ("third", "early"), ("sum",)),
        make_node("conv", ("sum", "d"), ("fourth",), SQUARE),
        make_node("mul", ("fourth", "x"), ("scaled",)),
        make_node("flatten", ("scaled",), ("flat",), {"axis": 1}),
        make_node("matmul", ("flat", "head"), ("y",)),
    )
    return Program("net", {"x": TensorType("f32", (batch, 4, 3, 3))}, ("y",), nodes, constants)


def calibrator() -> Calibrator:
    return Calibrator(Subset(as_dataset((SAMPLES, None)).part("all"), np.arange(10)), None, 1)


def multiplied(given: Calibrator, program: Program, site: str, batch: int = 4) -> np.ndarray[Any, Any]:
    found = given._activations.of(pieces_to(program, site, batch), batch)
    return np.concatenate(list(found))


def changed(program: Program, name: str) -> Program:
    return program.with_constants({name: program.constants[name] * np.float32(0.5)})


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Program]:
    """The pieces that ran, in order."""
    seen: list[Program] = []
    loaded = activations.session_of

    def counted(program: Program, threads: int) -> Any:
        seen.append(program)
        return loaded(program, threads)

    monkeypatch.setattr(activations, "session_of", counted)
    return seen


@pytest.mark.parametrize("batch", [SOME, 2, 1], ids=["any batch", "two at a time", "one"])
@pytest.mark.parametrize("kept", [1 << 28, 1], ids=["all cuts kept", "one cut kept"])
def test_all_layers_in_any_order(batch: Any, kept: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(activations, "_KEPT_BYTES", kept)
    program, given = block(batch), calibrator()
    layers = weighted_layers(program)
    truth = {
        "x": SAMPLES,
        **interpret(replace(block(), outputs=("early", "gate", "sum", "flat")), {"x": SAMPLES}),
    }
    for layer in [*layers, *reversed(layers)]:
        name = layer.node.inputs[0]
        np.testing.assert_allclose(multiplied(given, program, layer.site), truth[name], rtol=1e-5, atol=1e-5)


def test_whoever_changes_layer_after_layer_walks_the_network_once(made: list[Program]) -> None:
    program, given = block(), calibrator()
    for site, weights in {"first": "a", "third": "c", "fourth": "d", "y": "head"}.items():
        multiplied(given, program, site)
        program = changed(program, weights)
    ran = [node.output for piece in made for node in piece.nodes if node.op == "conv"]
    assert sorted(ran) == sorted(set(ran))
    np.testing.assert_allclose(
        multiplied(given, program, "y"),
        interpret(replace(program, outputs=("flat",)), {"x": SAMPLES})["flat"],
        rtol=1e-5,
        atol=1e-5,
    )


def test_what_was_at_hand_changes_no_bit() -> None:
    fresh, used = calibrator(), calibrator()
    multiplied(used, block(), "y")
    again = changed(block(), "c")
    np.testing.assert_array_equal(multiplied(used, again, "y"), multiplied(fresh, again, "y"))


def test_a_full_disk_is_no_program_s_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*given: object) -> None:
        raise OSError("144 requested and 0 written")  # as NumPy says it, without a number

    monkeypatch.setattr(np, "save", full)
    with pytest.raises(OutputError, match=r"144 requested and 0 written.*set TMPDIR") as raised:
        multiplied(calibrator(), block(), "y")
    assert is_of_disk(raised.value)


def test_wide_values_are_no_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(activations, "_CUT_BYTES", 1)
    assert [piece.names for piece in pieces_to(block(), "y", 4)] == [("flat",)]
    truth = interpret(replace(block(), outputs=("flat",)), {"x": SAMPLES})["flat"]
    np.testing.assert_allclose(multiplied(calibrator(), block(), "y"), truth, rtol=1e-5, atol=1e-5)


def test_a_piece_holds_what_constants_alone_make() -> None:
    names = [{node.op for node in piece.program.nodes} for piece in pieces_to(block(), "y", 4)]
    assert sum("dequantize_linear" in ops for ops in names) == 1


def test_what_sizes_alone_make_is_made_anew(made: list[Program]) -> None:
    """A mask and positions of the length, as decoders have them, are no values to keep."""
    random = np.random.default_rng(2)
    constants = {name: random.standard_normal((3, 3)).astype(np.float32) for name in "abc"}
    constants |= {"start": np.array(0), "step": np.array(1), "none": np.array([0]), "scale": np.float32(0.1)}
    nodes = (
        make_node("shape", ("x",), ("length",), {"start": 1, "end": 2}),
        make_node("reshape", ("length", "empty"), ("count",)),
        make_node("range", ("start", "count", "step"), ("places",)),
        make_node("cast", ("places",), ("floats",), {"to": 1}),
        make_node("matmul", ("x", "a"), ("first",)),
        make_node("reshape", ("floats", "column"), ("rows",)),
        make_node("mul", ("first", "rows"), ("second",)),
        make_node("matmul", ("second", "b"), ("third",)),
        make_node("add", ("third", "rows"), ("fourth",)),
        make_node("matmul", ("fourth", "c"), ("y",)),
    )
    constants |= {"empty": np.zeros(0, np.int64), "column": np.array([-1, 1])}
    shape = (SOME, Poly.symbol("l"), 3)
    program = Program("net", {"x": TensorType("f32", shape)}, ("y",), nodes, constants)
    samples = random.standard_normal((10, 5, 3)).astype(np.float32)
    view = Subset(as_dataset((samples, None)).part("all"), np.arange(10))
    given = Calibrator(view, None, 1)
    truth = interpret(replace(program, outputs=("second", "fourth")), {"x": samples})
    for site, name in {"third": "second", "y": "fourth"}.items():
        np.testing.assert_allclose(multiplied(given, program, site), truth[name], rtol=1e-5, atol=1e-5)
    ran = [node.output for piece in made for node in piece.nodes if node.op == "matmul"]
    assert sorted(ran) == ["first", "third"]
