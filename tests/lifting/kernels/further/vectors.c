/* Fills, an interpolation and an outer product. */

void matinit(int *a, int c, int m, int n) {
    for (int i = 0; i < m; ++i)
        for (int j = 0; j < n; ++j)
            a[i * n + j] = c;
}

void vfill(int *a, int c, int n) {
    for (int i = 0; i < n; ++i)
        a[i] = c;
}

void pin_down(int *a, int n) {
    int *p = a;
    for (int i = 0; i < n; i++)
        *p++ = 1;
}

void histogram_clear(int *bins, int n) {
    for (int i = 0; i < n; ++i)
        bins[i] = 0;
}

void lerp(const float *a, const float *b, float t, float *out, int n) {
    for (int i = 0; i < n; ++i)
        out[i] = t * a[i] + (1.0f - t) * b[i];
}

void ger(int m, int n, float *a, int lda, const float *x, const float *y) {
    for (int i = 0; i < m; ++i)
        for (int j = 0; j < n; ++j)
            a[i * lda + j] += x[i] * y[j];
}
