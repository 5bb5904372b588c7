"""Without labels a model is judged by classes, or by all it answers where that is another thing."""

from __future__ import annotations

from unittest import mock

import pytest

from tensmith.evaluate.task import choose_measure
from tensmith.ir.text_parser import parse_program


@pytest.mark.parametrize(
    ("shape", "measure"),
    [
        ("n, 10", "agreement"),
        ("n, 1000, 1, 1", "agreement"),
        ("n, 4, 8, 8", "fidelity"),
        ("n, length, 9", "fidelity"),
        ("n, 1", "fidelity"),
        ("n", "fidelity"),
    ],
)
def test_answers_at_several_places_and_one_number_are_no_class(shape: str, measure: str) -> None:
    text = f"program p {{\n  input %x: f32[{shape}]\n  %y = relu(%x)\n  return %y\n}}"
    program, unlabelled = parse_program(text), mock.Mock(task="unlabelled")
    assert choose_measure(unlabelled, "auto", None, program) == measure
    assert choose_measure(unlabelled, "agreement", None, program) == "agreement"
