/* Two of the basic linear algebra subprograms. */

float dot(int n, const float *x, const float *y) {
    float sum = 0;
    while (n-- > 0)
        sum += *x++ * *y++;
    return sum;
}

void gemv(int m, int n, const float *a, const float *x, float *y) {
    for (int i = 0; i < m; ++i) {
        y[i] = 0;
        for (int j = 0; j < n; ++j)
            y[i] += a[i * n + j] * x[j];
    }
}
