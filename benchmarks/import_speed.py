"""Seconds to import networks of published size as PyTorch exports them, one line a network."""

from __future__ import annotations

import io
import sys
import time

import models
import onnx
import torch

from tensmith.frontend.onnx import read_onnx


def main(names: list[str]) -> None:
    """Prints one line a network."""
    torch.manual_seed(0)
    for name in names or list(models.NAMES):
        module, inputs = models.build(name)
        buffer = io.BytesIO()
        exported = torch.onnx.export(module, inputs, dynamo=True, verbose=False)
        onnx.save(exported.model_proto, buffer)
        data = buffer.getvalue()
        start = time.perf_counter()
        program = read_onnx(data)
        seconds = time.perf_counter() - start
        opaque = sum(node.opaque is not None for node in program.nodes)
        size = f"{len(data) / 1e6:7.1f} MB {len(program.nodes):5} nodes {opaque:3} opaque"
        print(f"{name:16} {size} {seconds:.2f} s", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
