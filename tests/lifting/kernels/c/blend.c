/* Blend modes of layered 8-bit images, m rows of n pixels. */
#include <stdint.h>

void normal_blend_f(const float *base, const float *active, float opacity, float *out, int n) {
    for (int i = 0; i < n; i++)
        out[i] = opacity * active[i] + (1.0f - opacity) * base[i];
}

void normal_blend_8(const uint8_t *base, const uint8_t *active, uint8_t opacity, uint8_t *out, int n) {
    for (int i = 0; i < n; i++)
        out[i] = (opacity * active[i] + (255 - opacity) * base[i]) / 255;
}

void linear_dodge_8(const uint8_t *base, const uint8_t *active, uint8_t *out, int m, int n) {
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++)
            out[i * n + j] = base[i * n + j] + active[i * n + j];
}

void linear_burn_8(const uint8_t *base, const uint8_t *active, uint8_t *out, int m, int n) {
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++)
            out[i * n + j] = base[i * n + j] + active[i * n + j] - 255;
}

void multiply_blend_8(const uint8_t *base, const uint8_t *active, uint8_t *out, int m, int n) {
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++)
            out[i * n + j] = (base[i * n + j] * active[i * n + j]) / 255;
}

void screen_blend_8(const uint8_t *base, const uint8_t *active, uint8_t *out, int m, int n) {
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++)
            out[i * n + j] =
                base[i * n + j] + active[i * n + j] - (base[i * n + j] * active[i * n + j]) / 255;
}

void darken_blend_8(const uint8_t *base, const uint8_t *active, uint8_t *out, int m, int n) {
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
            uint8_t pixel;
            if (base[i * n + j] > active[i * n + j])
                pixel = active[i * n + j];
            else
                pixel = base[i * n + j];
            out[i * n + j] = pixel;
        }
}

void lighten_blend_8(const uint8_t *base, const uint8_t *active, uint8_t *out, int m, int n) {
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
            if (base[i * n + j] < active[i * n + j])
                out[i * n + j] = active[i * n + j];
            else
                out[i * n + j] = base[i * n + j];
        }
}

void color_burn_8(const uint8_t *base, const uint8_t *active, uint8_t *out, int m, int n) {
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
            if (active[i * n + j] == 0)
                out[i * n + j] = 255;
            else
                out[i * n + j] = 255 - (255 - base[i * n + j]) / active[i * n + j];
        }
}

void color_dodge_8(const uint8_t *base, const uint8_t *active, uint8_t *out, int m, int n) {
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
            if (active[i * n + j] == 255)
                out[i * n + j] = 255;
            else
                out[i * n + j] = base[i * n + j] / (255 - active[i * n + j]);
        }
}

void overlay_blend_8(const uint8_t *base, const uint8_t *active, uint8_t *out, int m, int n) {
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
            int b = base[i * n + j];
            if (b >= 128)
                out[i * n + j] = 2 * b + b - 2 * b * b / 255 - 255;
            else
                out[i * n + j] = 2 * b * b / 255;
        }
}

void dissolve_blend_8(const uint8_t *base, const uint8_t *active, float opacity, int random, uint8_t *out,
                      int m, int n) {
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
            float chance = ((random % 100) + 1) / 100.0f;
            if (opacity - chance >= 0.0f)
                out[i * n + j] = active[i * n + j];
            else
                out[i * n + j] = base[i * n + j];
        }
}
