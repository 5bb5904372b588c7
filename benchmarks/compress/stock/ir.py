"""OpenVINO's own format (.xml and .bin), which NNCF writes: an engine for this benchmark alone.

The same session and properties as tensmith's engine for ONNX files, so that both are timed alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tensmith.engine.base import Arrays, Session, engine, first_line
from tensmith.engine.engines.openvino import OpenVino, OpenVinoSession, cpu_properties
from tensmith.engine.signature import ModelSignature, TensorSpec
from tensmith.errors import EngineError
from tensmith.evaluate.contender import Contender


@engine
class OpenVinoIr(OpenVino):
    """Setting `precision` as in `openvino`. The symbol of a dynamic size is `input.axis`."""

    name = "openvino-ir"
    package = "openvino"

    def prepare(
        self,
        path: Path,
        threads: int,
        *,
        sizes: Mapping[str, int] | None = None,
        precision: str = "f32",
        **settings: str,
    ) -> Session:
        self.start()
        import openvino

        properties = cpu_properties(threads, precision)
        try:
            core = openvino.Core()
            model = core.read_model(str(path))
            signature = _signature(model)
            if sizes:
                model.reshape({spec.name: _static(spec, sizes) for spec in signature.inputs})
            return OpenVinoSession(core.compile_model(model, "CPU", properties), signature)
        except Exception as error:
            raise EngineError(f"openvino cannot load {path}: {first_line(error)}") from error


def _signature(model: Any) -> ModelSignature:
    operators = frozenset(node.get_type_name() for node in model.get_ops())
    return ModelSignature(tuple(map(_spec, model.inputs)), tuple(map(_spec, model.outputs)), operators)


def _spec(port: Any) -> TensorSpec:
    name = port.any_name
    shape = tuple(
        f"{name}.{axis}" if size.is_dynamic else size.get_length()
        for axis, size in enumerate(port.partial_shape)
    )
    return TensorSpec(name, port.element_type.to_dtype().name, shape)


def _static(spec: TensorSpec, sizes: Mapping[str, int]) -> list[int]:
    return [size if isinstance(size, int) else sizes[size] for size in spec.shape or ()]


@dataclass(frozen=True)
class IrContender(Contender):
    """A contender whose file is an .xml."""

    def sizes(self, inputs: Arrays) -> dict[str, int]:
        """By input and axis."""
        return {f"{name}.{axis}": n for name, array in inputs.items() for axis, n in enumerate(array.shape)}
