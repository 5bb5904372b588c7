/* Images of bytes, h rows of w pixels. */
#include <stdint.h>
#include <stdlib.h>

void box_blur(const uint8_t *in, uint8_t *out, int h, int w) {
    for (int y = 1; y < h - 1; y++)
        for (int x = 1; x < w - 1; x++) {
            int sum = 0;
            for (int i = -1; i <= 1; i++)
                for (int j = -1; j <= 1; j++)
                    sum += in[(y + i) * w + x + j];
            out[y * w + x] = sum / 9;
        }
}

void sobel(const uint8_t *in, uint8_t *out, int h, int w) {
    for (int y = 1; y < h - 1; y++)
        for (int x = 1; x < w - 1; x++) {
            int gx = in[(y - 1) * w + x + 1] + 2 * in[y * w + x + 1] + in[(y + 1) * w + x + 1] -
                     in[(y - 1) * w + x - 1] - 2 * in[y * w + x - 1] - in[(y + 1) * w + x - 1];
            int gy = in[(y + 1) * w + x - 1] + 2 * in[(y + 1) * w + x] + in[(y + 1) * w + x + 1] -
                     in[(y - 1) * w + x - 1] - 2 * in[(y - 1) * w + x] - in[(y - 1) * w + x + 1];
            int edge = abs(gx) + abs(gy);
            if (edge > 255)
                edge = 255;
            out[y * w + x] = edge;
        }
}

void threshold(const uint8_t *in, uint8_t *out, int n, uint8_t level) {
    for (int i = 0; i < n; i++)
        out[i] = in[i] > level ? 255 : 0;
}

/* Pixels of three bytes to one; the weights sum to 256. */
void rgb_to_gray(const uint8_t *rgb, uint8_t *gray, int n) {
    for (int i = 0; i < n; i++)
        gray[i] = (77 * rgb[3 * i] + 150 * rgb[3 * i + 1] + 29 * rgb[3 * i + 2]) >> 8;
}

void alpha_blend(const uint8_t *over, const uint8_t *under, const uint8_t *alpha, uint8_t *out, int h, int w) {
    for (int y = 0; y < h; y++)
        for (int x = 0; x < w; x++) {
            int a = alpha[y * w + x];
            for (int c = 0; c < 3; c++)
                out[(y * w + x) * 3 + c] =
                    (over[(y * w + x) * 3 + c] * a + under[(y * w + x) * 3 + c] * (255 - a) + 127) / 255;
        }
}

/* Twice as large both ways, h x w to 2h x 2w but for the last row and column of cells. */
void bilinear_double(const uint8_t *in, uint8_t *out, int h, int w) {
    for (int y = 0; y < h - 1; y++)
        for (int x = 0; x < w - 1; x++) {
            int a = in[y * w + x], b = in[y * w + x + 1];
            int c = in[(y + 1) * w + x], d = in[(y + 1) * w + x + 1];
            out[(2 * y) * (2 * w) + 2 * x] = a;
            out[(2 * y) * (2 * w) + 2 * x + 1] = (a + b) / 2;
            out[(2 * y + 1) * (2 * w) + 2 * x] = (a + c) / 2;
            out[(2 * y + 1) * (2 * w) + 2 * x + 1] = (a + b + c + d) / 4;
        }
}

void transpose(const uint8_t *in, uint8_t *out, int h, int w) {
    for (int y = 0; y < h; y++)
        for (int x = 0; x < w; x++)
            out[x * h + y] = in[y * w + x];
}

void flip_horizontal(const uint8_t *in, uint8_t *out, int h, int w) {
    for (int y = 0; y < h; y++)
        for (int x = 0; x < w; x++)
            out[y * w + x] = in[y * w + (w - 1 - x)];
}
