"""The packed model file: an ONNX file entropy-coded tensor by tensor, given back byte for byte.

wire       cuts the tensor payloads out of the file; what stays is the skeleton
derived    leaves out payloads that follow from others
codecs/    turn a payload into integers; the smallest encoding wins
integers, scaled, rans   turn integers into bits
container  sections, hashes, limits
"""

from tensmith.backend.packed.container import MAGIC, TooSmallError
from tensmith.backend.packed.model import (
    TensorRow,
    describe,
    pack,
    pack_file,
    packed_file,
    unpack,
    unpack_file,
)

__all__ = [
    "MAGIC",
    "TensorRow",
    "TooSmallError",
    "describe",
    "pack",
    "pack_file",
    "packed_file",
    "unpack",
    "unpack_file",
]
