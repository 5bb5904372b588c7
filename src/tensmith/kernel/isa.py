"""Instruction sets as C: how many lanes a vector has, how kernels load, store and combine vectors.

Kernels are written in GCC's vector extensions, which gcc and clang turn into the instructions of the target;
what the extensions cannot say is one small function of the prelude here.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from tensmith.errors import EngineError, UsageError
from tensmith.hardware.cpu import detect_cpu
from tensmith.hardware.target import HOST, Target
from tensmith.kernel.codes import code_functions
from tensmith.kernel.functions import FUNCTIONS
from tensmith.kernel.halves import BFLOATS, HALVES
from tensmith.kernel.integers import HALF_PRODUCTS, integer_functions
from tensmith.kernel.parts import part_functions
from tensmith.kernel.tile_registers import TILE_FUNCTIONS

# The features that multiply matrices of bytes, and of bfloat16.
TILES, BFLOAT_TILES = "amx_int8", "amx_bf16"


@dataclass(frozen=True)
class _Use:
    """What kernels compute in one instruction where they can: the `features` that have it, the best first, by
    instruction set, and the words of the prelude that are there for it.
    """

    features: Mapping[str, tuple[str, ...]]
    words: frozenset[str]


# Dot products are of bytes; halves are multiplied, pairs of bfloat16 multiplied and summed.
_USES: Mapping[str, _Use] = {
    "dot": _Use(
        {
            "avx512": ("avx512_vnni",),
            "avx2": ("avx_vnni",),
            "neon": ("i8mm", "dotprod"),
            "cortex-m": ("dsp",),
        },
        frozenset({"dot", "dot_narrow", "dot_half"}),
    ),
    "halves": _Use({"neon": ("fp16",)}, frozenset({"half", "vh", "vhu", "vq", "hload", "half_of"})),
    "bfloat": _Use(
        {"avx512": ("avx512_bf16",)}, frozenset({"put_bf16", "pairs_bf16", "zipped_bf16", "dot_bf16"})
    ),
    "tiles": _Use({"avx512": (TILES,)}, frozenset({"_tile_dpbusd"})),
    "bfloat tiles": _Use({"avx512": (BFLOAT_TILES,)}, frozenset({"_tile_dpbf16ps"})),
}


@dataclass(frozen=True)
class Isa:
    """A vector instruction set: `lanes` floats a vector, `registers` of them.

    `needs` are the CPU features without which compiled code does not run; `features` adds those that kernels
    may use where they pay (names as in hardware.cpu). `flags` go to the compiler; `triple` names the target
    for a cross compiler.
    """

    name: str
    lanes: int
    registers: int
    needs: frozenset[str]
    features: frozenset[str]
    flags: tuple[str, ...]
    triple: str
    maximum: str  # C expressions of a and b that give b where either is NaN
    minimum: str
    fused: str  # C expression of a * b + c
    held: str = "m"  # constraint by which asm takes a vector: a register where there is one of that size

    @property
    def bytes(self) -> int:
        """Bytes of a vector."""
        return 4 * self.lanes

    @property
    def prelude(self) -> str:
        """Types and functions that every kernel may use."""
        return _PRELUDE.format(
            header=self.header,
            library=_HOSTED if self.hosted else _FREESTANDING,
            bytes=self.bytes,
            maximum=self.maximum,
            minimum=self.minimum,
            fused=self.fused,
            held=self.held,
            functions=FUNCTIONS + part_functions(self.lanes),
            integers=integer_functions(self.name, self.lanes, self.byte_offset, self._feature("dot")),
            codes=code_functions(self.name),
            bfloats=BFLOATS if self.has_bfloat else "",
            halves=HALVES if self.has_halves else "",
            tiles=TILE_FUNCTIONS if self.has_tiles or self.has_bfloat_tiles else "",
        )

    @property
    def header(self) -> str:
        """The line that includes what the compiler knows of its instructions; "" if nothing is needed."""
        return _HEADERS[self.architecture] if self.name != "generic" else ""

    @property
    def hosted(self) -> bool:
        """Whether an operating system and a C library are there."""
        return "freestanding" not in self.triple

    @property
    def architecture(self) -> str:
        """The processor's, as Linux names it; of one without Linux, as compilers do."""
        return self.triple.partition("-")[0]

    def _feature(self, use: str) -> str | None:
        """The feature whose instruction computes a `use` best, if there is one."""
        known = _USES[use].features.get(self.name, ())
        return next((feature for feature in known if feature in self.features), None)

    @property
    def has_dot(self) -> bool:
        """Whether bytes are multiplied and summed in one instruction."""
        return self._feature("dot") is not None

    @property
    def has_narrow_dot(self) -> bool:
        """Whether bytes are multiplied by narrow weights in fewer instructions than by others."""
        return self.name in ("avx2", "avx512") and not self.has_dot

    def widens(self, narrow: bool) -> bool:
        """Whether bytes are widened before they are multiplied, by `narrow` weights or any."""
        return not (self.has_dot or (narrow and self.has_narrow_dot))

    @property
    def has_half_dot(self) -> bool:
        """Whether the products of half a vector take less time than those of a whole one."""
        return self._feature("dot") in HALF_PRODUCTS

    @property
    def has_halves(self) -> bool:
        """Whether vectors of 16-bit floats are multiplied."""
        return self._feature("halves") is not None

    @property
    def has_bfloat(self) -> bool:
        """Whether vectors of bfloat16 are multiplied."""
        return self._feature("bfloat") is not None

    @property
    def has_tiles(self) -> bool:
        """Whether matrices of bytes are multiplied in one instruction."""
        return self._feature("tiles") is not None

    @property
    def has_bfloat_tiles(self) -> bool:
        """Whether matrices of bfloat16 are multiplied in one instruction, to which floats can be rounded."""
        return self._feature("bfloat tiles") is not None and self.has_bfloat

    @property
    def byte_offset(self) -> int:
        """What `dot` takes off unsigned bytes: sums lack this many times the sum of the weights."""
        return 128 if self.name == "neon" and self._feature("dot") != "i8mm" else 0

    def for_code(self, code: str) -> Isa:
        """What C text `code` needs of it: without features that nothing there uses, for more processors."""
        words = set(re.findall(r"\w+", code))
        idle = {
            feature
            for use in _USES.values()
            if words.isdisjoint(use.words)
            for feature in use.features.get(self.name, ())
        }
        if not idle & self.features:
            return self
        made = isa_named(self.name, self.features - idle)
        return replace(made, needs=self.needs - (idle - made.features))

    def fits(self, positions: int, blocks: int, share: float = 1) -> bool:
        """Whether a tile of sums, a row of weights and what they are multiplied by stay in `share` of the
        registers: x86 multiplies by an element from memory, Arm by a lane of a register.
        """
        elements = positions if self.name == "neon" else 0
        return positions * blocks + blocks + elements < share * self.registers

    def round_up(self, count: int) -> int:
        """The least multiple of the lanes that holds `count`."""
        return -(-count // self.lanes) * self.lanes


_HEADERS = {
    "x86_64": "#include <immintrin.h>\n",
    "aarch64": "#include <arm_neon.h>\n",
    "thumb": "#include <arm_acle.h>\n",
}

_HOSTED = "#include <string.h>\n#include <math.h>\n"

# What compilers call of a C library that is not there. Where one is linked, its functions are taken.
_FREESTANDING = """\
#include <stddef.h>
#define INFINITY __builtin_inff()
#define NAN __builtin_nanf("")
#define sqrtf __builtin_sqrtf
#define fabsf __builtin_fabsf
#define ONE_BY_ONE __asm__ volatile("")
__attribute__((weak)) void *memcpy(void *restrict to, const void *restrict from, size_t n)
{
    char *y = to;
    for (const char *x = from; n; n--) { *y++ = *x++; ONE_BY_ONE; }
    return to;
}
__attribute__((weak)) void *memset(void *to, int fill, size_t n)
{
    for (char *y = to; n; n--) { *y++ = fill; ONE_BY_ONE; }
    return to;
}
"""

_PRELUDE = """\
#include <stdint.h>
{library}{header}
#define UNROLL _Pragma("GCC unroll 64")
#define UNROLL_4 _Pragma("GCC unroll 4")
#define FETCH(p) __builtin_prefetch(p)
#define FETCH_FAR(p) __builtin_prefetch(p, 0, 2)
typedef float vf __attribute__((vector_size({bytes}), may_alias));
typedef float vfu __attribute__((vector_size({bytes}), aligned(4), may_alias));
typedef int32_t vi __attribute__((vector_size({bytes}), may_alias));

/* p, of which a compiler knows nothing. gcc 12 may write one address in an array as a multiple of another;
   it then forgets that what is stored there is of that array, and drops the call that stores it. */
static inline void *hidden(const void *p) {{ __asm__("" : "+r"(p)); return (void *)p; }}
static inline vf load(const float *p) {{ return *(const vfu *)p; }}
static inline void store(float *p, vf x) {{ *(vfu *)p = x; }}
static inline vf splat(float x) {{ return x - (vf){{0}}; }}
/* The larger and the smaller of a and b; b where either is not a number. */
static inline vf vmax(vf a, vf b) {{ return {maximum}; }}
static inline vf vmin(vf a, vf b) {{ return {minimum}; }}
/* a * b + c, rounded once where there is an instruction that does so. */
static inline vf vfma(vf a, vf b, vf c) {{ return {fused}; }}
/* x, a product that is rounded before anything is added to it. */
static inline vf rounded(vf x) {{ __asm__("" : "+{held}"(x)); return x; }}
{functions}
{integers}{codes}{bfloats}{halves}{tiles}"""


def _select(order: str) -> str:
    """a where `a order b`, else b, in vector extensions alone."""
    return f"(vf)(((vi)a & (a {order} b)) | ((vi)b & ~(a {order} b)))"


_X86_EXTRAS: Mapping[str, tuple[str, ...]] = {
    "avx512_vnni": ("-mavx512vnni",),
    "avx512_bf16": ("-mavx512bf16",),
    TILES: ("-mamx-int8", "-mamx-tile"),
    BFLOAT_TILES: ("-mamx-bf16", "-mamx-tile"),
    "avx_vnni": ("-mavxvnni",),
}
_NEON_EXTRAS = ("fp16", "dotprod", "i8mm")
_CORTEX_M = frozenset({"dsp", "fpv4"})
_AVX2 = frozenset({"avx2", "fma"})
# What AVX-512 is taken to be; of a CPU that has the foundation alone (Xeon Phi), the AVX2 is used.
_AVX512 = _AVX2 | {"avx512f", "avx512bw", "avx512dq", "avx512vl"}
_AVX2_FLAGS = ("-mavx2", "-mfma", "-mf16c")
_AVX512_FLAGS = (*_AVX2_FLAGS, "-mavx512f", "-mavx512bw", "-mavx512vl", "-mavx512dq")


def _avx512(features: frozenset[str]) -> Isa:
    has = [name for name in _X86_EXTRAS if name in features and name != "avx_vnni"]
    extras = dict.fromkeys(flag for name in has for flag in _X86_EXTRAS[name])
    return Isa(
        "avx512", 16, 32, _AVX512.union(has),
        features, (*_AVX512_FLAGS, *extras), "x86_64-linux-gnu",
        "(vf)_mm512_max_ps((__m512)a, (__m512)b)", "(vf)_mm512_min_ps((__m512)a, (__m512)b)",
        "(vf)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c)", "v",
    )  # fmt: skip


def _avx2(features: frozenset[str]) -> Isa:
    extras = _X86_EXTRAS["avx_vnni"] if "avx_vnni" in features else ()
    return Isa(
        "avx2", 8, 16, _AVX2 | (features & {"avx_vnni"}),
        features, (*_AVX2_FLAGS, *extras), "x86_64-linux-gnu",
        "(vf)_mm256_max_ps((__m256)a, (__m256)b)", "(vf)_mm256_min_ps((__m256)a, (__m256)b)",
        "(vf)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c)", "x",
    )  # fmt: skip


def _neon(features: frozenset[str]) -> Isa:
    extensions = "".join(f"+{name}" for name in _NEON_EXTRAS if name in features)
    return Isa(
        "neon", 4, 32, frozenset({"neon"}) | (features & set(_NEON_EXTRAS)), features,
        (f"-mcpu=generic{extensions}",), "aarch64-linux-gnu",
        "(vf)vmaxq_f32((float32x4_t)a, (float32x4_t)b)", "(vf)vminq_f32((float32x4_t)a, (float32x4_t)b)",
        "(vf)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b)", "w",
    )  # fmt: skip


def _generic(triple: str = "x86_64-linux-gnu") -> Isa:
    return Isa(
        "generic", 4, 16, frozenset(), frozenset(), (), triple, _select(">"), _select("<"),
        "a * b + c", "x" if triple.startswith("x86_64") else "m",
    )  # fmt: skip


def _cortex_m(features: frozenset[str]) -> Isa:
    """Armv7E-M: vectors are four numbers, of which few fit; SMLAD makes two products of 16 bits."""
    fused = ", ".join(f"__builtin_fmaf(a[{lane}], b[{lane}], c[{lane}])" for lane in range(4))
    return Isa(
        "cortex-m", 4, 8, _CORTEX_M, features, ("-mcpu=cortex-m4", "-mfpu=fpv4-sp-d16", "-mfloat-abi=hard"),
        "thumb-freestanding-eabihf", _select(">"), _select("<"), f"(vf){{{fused}}}",
    )  # fmt: skip


def isa_of(features: Iterable[str], architecture: str = "x86_64") -> Isa:
    """The widest instruction set that a CPU with these features has."""
    found = frozenset(features)
    if found >= _AVX512:
        return _avx512(found)
    if found >= _AVX2:
        return _avx2(found)
    if "neon" in found:
        return _neon(found)
    return _generic(f"{architecture}-linux-gnu")


def isa_named(name: str, features: Iterable[str] = ()) -> Isa:
    """An instruction set by name, with optional `features` beside what the name promises."""
    found = frozenset(features)
    if name == "avx512":
        return _avx512(found | _AVX512)
    if name == "avx2":
        return _avx2(found | _AVX2)
    if name == "neon":
        return _neon(found | {"neon"})
    if name == "cortex-m":
        return _cortex_m(found | _CORTEX_M)
    if name == "generic":
        return _generic()
    raise EngineError(f"unknown instruction set '{name}'; known: avx512, avx2, neon, cortex-m, generic")


@functools.cache
def host_isa() -> Isa:
    """This machine's widest instruction set, without instructions that its own compiler does not know yet."""
    cpu = detect_cpu()
    architecture = {"arm64": "aarch64"}.get(cpu.architecture, cpu.architecture)
    found = isa_of(cpu.features, architecture)
    return isa_of(cpu.features - _unknown(found), architecture)


def _unknown(isa: Isa) -> frozenset[str]:
    """The features whose flags this machine's compiler refuses; asked only where there are such features."""
    from tensmith.kernel.toolchain import takes  # it reads this module

    extras = isa.features & {*_X86_EXTRAS, *_NEON_EXTRAS}
    if not extras or takes(isa.flags):
        return frozenset()
    return frozenset(name for name in extras if not takes(isa_named(isa.name, {name}).flags))


def target_isa(target: Target) -> Isa:
    """The widest instruction set of a device; UsageError if native code is not made for it."""
    if target.name == HOST:
        return host_isa()
    if target.kind == "microcontroller":
        if lacking := sorted(_CORTEX_M - target.isa):
            raise UsageError(f"'{target.name}' lacks {' and '.join(lacking)}: native code needs a Cortex-M4F")
        return _cortex_m(target.isa)
    if target.kind != "cpu":
        raise UsageError(
            f"'{target.name}' is a {target.kind}, and native code is made for CPUs; choose another target"
        )
    return isa_of(target.isa, "aarch64" if "neon" in target.isa else "x86_64")
