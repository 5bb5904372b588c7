/* Images in which rows of results have other lengths than those of what they are made of. */
#include <stdint.h>

void valid_convolution(const float *img, const float *ker, float *out, int h, int w, int k) {
    int oh = h - k + 1, ow = w - k + 1;
    for (int y = 0; y < oh; y++)
        for (int x = 0; x < ow; x++) {
            float a = 0;
            for (int i = 0; i < k; i++)
                for (int j = 0; j < k; j++) a += ker[i * k + j] * img[(y + i) * w + x + j];
            out[y * ow + x] = a;
        }
}

void guarded_convolution(const float *img, const float *ker, float *out, int h, int w, int k) {
    int oh = h - k + 1, ow = w - k + 1;
    if (k < 1 || w < k || h < k) return;
    for (int y = 0; y < oh; y++)
        for (int x = 0; x < ow; x++) {
            float a = 0;
            for (int i = 0; i < k; i++)
                for (int j = 0; j < k; j++) a += ker[i * k + j] * img[(y + i) * w + x + j];
            out[y * ow + x] = a;
        }
}

void oblong_convolution(const float *img, const float *ker, float *out, int h, int w, int kh, int kw) {
    int oh = h - kh + 1, ow = w - kw + 1;
    for (int y = 0; y < oh; y++)
        for (int x = 0; x < ow; x++) {
            float a = 0;
            for (int i = 0; i < kh; i++)
                for (int j = 0; j < kw; j++) a += ker[i * kw + j] * img[(y + i) * w + x + j];
            out[y * ow + x] = a;
        }
}

void box_of_three(const float *img, float *out, int h, int w) {
    int oh = h - 2, ow = w - 2;
    for (int y = 0; y < oh; y++)
        for (int x = 0; x < ow; x++) {
            float a = 0;
            for (int i = 0; i < 3; i++)
                for (int j = 0; j < 3; j++) a += img[(y + i) * w + x + j];
            out[y * ow + x] = a / 9;
        }
}

void half_as_large(const uint8_t *in, uint8_t *out, int w, int h) {
    for (int y = 0; y < h / 2; y++)
        for (int x = 0; x < w / 2; x++)
            out[y * (w / 2) + x] = (in[2 * y * w + 2 * x] + in[2 * y * w + 2 * x + 1] +
                                    in[(2 * y + 1) * w + 2 * x] + in[(2 * y + 1) * w + 2 * x + 1] + 2) >> 2;
}

void from_twice_as_large(const uint8_t *in, uint8_t *out, int w, int h) {
    for (int y = 0; y < h; y++)
        for (int x = 0; x < w; x++)
            out[y * w + x] = (in[2 * y * 2 * w + 2 * x] + in[2 * y * 2 * w + 2 * x + 1] + 1) >> 1;
}

void every_other_row(const float *in, float *out, int w, int h) {
    for (int y = 0; y < h; y++)
        for (int x = 0; x < w; x++) out[y * w + x] = in[2 * y * w + x];
}

void into_every_other_row(const float *in, float *out, int w, int h) {
    for (int y = 0; y < h; y++)
        for (int x = 0; x < w; x++) out[2 * y * w + x] = in[y * w + x];
}

void into_a_frame(const float *in, float *out, int w, int h) {
    int stride = w + 2;
    for (int y = 0; y < h; y++)
        for (int x = 0; x < w; x++) out[(y + 1) * stride + x + 1] = in[y * w + x];
}

void largest_of_three(const float *in, float *out, int h, int w) {
    int oh = h / 2, ow = w / 2;
    for (int y = 0; y < oh; y++)
        for (int x = 0; x < ow; x++) {
            float m = in[2 * y * w + 2 * x];
            if (in[2 * y * w + 2 * x + 1] > m) m = in[2 * y * w + 2 * x + 1];
            if (in[(2 * y + 1) * w + 2 * x] > m) m = in[(2 * y + 1) * w + 2 * x];
            out[y * ow + x] = m;
        }
}

void every_other_column(const float *in, float *out, int h, int w) {
    int ow = (w + 1) / 2;
    for (int y = 0; y < h; y++)
        for (int x = 0; x < ow; x++) out[y * ow + x] = in[y * w + 2 * x];
}

void sum_of_neighbours(const float *x, float *y, int h, int w) {
    for (int i = 0; i < h; i++)
        for (int j = 0; j < w; j++) {
            float s = x[i * w + j];
            if (i > 0) s += x[(i - 1) * w + j];
            if (i < h - 1) s += x[(i + 1) * w + j];
            if (j > 0) s += x[i * w + j - 1];
            if (j + 1 < w) s += x[i * w + j + 1];
            y[i * w + j] = s;
        }
}

void laplace_repeating_rows(const float *x, float *y, int h, int w) {
    for (int i = 0; i < h; i++)
        for (int j = 0; j < w; j++) {
            float s = -2 * x[i * w + j];
            if (i > 0) s += x[(i - 1) * w + j];
            else s += x[i * w + j];
            if (i < h - 1) s += x[(i + 1) * w + j];
            else s += x[i * w + j];
            y[i * w + j] = s;
        }
}
