"""A device to compress for, read from a TOML file that says where each number comes from."""

from __future__ import annotations

import tomllib
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PositiveFloat, PositiveInt, ValidationError

from tensmith import gate
from tensmith.errors import UsageError
from tensmith.hardware.cpu import INT8_DOT
from tensmith.hardware.energy import HOROWITZ_45NM, EnergyTable

Dtype = Literal["fp32", "fp16", "bf16", "int8"]
Sentence = Annotated[str, Field(min_length=10)]

HOST = "host"

# Devices that a program has for itself: their cores are not threads of it.
_USED_WHOLE = ("gpu", "npu")

# What a device computes in when it has no arithmetic of that dtype: converted to the next wider one.
_COMPUTED_AS: dict[str, tuple[Dtype, ...]] = {
    "fp32": ("fp32",),
    "fp16": ("fp16", "fp32"),
    "bf16": ("bf16", "fp32"),
    "int8": ("int8", "fp32"),
    "int4": ("int8", "fp32"),
}


def _not_empty(value: dict[Dtype, float]) -> dict[Dtype, float]:
    if not value:
        raise ValueError("at least one dtype is needed")
    return value


class Sources(BaseModel):
    """Which data sheet, paper or measurement each group of numbers comes from."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    peak: Sentence
    bandwidth: Sentence
    memory: Sentence


class Target(BaseModel):
    """A device: its roofline (Williams, Waterman, Patterson, CACM 2009), its memories, its energy table.

    `peak_gflops` counts a multiply-add as two, over all `cores`, in 1e9 a second; `bandwidth_gbs` is main
    memory's, in 1e9 bytes a second, and `core_bandwidth_gbs` what one core can draw of it. `cache_bytes`
    lists the data caches, nearest first, as one core sees them. `ram_bytes` is what a program may fill,
    `flash_bytes` what its code and constants may, where they lie apart.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]*$")
    description: Sentence
    kind: Literal["cpu", "gpu", "npu", "microcontroller"]
    isa: frozenset[str]
    cores: PositiveInt
    frequency_ghz: PositiveFloat
    peak_gflops: Annotated[dict[Dtype, PositiveFloat], AfterValidator(_not_empty)]
    bandwidth_gbs: PositiveFloat
    core_bandwidth_gbs: PositiveFloat
    cache_bytes: tuple[PositiveInt, ...]
    ram_bytes: PositiveInt
    flash_bytes: PositiveInt | None = None
    energy: EnergyTable = HOROWITZ_45NM
    sources: Sources

    @property
    def on_chip_bytes(self) -> int:
        """What is held without a memory behind the chip: by the last cache, or all of a microcontroller's."""
        if self.kind == "microcontroller":
            return self.ram_bytes + (self.flash_bytes or 0)
        return self.cache_bytes[-1] if self.cache_bytes else 0

    @property
    def weight_bits(self) -> int:
        """The most bits of integer weights: without dot products a CPU saturates pairs of products of 8."""
        return 7 if self.kind == "cpu" and self.isa.isdisjoint(INT8_DOT) else 8

    def computes(self, dtype: str) -> Dtype:
        """The dtype that the device computes `dtype` in; UsageError if it cannot at all."""
        for name in _COMPUTED_AS.get(dtype, ()):
            if name in self.peak_gflops:
                return name
        known = ", ".join(self.peak_gflops)
        raise UsageError(
            f"target '{self.name}' cannot compute {dtype}; it computes {known}: quantize to that"
        )

    def peak(self, dtype: str, threads: int) -> float:
        """Operations a second that `threads` cores reach at most (a multiply-add is two)."""
        share = self._used(threads) / self.cores
        return self.peak_gflops[self.computes(dtype)] * 1e9 * share

    def bandwidth(self, threads: int) -> float:
        """Bytes a second that `threads` cores draw from main memory at most."""
        return min(self.bandwidth_gbs, self._used(threads) * self.core_bandwidth_gbs) * 1e9

    def _used(self, threads: int) -> int:
        """How many cores compute: all of a GPU."""
        return self.cores if self.kind in _USED_WHOLE else min(threads, self.cores)


def target_names() -> tuple[str, ...]:
    """The devices that come with tensmith, this machine first."""
    files = resources.files("tensmith.hardware").joinpath("targets").iterdir()
    return (HOST, *sorted(file.name.removesuffix(".toml") for file in files if file.name.endswith(".toml")))


def load_target(name: str | Path) -> Target:
    """The device called `name`, or the one that a .toml file describes; UsageError if there is none."""
    if name == HOST:
        from tensmith.hardware.host import detect_host

        return detect_host()
    if Path(name).suffix == ".toml":
        return _from_toml(gate.read_text(Path(name), gate.TARGET), str(name))
    if str(name) not in target_names():
        if Path(name).exists():
            raise UsageError(f"{name} is no .toml file, which describes a target; or name a known one")
        known = ", ".join(target_names())
        raise UsageError(f"unknown target '{name}'; known: {known}, or the path of a .toml file")
    file = resources.files("tensmith.hardware").joinpath("targets", f"{name}.toml")
    return _from_toml(file.read_text(encoding="utf-8"), f"{name}.toml")


def _from_toml(text: str, where: str) -> Target:
    try:
        fields: dict[str, Any] = tomllib.loads(text)
        target = Target.model_validate(fields)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise UsageError(f"{where} is not TOML: {error}") from error
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"]))
        raise UsageError(f"{where}: {field or 'target'}: {first['msg']}; correct it there") from error
    if target.name == HOST:
        raise UsageError(f"{where}: name: '{HOST}' is this machine; call the device something else")
    return target
