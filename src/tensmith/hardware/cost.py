"""Roofline time of a program: what the target's peak and bandwidth allow at best, plus dispatch.

    time(op) = max(operations / peak[dtype], bytes / bandwidth) + dispatch

(Williams, Waterman, Patterson: Roofline, CACM 2009.) An estimate to order candidates by, never a claim.
"""

from __future__ import annotations

from dataclasses import dataclass

from tensmith.hardware.target import Target

# Cycles an operator costs before it computes. Measured with ONNX Runtime 1.31: a chain of 500 elementwise
# operators on 8 numbers takes 0.41 us an operator longer than a chain of 10, at about 3 GHz.
DISPATCH_CYCLES = 1200


@dataclass(frozen=True)
class OpCost:
    """What one op does: multiply-adds, other elementwise operations, bytes of its operands and results."""

    macs: float
    elementwise_ops: float
    bytes_read: float
    bytes_written: float
    dtype: str = "fp32"


def op_seconds(target: Target, op: OpCost, threads: int = 1) -> float:
    """Seconds that `op` takes on `threads` cores of `target` at best, a GPU used whole.

    UsageError if the target lacks the dtype.
    """
    compute = (2 * op.macs + op.elementwise_ops) / target.peak(op.dtype, threads)
    traffic = (op.bytes_read + op.bytes_written) / target.bandwidth(threads)
    return max(compute, traffic) + DISPATCH_CYCLES / (target.frequency_ghz * 1e9)
