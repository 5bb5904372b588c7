"""Two small classifiers that the tests of this folder measure."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from linear_model import save_linear


@pytest.fixture
def linear(tmp_path: Path) -> Path:
    """The identity on 4 features: the answer is the largest feature."""
    return save_linear(tmp_path / "linear.onnx", "batch", np.eye(4))


@pytest.fixture
def linear_batch_3(tmp_path: Path) -> Path:
    """The same with a batch of exactly 3."""
    return save_linear(tmp_path / "linear3.onnx", 3, np.eye(4))
