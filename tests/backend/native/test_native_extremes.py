"""Large numbers: compiled activations and reductions do not overflow where the interpreter does not."""

from __future__ import annotations

from pathlib import Path

import pytest
from native_programs import compile_folder

from extremes import activations, check, reductions
from tensmith.backend.native.emit.loader import Model

CASES = {"tensors": activations(2, 7), "images": activations(1, 2, 7, 1), "reductions": reductions()}


@pytest.mark.parametrize("case", CASES)
def test_large_numbers(case: str, tmp_path: Path) -> None:
    program, x = CASES[case]
    check(program, x, Model(compile_folder(program, tmp_path))(x=x))
