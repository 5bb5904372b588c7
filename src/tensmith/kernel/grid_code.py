"""Grids of bytes in C: vectors of real numbers to vectors of codes, and back. Codes are floats here."""

from __future__ import annotations

from tensmith.kernel.epilogue import literal
from tensmith.kernel.quantized import QuantizationParameters


def codes_of(x: str, grid: QuantizationParameters) -> str:
    """clamp(round(x / scale) + zero_point), as ONNX's QuantizeLinear; what is no number stays none."""
    zero, low, high = (f"splat({literal(n)})" for n in (grid.zero_point, grid.low, grid.high))
    return f"vmin({high}, vmax({low}, rint_f({x} / splat({literal(grid.scale)})) + {zero}))"


def numbers_of(codes: str, grid: QuantizationParameters) -> str:
    """(codes - zero_point) * scale."""
    return f"(({codes} - splat({literal(grid.zero_point)})) * splat({literal(grid.scale)}))"


def rounded(x: str, onto: QuantizationParameters, back: QuantizationParameters) -> str:
    """numbers_of(codes_of(x)), on grids of one zero point, which is then neither added nor taken off."""
    low, high = (f"splat({literal(bound - onto.zero_point)})" for bound in (onto.low, onto.high))
    units = f"rint_f({x} / splat({literal(onto.scale)}))"
    return f"(vmin({high}, vmax({low}, {units})) * splat({literal(back.scale)}))"
