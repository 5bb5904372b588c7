"""What lossy methods make has names of its own, whatever names a model came with."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from lossy_samples import Interpreted, chain
from tensmith.ir import Program, interpret, make_node
from tensmith.rewrite.method import apply_lossy
from tensmith.rewrite.rule import Step

STEPS = [
    Step("int8", kind="lossy"),
    Step("dynamic_int8", kind="lossy"),
    Step("half", params={"type": "float16"}, kind="lossy"),
    Step("weight_only", params={"stored": "codes", "default_bits": 8}, kind="lossy"),
    Step("weight_only", params={"stored": "codes", "default_bits": 4}, kind="lossy"),
    Step("block_int4", kind="lossy"),
]


def network() -> Program:
    """Convolutions and a product of 64 columns."""
    base = chain()
    random = np.random.default_rng(5)
    wide = random.normal(size=(5, 64)).astype(np.float32)
    nodes = (*base.nodes, make_node("matmul", (base.outputs[0], "wide"), ("high",)))
    nodes += (make_node("matmul", ("high", "narrow"), ("low",)),)
    narrow = random.normal(size=(64, 6)).astype(np.float32)
    return replace(
        base, nodes=nodes, outputs=("low",), constants={**base.constants, "wide": wide, "narrow": narrow}
    )


@pytest.mark.parametrize("step", STEPS, ids=lambda step: f"{step.rule}-{step.params.get('default_bits', '')}")
def test_a_model_may_have_any_names(step: Step) -> None:
    plain = network()
    after = apply_lossy(plain, step, Interpreted())
    made = sorted(after.names - plain.names)
    assert made, "nothing has a name of its own"
    others = [make_node("neg", ("x",), (name,)) for name in made]
    taken = replace(plain, nodes=(*plain.nodes, *others), outputs=(*plain.outputs, *made))
    x = np.random.default_rng(1).normal(size=(4, 3, 6, 6)).astype(np.float32)
    answers = interpret(apply_lossy(taken, step, Interpreted()), {"x": x})
    np.testing.assert_array_equal(answers.pop("low"), interpret(after, {"x": x})["low"])
    for answer in answers.values():
        np.testing.assert_allclose(answer, -x, atol=0.05)  # int8 rounds inputs for whoever reads them
