"""Seconds to import networks of published size as PyTorch exports them.

python -m benchmarks.compress.import_speed [--only resnet18,...]
"""

from __future__ import annotations

import io
import sys
import time

import onnx
import torch

from benchmarks import models, parts
from tensmith.frontend.onnx import read_onnx


def measured(name: str) -> parts.Found:
    """One network."""
    torch.manual_seed(0)
    module, inputs = models.build(name)
    buffer = io.BytesIO()
    exported = torch.onnx.export(module, inputs, dynamo=True, verbose=False)
    onnx.save(exported.model_proto, buffer)
    data = buffer.getvalue()
    start = time.perf_counter()
    program = read_onnx(data)
    seconds = time.perf_counter() - start
    opaque = sum(node.opaque is not None for node in program.nodes)
    row = {"seconds": seconds, "bytes": len(data), "nodes": len(program.nodes), "opaque": opaque}
    return parts.Found(row=row)


def main() -> int:
    """1 where a network could not be imported."""
    parser = parts.arguments(__doc__)
    parser.add_argument("--only", type=parts.names, default=[*models.NAMES], help="networks, as A,B")
    options = parser.parse_args()
    settings = {"bench": "import_speed"}
    return parts.main(options.only, measured, options.output, settings)


if __name__ == "__main__":
    sys.exit(main())
