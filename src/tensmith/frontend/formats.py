"""What a file is by its first bytes, for whoever wanted another one. Nothing is opened further."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePath

# As many first bytes as are looked at.
BEGINNING = 512


@dataclass(frozen=True)
class FileFormat:
    """`noun` in a sentence; `advice`: how a model comes of it, where {path} stands for the file's."""

    noun: str
    advice: str
    begins: re.Pattern[bytes]
    suffixes: tuple[str, ...] = ()


def _format(noun: str, advice: str, begins: bytes, *suffixes: str) -> FileFormat:
    return FileFormat(noun, advice, re.compile(begins, re.DOTALL), suffixes)


_TORCH = "export it by torch.onnx.export, or pass the module itself to tensmith.compress"
_WEIGHTS = "it holds weights and no model: export the model that they are of by torch.onnx.export"
_TFLITE = "convert it: python -m tf2onnx.convert --tflite {path} --output DST.onnx"
_TORCH_ZIP = rb"PK\x03\x04.{26}[^\0]*/(?:data\.pkl|\.format_version|\.data/|byteorder)"
_KERAS = "export it by model.export(FILE, format='onnx'), or by tf2onnx"
_ARRAYS = "it holds arrays and no model; data is named by --data npz:{path}"
_PLAIN = "unpack the archive and name the .onnx file in it"
_AGAIN = "download the file itself"
_MADE_OF = "name the .onnx file that it was made of"

ONNX = _format("an ONNX file", "it can be used as it is", rb"\x08[\x01-\x1f]", ".onnx")
# The first that fits. A zip's first entry says whose it is.
_FORMATS = (
    _format("a packed model", "unpack it: tensmith unpack {path}", rb"\x93TSM"),
    _format("a GGUF file", "make an ONNX file of it: tensmith convert {path} DST.onnx", rb"GGUF"),
    _format("a NumPy archive (.npz)", _ARRAYS, rb"PK\x03\x04.{26}[^\0/]*\.npy"),
    _format("a NumPy array (.npy)", "it holds an array and no model", rb"\x93NUMPY"),
    _format("a PyTorch file", _TORCH, _TORCH_ZIP),
    _format("a Keras file", _KERAS, rb"PK\x03\x04.{26}(?:metadata|config)\.json"),
    _format("a PyTorch file", _TORCH, rb"PK\x03\x04", ".pt", ".pth", ".ckpt", ".bin"),
    _format("a NumPy archive (.npz)", _ARRAYS, rb"PK\x03\x04", ".npz"),
    _format("a zip archive", _PLAIN, rb"PK\x03\x04"),
    _format("a pickle, as PyTorch wrote", f"nothing of it is run here: {_TORCH}", rb"\x80[\x02-\x05]"),
    _format("a TFLite file", _TFLITE, rb".{4}TFL3"),
    _format("an ONNX Runtime file (.ort)", _MADE_OF, rb".{4}ORTM"),
    _format("an HDF5 file, as Keras writes", _KERAS, rb"\x89HDF\r\n\x1a\n"),
    _format("a safetensors file", _WEIGHTS, rb".{8}\{\s*\""),
    _format("a gzip archive", _PLAIN, rb"\x1f\x8b"),
    _format("a pointer of Git LFS", "get the file itself: git lfs pull", rb"version https://git-lfs"),
    _format("a web page", _AGAIN, rb"\s*<(?:!DOCTYPE|html)"),
    _format("an XML file, as OpenVINO writes", _MADE_OF, rb"\s*<\?xml"),
    _format("JSON text", "name an .onnx file", rb"\s*[{\[]\s*[\"{\[\]}]"),
    _format(
        "an ONNX model as text",
        "write it in binary: onnx.save(onnx.load('{path}', format='textproto'), 'DST.onnx')",
        rb"(?:ir_version|producer_name|graph|opset_import)\s*[:{]",
    ),
    ONNX,
    _format("a text file", "export or copy the model again", rb"[\t\n\r -~]+\Z"),
    _format("a TensorFlow graph", "export it by tf2onnx", rb"", ".pb"),
)  # fmt: skip


def format_of(beginning: bytes, path: str) -> FileFormat | None:
    """What the file at `path`, which begins so, is; None where nobody knows. An .onnx file may be damaged."""
    suffix = PurePath(path).suffix.lower()
    for each in _FORMATS:
        fits = each.begins.match(beginning[:BEGINNING])
        if fits and (each is ONNX or not each.suffixes or suffix in each.suffixes):
            return each
    return None


def told_instead(beginning: bytes, path: str) -> str | None:
    """What stands at `path` in place of an ONNX file, and what to do; None where it may be one."""
    found = format_of(beginning, path)
    if found is None or found is ONNX:
        return None
    return f"{path} is {found.noun}, not an ONNX file; {found.advice.format(path=path)}"
