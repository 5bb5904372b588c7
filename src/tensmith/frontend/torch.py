"""PyTorch modules as TensIR programs, by torch.export through ONNX."""

from __future__ import annotations

import contextlib
import logging
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tensmith.errors import ModelError, first_line, needing
from tensmith.files import TemporaryFolder
from tensmith.frontend.onnx import read_onnx
from tensmith.ir.program import Program

# Weights past this are handed over through a file that is mapped, so that they are not copied.
_IN_MEMORY_BYTES = 1 << 28


def read_torch(module: Any, example_inputs: Any, *, opset: int | None = None) -> Program:
    """The program of an `nn.Module` in evaluation mode.

    `example_inputs` is a tensor or a sequence of them, as the module takes them. Their first dimension is
    left open; where the module does not export so, it stays what it is. Raises MissingExtra without torch,
    ModelError where export fails.
    """
    with needing("reading PyTorch modules", "torch"):
        import onnxscript  # noqa: F401  (torch.onnx needs it, and says so less clearly)
        import torch
    if not isinstance(module, torch.nn.Module):
        raise ModelError(f"expected a torch.nn.Module, not {type(module).__name__}; pass the module itself")
    single = isinstance(example_inputs, torch.Tensor)
    inputs: Sequence[Any] = (example_inputs,) if single else tuple(example_inputs)
    if isinstance(example_inputs, np.ndarray) or any(isinstance(item, np.ndarray) for item in inputs):
        raise ModelError("example_inputs are NumPy arrays; give tensors, as by torch.from_numpy")
    batched = [isinstance(item, torch.Tensor) and item.dim() > 0 for item in inputs]
    open_inputs = tuple(_two_rows(item) if open_ else item for item, open_ in zip(inputs, batched))
    shapes = tuple({0: torch.export.Dim("batch")} if open_ else None for open_ in batched)
    training = [(each, each.training) for each in module.modules()]
    module.eval()
    try:
        try:
            exported = _exported(module, open_inputs, shapes, opset)
        except ModelError:
            exported = _exported(module, inputs, None, opset)
    finally:
        for each, flag in training:
            each.training = flag
    size = sum(p.numel() * p.element_size() for p in (*module.parameters(), *module.buffers()))
    if size <= _IN_MEMORY_BYTES:
        return read_onnx(exported.model_proto)
    with TemporaryFolder() as folder:
        path = Path(folder) / "model.onnx"
        exported.save(path, external_data=True)
        # The weights stay mapped after their file's name is gone.
        return read_onnx(path)


def _exported(module: Any, inputs: Sequence[Any], shapes: Any, opset: int | None) -> Any:
    """As torch.onnx exports it. ModelError if that fails."""
    import torch

    try:
        with _quiet(), torch.no_grad():
            return torch.onnx.export(
                module, tuple(inputs), dynamo=True, dynamic_shapes=shapes, opset_version=opset, verbose=False
            )  # fmt: skip
    except Exception as error:  # the exporter raises whatever the module's own code raises
        cause = error.__cause__ or error  # the exporter's own words name its steps, not the fault
        reason = first_line(cause).rstrip(".")
        raise ModelError(
            f"{type(module).__name__} cannot be exported by torch.export: {reason}; check that it takes "
            "example_inputs, and remove control flow that depends on data"
        ) from error


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """The exporter warns of packages it could use, and logs what it then raises."""
    loggers = [logging.getLogger(name) for name in ("torch", "torch.onnx", "onnxscript")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels):
            logger.setLevel(level)


def _two_rows(tensor: Any) -> Any:
    """A batch of at least two: torch.export takes a size of one for a constant."""
    return tensor if tensor.shape[0] != 1 else tensor.repeat(2, *(1,) * (tensor.dim() - 1))
