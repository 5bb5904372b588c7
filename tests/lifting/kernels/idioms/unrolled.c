/* Loops unrolled by hand, with another loop for what is left over. */

float unrolled_dot(const float *a, const float *b, int n)
{
    float s = 0;
    int i = 0;
    for (; i + 4 <= n; i += 4) {
        s += a[i] * b[i];
        s += a[i + 1] * b[i + 1];
        s += a[i + 2] * b[i + 2];
        s += a[i + 3] * b[i + 3];
    }
    for (; i < n; i++)
        s += a[i] * b[i];
    return s;
}

int unrolled_sum_in_one(const int *a, int n)
{
    int s = 0;
    int i = 0;
    for (; i < n - 2; i += 3)
        s += a[i + 2] + a[i] + a[i + 1];
    for (; i < n; i++)
        s += a[i];
    return s;
}

int unrolled_largest(const int *a, int n)
{
    int m = -5;
    int i = 0;
    for (; i + 2 <= n; i += 2) {
        if (a[i] > m)
            m = a[i];
        if (a[i + 1] > m)
            m = a[i + 1];
    }
    for (; i < n; i++)
        if (a[i] > m)
            m = a[i];
    return m;
}

void unrolled_scale(float c, const float *x, float *out, int n)
{
    int i = 0;
    for (; i + 4 <= n; i += 4) {
        out[i] = c * x[i];
        out[i + 1] = c * x[i + 1];
        out[i + 2] = c * x[i + 2];
        out[i + 3] = c * x[i + 3];
    }
    for (; i < n; i++)
        out[i] = c * x[i];
}

void unrolled_axpy(float c, const float *x, float *y, int n)
{
    int i;
    for (i = 0; i < n - 3; i += 4) {
        y[i] += c * x[i];
        y[i + 1] += c * x[i + 1];
        y[i + 2] += c * x[i + 2];
        y[i + 3] += c * x[i + 3];
    }
    for (; i < n; i++)
        y[i] += c * x[i];
}

void unrolled_rows(const float *A, const float *x, float *y, int m, int n)
{
    for (int r = 0; r < m; r++) {
        float s = 0;
        int i = 0;
        for (; i + 2 <= n; i += 2) {
            s += A[r * n + i] * x[i];
            s += A[r * n + i + 1] * x[i + 1];
        }
        for (; i < n; i++)
            s += A[r * n + i] * x[i];
        y[r] = s;
    }
}

int in_two_halves(const int *x, int *out, int n)
{
    int s = 0;
    int i = 0;
    for (; i < n / 2; i++) {
        s += x[i];
        out[i] = 2 * x[i];
    }
    for (; i < n; i++) {
        s += x[i];
        out[i] = 2 * x[i];
    }
    return s;
}

float unrolled_into_four(const float *a, const float *b, int n)
{
    float s0 = 0, s1 = 0, s2 = 0, s3 = 0;
    int i = 0;
    for (; i + 3 < n; i += 4) {
        s0 += a[i] * b[i];
        s1 += a[i + 1] * b[i + 1];
        s2 += a[i + 2] * b[i + 2];
        s3 += a[i + 3] * b[i + 3];
    }
    float s = s0 + s1 + s2 + s3;
    for (; i < n; i++)
        s += a[i] * b[i];
    return s;
}

int unrolled_into_two(const int *a, int n)
{
    int s0 = 0, s1 = 0;
    int i;
    for (i = 0; i < n - n % 2; i += 2) {
        s0 += a[i];
        s1 += a[i + 1];
    }
    for (; i < n; i++)
        s0 += a[i];
    return s0 + s1;
}

float unrolled_even_less_odd(const float *a, int n)
{
    float s0 = 0, s1 = 0;
    for (int i = 0; i + 2 <= n; i += 2) {
        s0 += a[i];
        s1 += a[i + 1];
    }
    return s0 - s1;
}

float unrolled_behind_the_rest(int n, const float *x, const float *y)
{
    float s = 0;
    int m = n % 5;
    for (int i = 0; i < m; i++)
        s += x[i] * y[i];
    for (int i = m; i < n; i += 5)
        s += x[i] * y[i] + x[i + 1] * y[i + 1] + x[i + 2] * y[i + 2] + x[i + 3] * y[i + 3] + x[i + 4] * y[i + 4];
    return s;
}

void unrolled_to_a_mask(float c, const float *x, float *y, int n)
{
    int m = n & ~3;
    int i = 0;
    for (; i < m; i += 4) {
        y[i] = c * x[i];
        y[i + 1] = c * x[i + 1];
        y[i + 2] = c * x[i + 2];
        y[i + 3] = c * x[i + 3];
    }
    for (; i < n; i++)
        y[i] = c * x[i];
}
