"""What is checked of a stranger's ONNX file before an engine sees it.

Engines read files in C++ of their own, which inlines functions without end and follows paths out of the
model's folder. So whoever hands a file to one asks here first; nothing is typed, converted or kept.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tensmith import gate
from tensmith.data.mapped import let_go
from tensmith.errors import ModelError
from tensmith.frontend.model_files import external_files
from tensmith.frontend.onnx_file import parse_onnx
from tensmith.frontend.onnx_passes import bound_expansion
from tensmith.frontend.onnx_valid import check_fields
from tensmith.ir import Program
from tensmith.ir.ops.product import Product


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


def working(program: Program, name: str) -> Program:
    """The program itself; ModelError if its weights hold NaN or infinity.

    Minus infinity may stand in what no layer multiplies by: masks add it to hide what is not to be seen.
    """
    layers = (node for node in program.nodes if node.kind(Product) is not None)
    multiplied = {value for node in layers for value in node.inputs}
    for weight, array in program.constants.items():
        wrong = array.dtype.kind == "f" and array.size > 1 and not np.isfinite(array).all()
        let_go(array)
        if wrong and (weight in multiplied or np.isnan(array).any() or np.isposinf(array).any()):
            raise ModelError(f"{name}: weight '{weight}' holds NaN or infinity; export a model that works")
    return program
