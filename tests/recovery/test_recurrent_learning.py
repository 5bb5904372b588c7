"""Recurrent layers learn: their gradients, and weights on a grid."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch", reason="the torch extra is not installed")
import torch

from lossy_samples import Interpreted
from tensmith.ir import Program, TensorType, make_node
from tensmith.recovery.learnable import learning_constants
from tensmith.recovery.learning import LearningFloats, LearningGrid
from tensmith.recovery.network import TorchNetwork, require_agreement
from tensmith.rewrite.method import apply_lossy
from tensmith.rewrite.rule import Step

GATES = {"lstm": 4, "gru": 3, "rnn": 1}
HIDDEN, SIZE, STEPS = 8, 6, 5


def layer(op: str, direction: str = "forward", layout: int = 0) -> Program:
    """All of its outputs."""
    random = np.random.default_rng(0)
    ways, rows = (2 if direction == "bidirectional" else 1), GATES[op] * HIDDEN
    shapes = {"w": (ways, rows, SIZE), "r": (ways, rows, HIDDEN), "b": (ways, 2 * rows)}
    constants = {name: random.normal(size=shape).astype(np.float32) / 3 for name, shape in shapes.items()}
    outputs = ("y", "h", "c") if op == "lstm" else ("y", "h")
    attrs = {"direction": direction, "hidden_size": HIDDEN, "layout": layout}
    node = make_node(op, ("x", "w", "r", "b"), outputs, attrs)
    return Program(op, {"x": TensorType("f32", (STEPS, 2, SIZE))}, outputs, (node,), constants)


def inputs() -> dict[str, np.ndarray]:
    return {"x": np.random.default_rng(1).normal(size=(STEPS, 2, SIZE)).astype(np.float32)}


def on_grid(program: Program, stored: str) -> Program:
    params = {"stored": stored, "default_bits": 3}
    return apply_lossy(program, Step("weight_only", params=params, kind="lossy"), Interpreted())


@pytest.mark.parametrize("layout", [0, 1])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("op", GATES)
def test_a_layer_answers_as_its_program_and_has_gradients(op: str, direction: str, layout: int) -> None:
    program = layer(op, direction, layout)
    network = TorchNetwork(program, learning_constants(program, False), "cpu")
    require_agreement(network, inputs())
    sum(value.sum() for value in network(inputs())).backward()
    assert {name: type(each) for name, each in network.learning.items()} == dict.fromkeys(
        "wrb", LearningFloats
    )
    assert all(bool((tensor.grad != 0).any()) for tensor, _ in network.parameters.values())


def test_gates_that_are_shut_have_gradients() -> None:
    """A sigmoid of a very small number is zero, and so is its gradient."""
    program = layer("gru")
    shut = program.with_constants({"b": np.full_like(program.constants["b"], -80.0)})
    network = TorchNetwork(shut, learning_constants(shut, False), "cpu")
    sum(value.sum() for value in network(inputs())).backward()
    assert all(bool(torch.isfinite(tensor.grad).all()) for tensor, _ in network.parameters.values())


@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
@pytest.mark.parametrize("stored", ["codes", "floats"])
def test_weights_on_a_grid_stay_on_it(stored: str, direction: str) -> None:
    program = layer("gru", direction)
    rounded = on_grid(program, stored)
    network = TorchNetwork(rounded, learning_constants(rounded, False), "cpu")
    require_agreement(network, inputs())
    grids = {name: each for name, each in network.learning.items() if isinstance(each, LearningGrid)}
    assert len(grids) == 2
    with torch.no_grad():
        for tensor, unit in network.parameters.values():
            tensor += unit * torch.randn(tensor.shape, generator=torch.Generator().manual_seed(0))
    written = {n: a.astype(rounded.constants[n].dtype) for n, a in network.written().items()}
    network.program = rounded.with_constants(written)
    require_agreement(network, inputs())
    for name in grids:
        assert all(len(np.unique(row)) <= 7 for row in written[name].reshape(-1, written[name].shape[-1]))


@pytest.mark.parametrize("stored", ["codes", "floats"])
def test_codes_begin_at_the_numbers_that_were_rounded(stored: str) -> None:
    program = layer("lstm", "bidirectional")
    rounded = on_grid(program, stored)
    plain, leaning = (learning_constants(rounded, False, floats=each) for each in (None, program))
    grids = [(plain[name], each) for name, each in leaning.items() if isinstance(each, LearningGrid)]
    assert len(grids) == 2
    for other, grid in grids:
        assert isinstance(other, LearningGrid) and torch.equal(grid.codes(), other.codes())
        assert float((grid.numbers - other.numbers).detach().abs().max()) > 0.01
