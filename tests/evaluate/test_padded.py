"""Texts of any length are judged at few lengths by engines that compile for each, if that changes nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from decoders import VOCABULARY, decoder
from tensmith.engine import ENGINES
from tensmith.engine.base import Session
from tensmith.errors import EngineError
from tensmith.evaluate.padded import judging_texts


class Watched(Session):
    """ONNX Runtime, and the lengths that it was given."""

    def __init__(self, path: Path) -> None:
        self._session = ENGINES["onnxruntime"].prepare(path, 1)
        self.inputs, self.outputs, self.samples = self._session.inputs, self._session.outputs, 1
        self.lengths: list[int] = []

    def run(self, inputs: Any) -> dict[str, Any]:
        self.lengths += [tokens.shape[1] for tokens in inputs.values()]
        return self._session.run(inputs)


def texts(*lengths: int) -> list[dict[str, np.ndarray]]:
    random = np.random.default_rng(0)
    return [{"ids": random.integers(0, VOCABULARY, (1, length))} for length in lengths]


@pytest.mark.parametrize("mask", ["triangle", "compared", "sliced"])
def test_answers_are_those_of_the_texts_as_they_are(mask: str, tmp_path: Path) -> None:
    path = decoder(tmp_path / "d.onnx", mask=mask)
    watched = Watched(path)
    padded = judging_texts(watched, "native", path)
    for text in texts(3, 16, 17, 29, 40):
        np.testing.assert_allclose(
            padded.run(text)["logits"], watched._session.run(text)["logits"], rtol=1e-4, atol=1e-4
        )
    assert watched.lengths == [16, 16, 32, 32, 64]


def test_a_text_that_cannot_be_longer_is_computed_as_it_is(tmp_path: Path) -> None:
    path = decoder(tmp_path / "d.onnx", most=20)
    watched = Watched(path)
    padded = judging_texts(watched, "native", path)
    for text in texts(18, 19):
        assert padded.run(text)["logits"].shape[1] == text["ids"].shape[1]
    assert watched.lengths == [32, 18, 19], "the longer one is tried once"


def test_engines_that_take_any_length_are_given_texts_as_they_are(tmp_path: Path) -> None:
    path = decoder(tmp_path / "d.onnx", causal=False)
    watched = Watched(path)
    assert judging_texts(watched, "onnxruntime", path) is watched


@pytest.mark.parametrize("wrong", [{"causal": False}, {"ahead": 100}, {"scaled": True}])
def test_what_padding_may_change_is_refused(wrong: dict[str, Any], tmp_path: Path) -> None:
    path = decoder(tmp_path / "d.onnx", **wrong)
    with pytest.raises(EngineError, match=r"for each length of text, .* is not known: node"):
        judging_texts(Watched(path), "native", path)
