/* Convolutions (correlations, as networks have them) without padding, and pooling. */

/* y: n outputs from n + taps - 1 inputs. */
void conv_1d(const float *x, const float *w, float *y, int n, int taps) {
    for (int i = 0; i < n; i++) {
        float sum = 0.0f;
        for (int k = 0; k < taps; k++)
            sum += w[k] * x[i + k];
        y[i] = sum;
    }
}

/* The textbook filter: taps reversed. */
void fir_reversed(const float *x, const float *h, float *y, int n, int taps) {
    for (int i = 0; i < n; i++) {
        y[i] = 0;
        for (int k = 0; k < taps; k++)
            y[i] += h[taps - 1 - k] * x[i + k];
    }
}

/* out: h w, in: (h + kh - 1) (w + kw - 1). */
void conv_2d(const float *in, const float *kernel, float *out, int h, int w, int kh, int kw) {
    int stride = w + kw - 1;
    for (int y = 0; y < h; y++)
        for (int x = 0; x < w; x++) {
            float sum = 0.0f;
            for (int i = 0; i < kh; i++)
                for (int j = 0; j < kw; j++)
                    sum += kernel[i * kw + j] * in[(y + i) * stride + x + j];
            out[y * w + x] = sum;
        }
}

/* Channels last to channels first as networks keep them: in c (h + 2) (w + 2), weights f c 3 3, out f h w. */
void conv_3x3(const float *in, const float *weights, const float *bias, float *out, int f, int c, int h, int w) {
    for (int o = 0; o < f; o++)
        for (int y = 0; y < h; y++)
            for (int x = 0; x < w; x++) {
                float sum = bias[o];
                for (int k = 0; k < c; k++)
                    for (int i = 0; i < 3; i++)
                        for (int j = 0; j < 3; j++)
                            sum += weights[((o * c + k) * 3 + i) * 3 + j] *
                                   in[(k * (h + 2) + y + i) * (w + 2) + x + j];
                out[(o * h + y) * w + x] = sum;
            }
}

/* out d h w, a kernel of 2 2 2. */
void conv_3d(const float *in, const float *kernel, float *out, int d, int h, int w) {
    for (int z = 0; z < d; z++)
        for (int y = 0; y < h; y++)
            for (int x = 0; x < w; x++) {
                float sum = 0.0f;
                for (int i = 0; i < 2; i++)
                    for (int j = 0; j < 2; j++)
                        for (int k = 0; k < 2; k++)
                            sum += kernel[(i * 2 + j) * 2 + k] *
                                   in[((z + i) * (h + 1) + y + j) * (w + 1) + x + k];
                out[(z * h + y) * w + x] = sum;
            }
}

/* in c (h + 2) (w + 2), a kernel of 3 3 a channel. */
void depthwise_conv(const float *in, const float *weights, float *out, int c, int h, int w) {
    for (int k = 0; k < c; k++)
        for (int y = 0; y < h; y++)
            for (int x = 0; x < w; x++) {
                float sum = 0.0f;
                for (int i = 0; i < 3; i++)
                    for (int j = 0; j < 3; j++)
                        sum += weights[(k * 3 + i) * 3 + j] * in[(k * (h + 2) + y + i) * (w + 2) + x + j];
                out[(k * h + y) * w + x] = sum;
            }
}

/* Windows of 2 x 2: in is 2h x 2w. */
void max_pool_2x2(const int *in, int *out, int h, int w) {
    for (int y = 0; y < h; y++)
        for (int x = 0; x < w; x++) {
            int best = in[(2 * y) * (2 * w) + 2 * x];
            for (int i = 0; i < 2; i++)
                for (int j = 0; j < 2; j++)
                    if (in[(2 * y + i) * (2 * w) + 2 * x + j] > best)
                        best = in[(2 * y + i) * (2 * w) + 2 * x + j];
            out[y * w + x] = best;
        }
}

void average_pool_2x2(const float *in, float *out, int h, int w) {
    for (int y = 0; y < h; y++)
        for (int x = 0; x < w; x++) {
            float sum = 0.0f;
            for (int i = 0; i < 2; i++)
                for (int j = 0; j < 2; j++)
                    sum += in[(2 * y + i) * (2 * w) + 2 * x + j];
            out[y * w + x] = sum / 4.0f;
        }
}
