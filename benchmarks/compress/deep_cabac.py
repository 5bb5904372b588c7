"""What ISO/IEC 15938-17 takes for integer tensors: its DeepCABAC, in the package nncodec.

    python deep_cabac.py CODES.npz

A program of its own, for an interpreter that has nncodec (pip install --no-deps nncodec; only its extension
is loaded, which needs NumPy alone). Writes JSON: bytes, and seconds of the processor to decode them. A tensor
is coded with every unary length and scan tried here, with parameters optimized, the smallest counts; each is
decoded again and compared.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import numpy as np

UNARY, SCANS = (3, 10), (0, 1)


def coded(extension: Any, codes: Any) -> tuple[int, float]:
    """Bytes of the smallest stream of int32 `codes`, and seconds to decode it; ends where it is wrong."""
    off, none = extension.HdspMode.AlwaysOff, np.array((0, 0), np.int8)
    rows = np.zeros(len(codes), np.int32)
    streams = []
    for unary in UNARY:
        for scan in SCANS if codes.ndim > 1 else (0,):
            encoder = extension.Encoder()
            encoder.initCtxModels(unary, 1)
            encoder.encodeLayer(codes, 0, scan, 0, 0, 0, rows, off, none, 0, 0)
            streams.append((encoder.finish(), unary, scan))
    stream, unary, scan = min(streams, key=lambda each: each[0].size)
    back = np.zeros_like(codes)
    decoder = extension.Decoder()
    decoder.setStream(stream)
    decoder.initCtxModels(unary)
    began = time.process_time()
    decoder.decodeLayerAndCreateEPs(back, 0, scan, 0, 0, off, none, 0, 0)
    seconds = time.process_time() - began
    if not np.array_equal(back, codes):
        raise SystemExit("DeepCABAC gave other codes back than it was given")
    return stream.size, seconds


def main() -> None:
    """All tensors of a file."""
    import nncodec.extensions.deepCABAC as extension  # type: ignore[import-not-found, unused-ignore]

    with np.load(sys.argv[1]) as file:
        found = [coded(extension, np.ascontiguousarray(file[name], np.int32)) for name in file.files]
    print(json.dumps({"bytes": sum(size for size, _ in found), "seconds": sum(spent for _, spent in found)}))


if __name__ == "__main__":
    main()
