"""Tile registers for machines that have none, or lend none: their instructions as C functions."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tensmith.kernel import Isa, host_isa, isa_named
from tensmith.kernel import isa as instruction_sets
from tensmith.kernel.isa import BFLOAT_TILES, TILES

# What Intel's SDM (vol. 2) says of the instructions. A tile is taken as its shape has it; what is loaded or
# multiplied out of another shape ends the test. Inlined, they would be compiled at each use.
EMULATED = """
#undef _tile_loadd
#undef _tile_stored
#undef _tile_dpbusd
#undef _tile_dpbf16ps
#undef _tile_zero
#define _tile_loadconfig tiles_shaped
#define _tile_release() (void)0
#define _tile_loadd tile_loaded
#define _tile_stored tile_kept
#define _tile_dpbusd tiles_multiplied
#define _tile_dpbf16ps tiles_multiplied_bf16
#define _tile_zero tile_cleared
#define APART static __attribute__((noinline, noclone))
static uint8_t tile_bytes[8][16][64], tile_rows[8], tile_columns[8];
APART void tiles_shaped(const void *p)
{
    const uint8_t *b = p;
    if (b[0] != 1) __builtin_trap();
    for (int t = 0; t < 8; t++) {
        tile_columns[t] = b[16 + 2 * t]; tile_rows[t] = b[48 + t];
        if (tile_columns[t] > 64 || tile_rows[t] > 16) __builtin_trap();
    }
    memset(tile_bytes, 0, sizeof tile_bytes);
}
APART void tile_loaded(int t, const void *p, long stride)
{
    if (!tile_rows[t]) __builtin_trap();
    memset(tile_bytes[t], 0, sizeof tile_bytes[t]);
    for (int i = 0; i < tile_rows[t]; i++)
        memcpy(tile_bytes[t][i], (const char *)p + i * stride, tile_columns[t]);
}
APART void tile_kept(int t, void *p, long stride)
{
    for (int i = 0; i < tile_rows[t]; i++) memcpy((char *)p + i * stride, tile_bytes[t][i], tile_columns[t]);
}
APART void tiles_multiplied(int s, int x, int w)
{
    if (tile_rows[s] != tile_rows[x] || tile_columns[s] != tile_columns[w]) __builtin_trap();
    if (tile_columns[x] != 4 * tile_rows[w]) __builtin_trap();
    for (int i = 0; i < tile_rows[s]; i++) for (int k = 0; k < tile_columns[s] / 4; k++) {
        int32_t sum;
        memcpy(&sum, tile_bytes[s][i] + 4 * k, 4);
        for (int e = 0; e < tile_columns[x]; e++)
            sum += tile_bytes[x][i][e] * (int8_t)tile_bytes[w][e / 4][4 * k + e % 4];
        memcpy(tile_bytes[s][i] + 4 * k, &sum, 4);
    }
}
static void tile_cleared(int t) { memset(tile_bytes[t], 0, sizeof tile_bytes[t]); }
static float bf16(const uint8_t *p)
{
    uint32_t bits = (uint32_t)(p[0] | p[1] << 8) << 16;
    float x;
    memcpy(&x, &bits, 4);
    return x;
}
APART void tiles_multiplied_bf16(int s, int x, int w)
{
    if (tile_rows[s] != tile_rows[x] || tile_columns[s] != tile_columns[w]) __builtin_trap();
    if (tile_columns[x] != 4 * tile_rows[w]) __builtin_trap();
    for (int i = 0; i < tile_rows[s]; i++) for (int k = 0; k < tile_columns[s] / 4; k++) {
        float sum, each[2] = {0};
        memcpy(&sum, tile_bytes[s][i] + 4 * k, 4);
        for (int e = 0; e < tile_columns[x] / 2; e++)
            each[e % 2] = fmaf(bf16(tile_bytes[x][i] + 2 * e), bf16(tile_bytes[w][e / 2] + 4 * k + e % 2 * 2),
                each[e % 2]);
        sum += each[0] + each[1];
        memcpy(tile_bytes[s][i] + 4 * k, &sum, 4);
    }
}
"""


def emulated_tiles(monkeypatch: pytest.MonkeyPatch) -> Isa:
    """An instruction set whose kernels call the functions."""
    functions = EMULATED + instruction_sets.TILE_FUNCTIONS
    monkeypatch.setattr(instruction_sets, "TILE_FUNCTIONS", functions)
    made = isa_named("avx512", host_isa().features | {TILES, BFLOAT_TILES})
    return replace(made, flags=tuple(flag for flag in made.flags if "amx" not in flag))


def tiles_of_host(feature: str = TILES) -> Isa:
    """This machine's instruction set, which has them by that feature; else the test is skipped."""
    if feature not in host_isa().features:
        pytest.skip("this processor, its system or its compiler has no such tile registers")
    return host_isa()
