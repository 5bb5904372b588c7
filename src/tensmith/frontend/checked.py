"""What is checked of a stranger's ONNX file before an engine sees it.

Engines read files in C++ of their own, which inlines functions without end and follows paths out of the
model's folder. So whoever hands a file to one asks here first; nothing is typed, converted or kept.
"""

from __future__ import annotations

from pathlib import Path

from tensmith import gate
from tensmith.frontend.model_files import external_files
from tensmith.frontend.onnx_file import parse_onnx
from tensmith.frontend.onnx_passes import bound_expansion
from tensmith.frontend.onnx_valid import check_fields


def check_model(path: Path) -> None:
    """ModelError unless `path` is a model in whose bounds an engine ends.

    That is: a regular file, fields that hold what they say, functions that end, and external data in regular
    files of the model's own folder.
    """
    model = parse_onnx(gate.read_bytes(path, gate.MODEL), str(path))
    check_fields(model, str(path))
    bound_expansion(model, str(path))
    for file in external_files(path, model):
        gate.check(file, gate.WEIGHTS)
