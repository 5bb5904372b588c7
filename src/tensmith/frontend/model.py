"""A model file as a program, whatever its format; and as the ONNX file that engines load."""

from __future__ import annotations

from pathlib import Path

from tensmith.data.gguf import is_gguf
from tensmith.frontend.gguf import read_gguf
from tensmith.frontend.onnx import read_onnx
from tensmith.ir import Program


def read_model(path: Path) -> Program:
    """The program in an .onnx or a .gguf file. ModelError for whatever is wrong with it."""
    return read_gguf(path) if is_gguf(path) else read_onnx(path)


def read_weights_open(path: Path) -> Program:
    """As read_model; codes of a .gguf file become numbers, for methods that choose codes of their own."""
    return read_gguf(path, codes=False) if is_gguf(path) else read_onnx(path)
