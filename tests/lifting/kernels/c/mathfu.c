/* Vector operators of a geometry library. */

float len(const float *a, int n) {
    float sum = 0;
    for (int i = 0; i < n; ++i)
        sum += a[i] * a[i];
    return sum;
}

float len_sq(const float *a, int n) {
    float sum = 0;
    for (int i = 0; i < n; ++i)
        sum += a[i] * a[i];
    return sum;
}

void negate(const float *a, float *out, int n) {
    for (int i = 0; i < n; ++i)
        out[i] = -a[i];
}

void pluseq(float *a, const float *b, int n) {
    for (int i = 0; i < n; ++i)
        a[i] += b[i];
}

void subeq(float *a, const float *b, int n) {
    for (int i = 0; i < n; ++i)
        a[i] -= b[i];
}

void muleq(float *a, const float *b, int n) {
    for (int i = 0; i < n; ++i)
        a[i] *= b[i];
}

void diveq(float *a, const float *b, int n) {
    for (int i = 0; i < n; ++i)
        a[i] /= b[i];
}

void subeq_sca(float *a, float b, int n) {
    for (int i = 0; i < n; ++i)
        a[i] -= b;
}

void muleq_sca(float *a, float b, int n) {
    for (int i = 0; i < n; ++i)
        a[i] *= b;
}

void diveq_sca(float *a, float b, int n) {
    for (int i = 0; i < n; ++i)
        a[i] /= b;
}

void matmul_sca(float *a, float v, int m, int n) {
    for (int i = 0; i < m; ++i)
        for (int j = 0; j < n; ++j)
            a[i * n + j] *= v;
}
