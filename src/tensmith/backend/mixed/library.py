"""The library of a mixed model: code and weights of its regions, and what serves them to ONNX Runtime."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from tensmith.backend.mixed.model import region_name
from tensmith.backend.mixed.regions import Region
from tensmith.backend.native.emit.loader import ASK_FOR_TILES, TILES, linux_flag
from tensmith.backend.native.emit.source import print_c
from tensmith.errors import EngineError
from tensmith.files import sha256_bytes
from tensmith.ir import Program, TensorType
from tensmith.ir.onnx_schema import ELEMENT_CODES
from tensmith.kernel.isa import Isa
from tensmith.kernel.toolchain import CompileUnit, link_library

_SERVING, _REGIONS, _WEIGHTS = "library.c", "regions.h", "weights.bin"
# Code finds the weights by their distance from it.
_MOST_BYTES = 1 << 31

_HEADER = """\
#define MODEL "{digest}"
#define NEEDS {needs}
#define FEATURES "{features}"
#define ASK_FOR_TILES {ask}
#define WEIGHTS_BYTES {bytes}u
#define WEIGHTS_SUM {sum}u
#define WEIGHTS_WEIGHTED_SUM {weighted}u

/* The weights of all regions, which are loaded with the library. */
__asm__(".section .rodata\\n"
    ".balign 4096\\n"
    ".globl tensmith_weights\\n"
    ".hidden tensmith_weights\\n"
    "tensmith_weights: .incbin \\"{file}\\"\\n"
    ".byte 0\\n"
    ".previous");

{tensors}
static const Region regions[] = {{
{regions}
}};
"""

_TENSORS = """\
int {run}(const void *weights, const void *const *inputs, void *const *outputs, void *arena);
static const Tensor {run}_inputs[] = {{{inputs}}};
static const Tensor {run}_outputs[] = {{{outputs}}};
"""


_CALL = "syscall({}L, {}L, {}L)"


@dataclass(frozen=True, eq=False)
class Library:
    """Regions of a simplified program, compiled for an instruction set."""

    program: Program
    regions: Sequence[Region]
    isa: Isa

    @cached_property
    def needed(self) -> Isa:
        """What the code needs of the instruction set."""
        return self.isa.for_code("\n".join(text for region in self.regions for text in region.plan.functions))

    @cached_property
    def codes(self) -> list[str]:
        """The C of each region."""
        return [print_c(region.plan, _function(n)) for n, region in enumerate(self.regions)]

    @cached_property
    def weights(self) -> np.ndarray[Any, Any]:
        """The weights of all regions one after the other, in words of 8 bytes; EngineError if too many."""
        found = np.concatenate([region.plan.weights for region in self.regions])
        if found.nbytes >= _MOST_BYTES:
            raise EngineError(f"the weights to compile have {found.nbytes} bytes; mixed takes less than 2^31")
        return found.view("<u8")

    @cached_property
    def digest(self) -> str:
        """What a model and its library must agree on: a hash of all code, weights, types and sizes."""
        parts = [*(code.encode() for code in self.codes), self.weights.tobytes(), self._header("").encode()]
        return sha256_bytes("".join(map(sha256_bytes, parts)).encode())

    def build(self, path: Path) -> None:
        """Compiles and links it at `path`."""
        served = Path(__file__).with_name(_SERVING).read_text(encoding="utf-8")
        units = [*map(CompileUnit, self.codes), CompileUnit(served, portable=True)]
        files = {_REGIONS: self._header(self.digest).encode(), _WEIGHTS: self.weights.tobytes()}
        link_library(units, files, self.needed, path)

    def _header(self, digest: str) -> str:
        """regions.h: what library.c serves."""
        order = np.arange(1, self.weights.size + 1, dtype="<u8")
        needs = sorted(self.needed.needs)
        begins = accumulate((region.plan.weights.nbytes for region in self.regions), initial=0)
        rows = zip(self.regions, begins)
        return _HEADER.format(
            digest=digest,
            needs="".join(f'"{linux_flag(name)}", ' for name in needs),
            features=", ".join(needs),
            ask=_CALL.format(*ASK_FOR_TILES) if TILES.intersection(needs) else "0",
            bytes=self.weights.nbytes,
            sum=_sum(self.weights),
            weighted=_sum(self.weights * order),
            file=_WEIGHTS,
            tensors="\n".join(_tensors(n, region) for n, region in enumerate(self.regions)),
            regions="\n".join(_row(n, region, begin) for n, (region, begin) in enumerate(rows)),
        )


def _function(index: int) -> str:
    return f"tensmith_region_{index}"


def _sum(words: np.ndarray[Any, Any]) -> int:
    """Modulo 2^64."""
    return int(words.sum(dtype=np.uint64))


def _tensors(index: int, region: Region) -> str:
    program = region.plan.program
    inputs, outputs = (
        ", ".join(_tensor(program.type(name)) for name in names) for names in (region.inputs, region.outputs)
    )
    return _TENSORS.format(run=_function(index), inputs=inputs, outputs=outputs)


def _tensor(type_: TensorType) -> str:
    sizes = type_.static or ()
    listed = ", ".join(map(str, sizes or (0,)))
    return f"{{{ELEMENT_CODES[type_.dtype]}, {len(sizes)}, (const int64_t[]){{{listed}}}}}"


def _row(index: int, region: Region, begin: int) -> str:
    run = _function(index)
    counts = f"{len(region.inputs)}, {len(region.outputs)}, {run}_inputs, {run}_outputs"
    name = region_name(index)
    return f'    {{OPERATOR, "{name}", {run}, {region.plan.arena_bytes}, {begin}, {counts}}},'
