"""Kernels that a search elsewhere has written, as assembler text: MetaSchedule's, see tune.tvm.

They are no algorithm of ours, so they stand in no table of algorithms: who wants them asks `scheduled`, which
looks into the user's cache. The text computes a convolution with a bias on blocked channels, in buffers with
no wider halo than it reads; C around it copies from wider ones, and adds residuals and activations.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import ClassVar

import numpy as np

from tensmith import cache, gate
from tensmith.errors import OutputError
from tensmith.files import sha256_bytes, sha256_file
from tensmith.formula.arith import Array
from tensmith.kernel.algorithm import SIGNATURE, Cost, Kernel
from tensmith.kernel.buffer import NO_HALO, Buffer
from tensmith.kernel.epilogue import Epilogue
from tensmith.kernel.isa import Isa
from tensmith.kernel.problem import ConvolutionProblem
from tensmith.kernel.tiles import read_buffer

_VERSION = "2"
_KERNEL = "kernel.json"
# What the assembler text calls its function, and what starts the names of its own labels.
FUNCTION, _LABEL = "main_compute_", r"\.L(?=\w)"
# The arguments of that function, in any order.
ARGUMENTS = ("source", "weights", "bias", "target")


@dataclass(frozen=True)
class Scheduled(Kernel):
    """`assembly` defines FUNCTION, whose arguments are pointers to floats in the `order` of these names."""

    name: ClassVar[str] = "metaschedule"

    assembly: str = ""
    order: tuple[str, ...] = ARGUMENTS

    def __post_init__(self) -> None:
        """ValueError if `order` is not one of ARGUMENTS."""
        if sorted(self.order) != sorted(ARGUMENTS):
            raise ValueError(f"a function of ({', '.join(self.order)}), not of {', '.join(ARGUMENTS)}")

    @classmethod
    def lacks(cls, problem: ConvolutionProblem, isa: Isa) -> str | None:
        """Groups."""
        return None if problem.groups == 1 else "it computes no groups"

    @classmethod
    def candidates(cls, problem: ConvolutionProblem, isa: Isa) -> Iterator[Kernel]:
        """The one that was found for a problem, if any was."""
        found = scheduled(problem, isa)
        yield from [found] if found is not None else []

    @property
    def parameters(self) -> dict[str, int]:
        """None: its text tells it from others."""
        return {}

    @property
    def source(self) -> Buffer:
        """Blocks of one vector, or planes where channels do not fill them; with the pads that are read."""
        return read_buffer(self.problem, 1 if self.problem.channels % self.isa.lanes else self.isa.lanes)

    @property
    def scratch_bytes(self) -> int:
        """An exact source, an exact target, a bias of zeros."""
        return 4 * (self._target_place + self.target.size + self.isa.round_up(self.problem.filters))

    @property
    def _target_place(self) -> int:
        return -(-self.source.size // 16) * 16

    def pack(self, weights: Array) -> Array:
        """[filter block][channel block][window][channel in block][filter in block]."""
        lanes, block = self.isa.lanes, self.source.block
        full = np.zeros((self.isa.round_up(len(weights)), *weights.shape[1:]), np.float32)
        full[: len(weights)] = weights
        blocked = full.reshape(-1, lanes, weights.shape[1] // block, block, *weights.shape[2:])
        return np.ascontiguousarray(blocked.transpose(0, 2, 4, 5, 3, 1)).reshape(-1)

    def code(self, name: str, source: Buffer, target: Buffer, epilogue: Epilogue) -> str:
        """The assembler text, and a function that calls it on buffers as it knows them."""
        own = f"{name}_schedule"
        lines = re.sub(_LABEL, f".L{own}_", self.assembly.replace(FUNCTION, own)).splitlines()
        text = "\n".join(f'    {json.dumps(line, ensure_ascii=False)} "\\n"' for line in lines)
        direct = target.halo == NO_HALO and epilogue.residual is None
        arguments = ", ".join(f"{argument}_" for argument in self.order)
        return f"""\
__asm__(".pushsection .text\\n"
{text}
    ".popsection\\n");
void {own}({", ".join(["const float *"] * len(self.order))}) __attribute__((visibility("hidden")));
/* {self.problem.dense}; {epilogue}.
   {self}. */
