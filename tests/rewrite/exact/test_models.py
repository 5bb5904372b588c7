"""Models as PyTorch exports them: simplified to what they compute, and nothing else."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from tensmith.backend.onnx import to_onnx
from tensmith.formula.arith import PrimeField
from tensmith.frontend.onnx import read_onnx
from tensmith.ir import Program, interpret
from tensmith.rewrite.trail import replay_exact, simplify

# Nodes that are left: convolutions, activations, additions, the head, and shortcuts that stride.
MOST_NODES = {
    "resnet8_cifar10": 21,
    "resnet20_cifar10": 53,
    "resnet56_cifar10": 143,
    "mobilenetv2_imagenet": 99,
    "squeezenet1_1_imagenet": 64,
    "stories260k": 357,
}
# float32 sums of a few thousand terms in another order, through tens of layers.
TOLERANCE = 2e-5


def feeds(program: Program) -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)
    sizes = {"batch": 2, "length": 9}
    found: dict[str, np.ndarray] = {}
    for name, type_ in program.inputs.items():
        shape = [sizes.get(str(dim), dim) for dim in type_.dims]
        floats = random.standard_normal(shape).astype(np.float32)
        found[name] = floats if type_.floating else random.integers(0, 500, shape)
    return found


def outputs(model: bytes | str, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return list(session.run(None, inputs))


@pytest.mark.data
@pytest.mark.parametrize("name", list(MOST_NODES))
def test_a_simplified_model_is_small_replays_and_computes_the_same(data_dir: Path, name: str) -> None:
    path = data_dir / "models" / f"{name}.onnx"
    program = read_onnx(path)
    simple = simplify(program)
    assert len(simple.program.nodes) <= MOST_NODES[name]
    assert replay_exact(program, simple.trail).digest == simple.program.digest
    inputs = feeds(program)
    before = outputs(str(path), inputs)
    after = outputs(to_onnx(simple.program).SerializeToString(), inputs)
    for ours, theirs in zip(before, after, strict=True):
        assert np.max(np.abs(ours - theirs)) <= TOLERANCE * np.max(np.abs(ours))


@pytest.mark.data
def test_a_simplified_network_is_equal_over_a_prime_field(data_dir: Path) -> None:
    program = read_onnx(data_dir / "models" / "resnet20_cifar10.onnx")
    field = PrimeField(1_048_573, 7)
    inputs = {"input": field.random("input", (1, 3, 32, 32))}
    before = interpret(program, inputs, field)
    after = interpret(simplify(program, fold=False).program, inputs, field)
    assert np.array_equal(before["logits"], after["logits"])
