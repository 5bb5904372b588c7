"""Pruned floats: a mask of what is not zero, and the planes of the rest.

Narrow integers need no mask: an entropy coder gives their zeros a fraction of a bit already.
"""

from __future__ import annotations

import numpy as np

from tensmith.backend.packed.codec import Codec, codec
from tensmith.backend.packed.codecs.planes import LEAST, Planes
from tensmith.backend.packed.elements import PackedSpec, bit_patterns
from tensmith.backend.packed.integers import decode_integers, encode_integers, entropy
from tensmith.backend.packed.streams import EncodedTensor, StreamReader

_MIN_ZEROS = 0.05  # of the elements; with fewer a mask cannot pay


@codec("sparse")
class SparseCodec(Codec):
    """Elements wider than a byte of which some, not all, are zero (-0 counts as not zero)."""

    tag = 6
    least_bits = 9
    slow = True

    def encode(self, data: bytes, spec: PackedSpec, most: float) -> EncodedTensor | None:
        """None with hardly a zero or nothing else."""
        patterns = bit_patterns(data, spec.type.bits)
        kept = patterns != 0
        if not 0 < np.count_nonzero(kept) <= (1 - _MIN_ZEROS) * patterns.size:
            return None
        left = most - LEAST * entropy(kept.astype(np.int64))
        values = Planes().encode(patterns[kept].tobytes(), _dense(spec, kept), left)
        mask = encode_integers(kept.astype(np.int64), spec.shape) if values is not None else None
        return None if values is None or mask is None else mask + values

    def decode(self, reader: StreamReader, spec: PackedSpec) -> bytes:
        kept = decode_integers(reader, spec.shape, spec.elements) != 0
        patterns = np.zeros(spec.elements, f"<u{spec.type.bits // 8}")
        patterns[kept] = bit_patterns(Planes().decode(reader, _dense(spec, kept)), spec.type.bits)
        return patterns.tobytes()


def _dense(spec: PackedSpec, kept: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> PackedSpec:
    return PackedSpec(spec.type, (int(np.count_nonzero(kept)),))
