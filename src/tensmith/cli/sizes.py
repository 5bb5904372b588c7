"""A model file at fixed sizes, which is what can be compiled."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tensmith.errors import UsageError

if TYPE_CHECKING:
    from tensmith.ir import Program


def with_batch(model: Path, batch: int) -> Program:
    """The model for `batch` samples where its first size is open; others as `tensmith bench` has them."""
    from tensmith.backend.native.plan import fixed
    from tensmith.engine.base import sizes_of
    from tensmith.engine.signature import read_signature
    from tensmith.evaluate.bench import random_inputs
    from tensmith.frontend.onnx import read_onnx

    if batch < 1:
        raise UsageError("--batch is a whole number from 1")
    specs = read_signature(model).inputs
    return fixed(read_onnx(model), sizes_of(specs, random_inputs(specs, batch)))
