"""Pruned floats: a mask of what is not zero, and the planes of the rest.

Narrow integers need no mask: an entropy coder gives their zeros a fraction of a bit already.
"""

from __future__ import annotations

import numpy as np

from tensmith.backend.packed.codec import codec
from tensmith.backend.packed.codecs.planes import Planes
from tensmith.backend.packed.elements import TensorSpec, bit_patterns
from tensmith.backend.packed.integers import decode_integers, encode_integers
from tensmith.backend.packed.streams import Encoded, Reader

_MIN_ZEROS = 0.05  # of the elements; with fewer a mask cannot pay


@codec("sparse")
class Sparse:
    """Elements wider than a byte of which some, not all, are zero (-0 counts as not zero)."""

    tag = 6

    def encode(self, data: bytes, spec: TensorSpec) -> Encoded | None:
        """None for elements of a byte or less, and with hardly a zero or nothing else."""
        if spec.type.bits <= 8:
            return None
        patterns = bit_patterns(data, spec.type.bits)
        kept = patterns != 0
        if not 0 < np.count_nonzero(kept) <= (1 - _MIN_ZEROS) * patterns.size:
            return None
        mask = encode_integers(kept.astype(np.int64), spec.shape)
        values = Planes().encode(patterns[kept].tobytes(), _dense(spec, kept))
        return None if mask is None or values is None else mask + values

    def decode(self, reader: Reader, spec: TensorSpec) -> bytes:
        """Inverse of `encode`."""
        kept = decode_integers(reader, spec.shape, spec.elements) != 0
        patterns = np.zeros(spec.elements, f"<u{spec.type.bits // 8}")
        patterns[kept] = bit_patterns(Planes().decode(reader, _dense(spec, kept)), spec.type.bits)
        return patterns.tobytes()


def _dense(spec: TensorSpec, kept: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> TensorSpec:
    return TensorSpec(spec.type, (int(np.count_nonzero(kept)),))
