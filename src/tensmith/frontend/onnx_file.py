"""An ONNX file made ready for import: found, parsed, at a known opset, without local functions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import onnx
import onnx.inliner
import onnx.version_converter
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from tensmith.errors import ModelError
from tensmith.ir.onnx_schema import NEWEST_OPSET, OLDEST_OPSET, standard_domain
from tensmith.ir.opaque import subgraphs

_PROTOBUF_LIMIT = 2**31 - 1
_MAX_INLINED_NODES = 1_000_000
# Tensors up to this size stay in graphs handed to ONNX's own passes: they may hold shapes.
_SMALL_BYTES = 1024


@dataclass(frozen=True)
class OnnxFile:
    """A parsed model. `label` names it in messages; `folder` is where its external data lies, if known."""

    model: onnx.ModelProto
    label: str
    folder: Path | None

    @property
    def opsets(self) -> dict[str, int]:
        """Domain -> version, the default domain as ""."""
        return {standard_domain(entry.domain): entry.version for entry in self.model.opset_import}


def open_onnx(source: str | Path | bytes | onnx.ModelProto) -> OnnxFile:
    """Parses a path, the bytes of a file, or takes a ModelProto. Raises ModelError."""
    if isinstance(source, onnx.ModelProto):
        return _checked(OnnxFile(source, "the model", None))
    if isinstance(source, bytes):
        return _checked(OnnxFile(_parse(source, "the model"), "the model", None))
    path = Path(source)
    try:
        if not path.exists():
            raise ModelError(f"{path} does not exist; check the path")
        if not path.is_file():
            raise ModelError(f"{path} is not a file; give the path of an .onnx file")
        if path.stat().st_size > _PROTOBUF_LIMIT:
            raise ModelError(
                f"{path} is over 2 GB, which ONNX cannot hold in one file; save its weights as external data"
            )
        data = path.read_bytes()
    except OSError as error:
        raise ModelError(f"cannot read {path}: {error.strerror or error}; check its permissions") from error
    return _checked(OnnxFile(_parse(data, str(path)), str(path), path.parent))


def _parse(data: bytes, label: str) -> onnx.ModelProto:
    if not data:
        raise ModelError(f"{label} is empty; export or copy it again")
    model = onnx.ModelProto()
    try:
        model.ParseFromString(data)
    except DecodeError as error:
        raise ModelError(f"{label} is truncated or not an ONNX file; export or copy it again") from error
    return model


def _checked(file: OnnxFile) -> OnnxFile:
    if not file.model.HasField("graph") or not file.model.opset_import:
        raise ModelError(f"{file.label} is not an ONNX model: it holds no graph or no opset; export it again")
    version = file.opsets.get("", NEWEST_OPSET)
    if version > NEWEST_OPSET:
        raise ModelError(
            f"{file.label} is at opset {version}, newer than the {NEWEST_OPSET} this onnx package knows; "
            "update the package, or export the model at an older opset"
        )
    if file.model.functions:
        file = _without_functions(file)
    if version < OLDEST_OPSET:
        file = _converted(file, version)
    return file


def weightless(model: onnx.ModelProto) -> onnx.ModelProto:
    """A copy whose large initializers are stubs of the right type: small enough for ONNX's C++ passes."""
    light = onnx.ModelProto(ir_version=model.ir_version, opset_import=model.opset_import)
    light.functions.extend(model.functions)
    light.metadata_props.extend(model.metadata_props)
    light.producer_name, light.producer_version = model.producer_name, model.producer_version
    light.doc_string = model.doc_string
    graph = model.graph
    light.graph.name = graph.name
    light.graph.node.extend(graph.node)
    light.graph.input.extend(graph.input)
    light.graph.output.extend(graph.output)
    light.graph.value_info.extend(graph.value_info)
    for tensor in graph.initializer:
        small = tensor.ByteSize() <= _SMALL_BYTES
        light.graph.initializer.append(tensor if small else _stub(tensor, tensor.dims))
    for sparse in graph.sparse_initializer:
        light.graph.initializer.append(_stub(sparse.values, sparse.dims))
    return light


def _stub(tensor: onnx.TensorProto, dims: Iterable[int]) -> onnx.TensorProto:
    """A tensor of the same name and type that holds nothing."""
    stub = onnx.TensorProto(name=tensor.name, data_type=tensor.data_type, dims=dims)
    stub.data_location = onnx.TensorProto.EXTERNAL
    stub.external_data.add(key="location", value="stub")
    return stub


def _with_weights(light: onnx.ModelProto, original: onnx.ModelProto) -> onnx.ModelProto:
    """`light` with its stubs replaced by the original tensors of the same names."""
    tensors = {tensor.name: tensor for tensor in original.graph.initializer}
    sparse = {tensor.values.name for tensor in original.graph.sparse_initializer}
    kept = [tensors.get(t.name, t) for t in light.graph.initializer if t.name not in sparse]
    del light.graph.initializer[:]
    light.graph.initializer.extend(kept)
    light.graph.sparse_initializer.extend(original.graph.sparse_initializer)
    return light


def _converted(file: OnnxFile, version: int) -> OnnxFile:
    try:
        light = onnx.version_converter.convert_version(weightless(file.model), OLDEST_OPSET)
    except Exception as error:  # the converter raises whatever its C++ adapters throw
        raise ModelError(
            f"{file.label} is at opset {version} and cannot be converted to {OLDEST_OPSET}: "
            f"{_first_line(error)}; export it again at opset {OLDEST_OPSET} or newer"
        ) from error
    return OnnxFile(_with_weights(light, file.model), file.label, file.folder)


def _without_functions(file: OnnxFile) -> OnnxFile:
    _bound_expansion(file)
    try:
        light = onnx.inliner.inline_local_functions(weightless(file.model), convert_version=True)
    except Exception as error:  # the inliner raises whatever its C++ throws
        raise ModelError(
            f"{file.label} has local functions that cannot be inlined: {_first_line(error)}; "
            "export it without"
        ) from error
    del light.functions[:]
    return OnnxFile(_with_weights(light, file.model), file.label, file.folder)


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".;")


def _bound_expansion(file: OnnxFile) -> None:
    """Refuses functions that call themselves, or whose inlining would not end in reasonable size."""
    functions = {(f.domain, f.name, f.overload): f for f in file.model.functions}
    sizes: dict[tuple[str, str, str], int] = {}
    active: list[tuple[str, str, str]] = []

    def size_of(nodes: Sequence[onnx.NodeProto]) -> int:
        total = 0
        for node in nodes:
            key = (node.domain, node.op_type, node.overload)
            total += function_size(key) if key in functions else 1
            total += sum(size_of(graph.node) for graph in subgraphs(node))
        return total

    def function_size(key: tuple[str, str, str]) -> int:
        if key in sizes:
            return sizes[key]
        if key in active or len(active) > 100:
            raise ModelError(
                f"{file.label}: function '{key[1]}' calls itself or nests too deeply; export it without"
            )
        active.append(key)
        sizes[key] = size_of(functions[key].node)
        active.pop()
        return sizes[key]

    if size_of(file.model.graph.node) > _MAX_INLINED_NODES:
        raise ModelError(
            f"{file.label}: inlining its functions gives over {_MAX_INLINED_NODES} nodes; export it without"
        )
