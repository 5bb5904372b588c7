"""Energy of single operations, in picojoules, from published tables."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, PositiveFloat

_Multiplied = Literal["fp32", "fp16", "bf16", "int8", "int4", "int32"]


class EnergyTable(BaseModel):
    """Picojoules a multiply-add by dtype, and a byte moved from cache (`sram_byte`) or main memory."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    multiply_add: Annotated[dict[_Multiplied, PositiveFloat], Field(min_length=1)]
    sram_byte: PositiveFloat
    dram_byte: PositiveFloat
    source: str

    def of(self, dtype: str) -> float:
        """Picojoules of one multiply-add; narrower types than the table knows cost what the next one does."""
        for name in (dtype, *_WIDER.get(dtype, ())):
            if name in self.multiply_add:
                return self.multiply_add[name]
        return max(self.multiply_add.values())


_WIDER = {
    "int4": ("int8", "int32", "fp32"),
    "int8": ("int32", "fp32"),
    "fp16": ("fp32",),
    "bf16": ("fp16", "fp32"),
}

# Multiply plus add: fp32 3.7 + 0.9, fp16 1.1 + 0.4, int8 0.2 + int32 add 0.1 (products are summed in int32),
# int32 3.1 + 0.1. A 32-bit read: 5 pJ from 8 KB of SRAM, 640 pJ from DRAM.
HOROWITZ_45NM = EnergyTable(
    multiply_add={"fp32": 4.6, "fp16": 1.5, "int8": 0.3, "int32": 3.2},
    sram_byte=5.0 / 4,
    dram_byte=640.0 / 4,
    source=(
        "M. Horowitz, Computing's energy problem (and what we can do about it), ISSCC 2014, figure 1.1.9: "
        "45 nm, 0.9 V; bfloat16 is not listed and counted as fp16"
    ),
)
