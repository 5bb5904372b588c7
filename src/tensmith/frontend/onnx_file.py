"""An ONNX file made ready for import: found, parsed, at a known opset, without local functions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from tensmith import gate
from tensmith.errors import ModelError
from tensmith.frontend.formats import told_instead
from tensmith.frontend.onnx_passes import converted, inlined, opset, versions
from tensmith.frontend.onnx_valid import check_fields
from tensmith.ir.onnx_schema import NEWEST_OPSET, OLDEST_OPSET


@dataclass(frozen=True)
class OnnxFile:
    """A parsed model. `label` names it in messages; `path` is its file, where it is known."""

    model: onnx.ModelProto
    label: str
    path: Path | None

    @property
    def opsets(self) -> dict[str, int]:
        """Domain -> version, the default domain as ""."""
        return versions(self.model.opset_import)


def open_onnx(source: str | Path | bytes | onnx.ModelProto) -> OnnxFile:
    """Parses a path, the bytes of a file, or takes a ModelProto. Raises ModelError."""
    if isinstance(source, onnx.ModelProto):
        return _checked(OnnxFile(source, "the model", None))
    if isinstance(source, bytes):
        return _checked(OnnxFile(parse_onnx(source, "the model"), "the model", None))
    path = Path(source)
    data = gate.read_bytes(path, gate.MODEL)
    return _checked(OnnxFile(parse_onnx(data, str(path)), str(path), path))


def parse_onnx(data: bytes, label: str) -> onnx.ModelProto:
    """The message in the bytes of a file called `label`, unchecked; ModelError if there is none."""
    if not data:
        raise ModelError(f"{label} is empty; export or copy it again")
    model = onnx.ModelProto()
    try:
        model.ParseFromString(data)
    except DecodeError as error:
        told = told_instead(data, label)
        raise ModelError(
            told or f"{label} is truncated or not an ONNX file; export or copy it again"
        ) from error
    if not model.HasField("graph") and (told := told_instead(data, label)):
        raise ModelError(told)
    return model


def _checked(file: OnnxFile) -> OnnxFile:
    if not file.model.HasField("graph") or not file.model.opset_import:
        raise ModelError(f"{file.label} is not an ONNX model: it holds no graph or no opset; export it again")
    if (version := opset(file.model.opset_import)) > NEWEST_OPSET:
        raise ModelError(
            f"{file.label} is at opset {version}, newer than the {NEWEST_OPSET} this onnx package knows; "
            "update the package, or export the model at an older opset"
        )
    check_fields(file.model, file.label)
    if file.model.functions:
        file = replace(file, model=inlined(file.model, file.label))
    if (version := opset(file.model.opset_import)) < OLDEST_OPSET:
        file = replace(file, model=converted(file.model, version, file.label))
    return file
