"""`tensmith.compress` of a language model: sequences of many lengths, judged by their likelihood."""

from __future__ import annotations

from pathlib import Path

from tensmith import compress
from token_models import language_model, stories


def test_a_language_model_is_compressed(tmp_path: Path) -> None:
    language_model(tmp_path / "bigrams.onnx")
    (tmp_path / "t.txt").write_text(stories())
    front = compress(
        tmp_path / "bigrams.onnx",
        f"text:{tmp_path / 't.txt'}",
        output=tmp_path / "out",
        engines=("onnxruntime",),
        measure="loss",
        max_drop=5,
        time_budget=1,
    )
    assert front.points
    assert all("nats" in point.metrics["accuracy"].unit for point in front.points)