static void {name}({SIGNATURE})
{{
    const float *source_ = in, *weights_ = weights, *bias_ = bias;
    float *target_ = {"out" if direct else f"(float *)scratch + {self._target_place}"};
    (void)bias; (void)residual; (void)scratch;
{self._exact_source(source)}{self._zero_bias(epilogue)}    {own}({arguments});
{self._finish(target, epilogue)}}}
"""

    def _exact_source(self, given: Buffer) -> str:
        """Copies the source, where it has a wider halo, row by row."""
        own = self.source
        if given.halo == own.halo:
            return ""
        first = given.address(0, -own.halo.top, -own.halo.left)
        rows = own.plane // own.row
        return f"""\
    for (int i = 0; i < {own.blocks}; i++)
        for (int j = 0; j < {rows}; j++)
            memcpy((float *)scratch + (i * {rows} + j) * {own.row},
                (const float *)in + {first} + i * {given.plane} + j * {given.row}, {4 * own.row});
    source_ = scratch;
"""

    def _zero_bias(self, epilogue: Epilogue) -> str:
        if epilogue.bias:
            return ""
        place = self._target_place + self.target.size
        return f"""\
    bias_ = memset((float *)scratch + {place}, 0, {4 * self.isa.round_up(self.problem.filters)});
"""

    def _finish(self, target: Buffer, epilogue: Epilogue) -> str:
        """What the text does not do: a residual, an activation, a halo."""
        rest = replace(epilogue, bias=False)
        if target.halo == NO_HALO and rest == Epilogue():
            return ""
        own, kept = self.target, rest.residual or target
        places = (f"i * {b.plane} + j * {b.row} + k * {b.block}" for b in (own, target, kept))
        read, write, add = places
        value = rest.apply(f"load(target_ + {read})", "", f"load(r + {add})")
        return f"""\
    float *y = (float *)out + {target.address(0, 0, 0)};
    const float *r = {f"(const float *)residual + {kept.address(0, 0, 0)}" if rest.residual else "y"};
    (void)r;
    for (int i = 0; i < {own.blocks}; i++)
        for (int j = 0; j < {own.height}; j++)
            for (int k = 0; k < {own.width}; k++)
                store(y + {write}, {value});
"""

    def cost(self) -> Cost:
        """A peak's arithmetic: it is chosen by being asked for, never by estimate."""
        moved = self.source.bytes + self.target.bytes + 4 * self.problem.filters * self.problem.depth
        return Cost(self.problem.macs / (2 * self.isa.lanes), moved)


def scheduled(problem: ConvolutionProblem, isa: Isa) -> Scheduled | None:
    """The kernel that was kept for a problem; a damaged one is none, and one that is just being replaced."""
    entry = cache.find(_room(), _of(problem, isa))
    if entry is None:
        return None
    try:
        stored = json.loads(gate.read_text(entry / _KERNEL, gate.KEPT))
    except OutputError:
        return None
    return Scheduled(problem, isa, str(stored["assembly"]), tuple(map(str, stored["order"])))


def keep(kernel: Scheduled) -> None:
    """Stores a kernel for its problem, in place of another one."""
    document = json.dumps({"order": kernel.order, "assembly": kernel.assembly})

    def make(folder: Path) -> None:
        folder.mkdir()
        (folder / _KERNEL).write_text(document, encoding="utf-8")

    cache.keep(_room(), _of(kernel.problem, kernel.isa), make)


def revision() -> str:
    """A hash of all kernels that are kept and their names; OutputError if they cannot be read."""
    kept = []
    try:
        for path in sorted(cache.entries(_room())):
            try:
                kept.append(f"{path.name} {sha256_file(path / _KERNEL)}")
            except OutputError as error:
                if not isinstance(error.__cause__, FileNotFoundError):  # else another process replaces it
                    raise
    except OSError as error:
        raise OutputError(f"cannot read the kernels in {_room()}: {error.strerror}") from error
    return sha256_bytes("\n".join(kept).encode())[:32]


def _room() -> Path:
    return cache.user_cache("metaschedule")


def _of(problem: ConvolutionProblem, isa: Isa) -> dict[str, str]:
    described = json.dumps(asdict(problem), sort_keys=True)
    return {"version": _VERSION, "problem": described, "isa": f"{isa.triple} {' '.join(isa.flags)}"}
