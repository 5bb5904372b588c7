"""A model file as a program, whatever its format; and as the ONNX file that engines load."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from tensmith.data.gguf import is_gguf
from tensmith.formula.arith import Array
from tensmith.frontend.gguf import read_gguf
from tensmith.frontend.onnx import read_onnx
from tensmith.ir import Program


def read_model(path: Path) -> Program:
    """The program in an .onnx or a .gguf file. ModelError for whatever is wrong with it."""
    return read_gguf(path) if is_gguf(path) else read_onnx(path)


def read_weights_open(path: Path, put: Callable[[Array], Array] = np.asarray) -> Program:
    """As read_model; codes of a .gguf file become numbers, for methods that choose codes of their own.

    put: what is done with each such tensor, which is no view of the file; a program of them may be large.
    """
    return read_gguf(path, codes=False, put=put) if is_gguf(path) else read_onnx(path)
