"""Heads of PyTorch's own attention go, where an export leaves its batch and its length open."""

from __future__ import annotations

import io
import logging
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import onnxruntime
import pytest

from tensmith.backend.onnx import to_onnx
from tensmith.formula.arith import Array
from tensmith.frontend.onnx import read_onnx
from tensmith.rewrite.lossy.dependency import groups, without_channels
from tensmith.rewrite.trail import simplify

torch = pytest.importorskip("torch", reason="the torch extra is not installed")
pytest.importorskip("onnxscript", reason="the torch extra is not installed")

HEADS, SIZE = 4, 4
WIDTH = HEADS * SIZE
GONE = np.array([0, 2])


def apart() -> Any:
    """Attention of queries, keys and values that are not one: of one, tracing writes the length it saw."""

    class Apart(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.self_attn = torch.nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)

        def forward(self, x: Any) -> Any:
            return self.self_attn(x, x + 0.5, 2 * x, need_weights=False)[0]

    return Apart()


def layer(**options: bool) -> Any:
    return torch.nn.TransformerEncoderLayer(WIDTH, HEADS, 2 * WIDTH, **options)


def exported(module: Any, dynamo: bool) -> bytes:
    """A file whose first two sizes are open."""
    axes: dict[str, Any] = {"dynamic_axes": {"x": {0: "one", 1: "other"}}}
    if dynamo:
        one, other = torch.export.Dim("one"), torch.export.Dim("other")
        axes = {"dynamic_shapes": ({0: one, 1: other},), "verbose": False}
    buffer = io.BytesIO()
    example = torch.zeros(2, 5, WIDTH)
    torch.onnx.export(module.eval(), (example,), buffer, dynamo=dynamo, input_names=["x"], **axes)
    return buffer.getvalue()


def run(model: bytes, x: Array) -> Array:
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, {"x": x})[0])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("made", "dynamo"), [(apart, False), (partial(layer, batch_first=True), True), (layer, True)]
)
def test_half_of_the_heads_go(made: Callable[[], Any], dynamo: bool, caplog: Any) -> None:
    caplog.set_level(logging.CRITICAL)
    torch.manual_seed(0)
    module = made()
    mixed = module.self_attn.out_proj.weight
    with torch.no_grad():  # nobody looks at these heads
        mixed.reshape(WIDTH, HEADS, SIZE)[:, GONE] = 0
    model = exported(module, dynamo)
    program = simplify(read_onnx(model)).program
    heads = groups(program)[0]
    assert (heads.size, heads.width, len(heads.consumers)) == (HEADS, SIZE, 1)
    after = without_channels(program, heads, GONE)
    assert sum(a.size for a in after.constants.values()) < sum(a.size for a in program.constants.values())
    small = to_onnx(after).SerializeToString()
    for sizes in ((3, 7), (1, 11)):
        x = np.random.default_rng(0).normal(size=(*sizes, WIDTH)).astype(np.float32)
        # Sums of some tens of float32 terms in another order.
        np.testing.assert_allclose(run(small, x), run(model, x), rtol=1e-4, atol=1e-5)
