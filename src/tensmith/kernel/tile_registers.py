"""Tile registers of matrix instructions (Intel AMX) as C: what they hold, and the system's leave to use them.

Linux gives them to a process that asks (arch_prctl, Linux 5.16), since they make what it saves of a process
larger. `detect_cpu` names the feature only where it does.
"""

from __future__ import annotations

TILE_FUNCTIONS = """
/* The rows of each tile register and their bytes (palette 1, Intel SDM vol. 1, 18.3). */
struct tile_shapes {
    uint8_t palette, start, reserved[14];
    uint16_t bytes[16];
    uint8_t rows[16];
};

static inline void shape_tiles(const struct tile_shapes *shapes)
{
    static int asked;
    if (!asked) {
        long answer;
        __asm__ volatile("syscall" : "=a"(answer) : "a"(158), "D"(0x1023), "S"(18) : "rcx", "r11", "memory");
        asked = 1;
    }
    _tile_loadconfig(shapes);
}

/* Lanes of 16 bytes of four vectors, turned: y[i] of x[j], i at j. They lie `plane` apart, `pitch` go out. */
static inline void turn_bytes(uint8_t *y, int pitch, const uint8_t *x, int plane)
{
    __m512i a = _mm512_loadu_si512(x), b = _mm512_loadu_si512(x + plane);
    __m512i c = _mm512_loadu_si512(x + 2 * plane), d = _mm512_loadu_si512(x + 3 * plane);
    __m512i even = _mm512_shuffle_i32x4(a, b, 0x88), odd = _mm512_shuffle_i32x4(a, b, 0xdd);
    __m512i even_ = _mm512_shuffle_i32x4(c, d, 0x88), odd_ = _mm512_shuffle_i32x4(c, d, 0xdd);
    _mm512_storeu_si512(y, _mm512_shuffle_i32x4(even, even_, 0x88));
    _mm512_storeu_si512(y + pitch, _mm512_shuffle_i32x4(odd, odd_, 0x88));
    _mm512_storeu_si512(y + 2 * pitch, _mm512_shuffle_i32x4(even, even_, 0xdd));
    _mm512_storeu_si512(y + 3 * pitch, _mm512_shuffle_i32x4(odd, odd_, 0xdd));
}
"""
