"""Lossy methods on models that hold recurrent layers: smaller where they act, unharmed where they do not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lossy_samples import Interpreted
from tensmith.backend.onnx import to_onnx
from tensmith.errors import ProgramError
from tensmith.frontend.onnx import read_onnx
from tensmith.ir import Program, TensorType, interpret, make_node
from tensmith.rewrite.method import LOSSY, Prospect, apply_lossy
from tensmith.rewrite.rule import EVERYWHERE, Step


def tagger(head: bool = True) -> Program:
    """Two directions over a sequence, and a product behind them."""
    random = np.random.default_rng(0)

    def weights(*shape: int) -> np.ndarray:
        return (random.standard_normal(shape) / shape[-1] ** 0.5).astype(np.float32)

    constants = {"w": weights(2, 32, 6), "r": weights(2, 32, 8), "b": weights(2, 64), "m": weights(8, 10)}
    lstm = make_node("lstm", ("x", "w", "r", "b"), ("y",), {"direction": "bidirectional", "hidden_size": 8})
    nodes = [lstm, make_node("matmul", ("y", "m"), ("tags",))] if head else [lstm]
    inputs = {"x": TensorType("f32", (5, 1, 6))}
    kept = constants if head else {name: constants[name] for name in "wrb"}
    return Program("tagger", inputs, (nodes[-1].output,), tuple(nodes), kept)


def moved(program: Program, treated: Program) -> float:
    """How far the output moves, as a share of its range."""
    x = np.random.default_rng(1).standard_normal((5, 1, 6)).astype(np.float32)
    before, after = (interpret(p, {"x": x})[program.outputs[0]] for p in (program, treated))
    return float(abs(before - after).max() / np.ptp(before))


def on_grid(program: Program, **params: Any) -> Program:
    return apply_lossy(program, Step("weight_only", EVERYWHERE, params, "lossy"), Interpreted())


@pytest.mark.parametrize("head", [True, False])
@pytest.mark.parametrize("stored", ["codes", "floats"])
def test_weights_on_a_grid(stored: str, head: bool) -> None:
    program = tagger(head)
    eight, three = (on_grid(program, stored=stored, default_bits=bits) for bits in (8, 3))
    assert 0 < moved(program, eight) < 0.02 < moved(program, three)
    assert read_onnx(to_onnx(eight)).outputs == program.outputs
    if stored == "codes":
        floats, codes = (sum(a.nbytes for a in p.constants.values()) for p in (program, eight))
        assert codes < 0.55 * floats


def test_a_layer_can_be_skipped() -> None:
    program = tagger()
    assert moved(program, on_grid(program, stored="floats", skip=["y", "tags"])) == 0


def test_bits_that_are_no_grid() -> None:
    with pytest.raises(ProgramError, match="2 to 8 bits"):
        on_grid(tagger(False), default_bits=1)


@pytest.mark.parametrize("method", list(LOSSY))
def test_the_plain_forms_of_every_method_run(method: str) -> None:
    """As a search begins with them."""
    program = tagger()
    for form in LOSSY[method].starts(Prospect(program, 8, frozenset(), {}, dict)):
        treated = program
        for step in form.steps:
            treated = apply_lossy(treated, step, Interpreted())
        assert moved(program, treated) < 1
