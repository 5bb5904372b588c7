/* One sweep each: out differs from in, borders stay as they were. */

void jacobi_1d(int n, const double *a, double *b) {
    for (int i = 1; i < n - 1; i++)
        b[i] = 0.33333 * (a[i - 1] + a[i] + a[i + 1]);
}

void jacobi_2d(int n, const double *a, double *b) {
    for (int i = 1; i < n - 1; i++)
        for (int j = 1; j < n - 1; j++)
            b[i * n + j] = 0.2 * (a[i * n + j] + a[i * n + j - 1] + a[i * n + j + 1] + a[(i + 1) * n + j] +
                                  a[(i - 1) * n + j]);
}

void heat_2d(int rows, int cols, const float *u, float *next, float r) {
    for (int i = 1; i < rows - 1; i++)
        for (int j = 1; j < cols - 1; j++) {
            float center = u[i * cols + j];
            float around = u[(i - 1) * cols + j] + u[(i + 1) * cols + j] + u[i * cols + j - 1] + u[i * cols + j + 1];
            next[i * cols + j] = center + r * (around - 4.0f * center);
        }
}

void heat_3d(int n, const double *a, double *b) {
    for (int i = 1; i < n - 1; i++)
        for (int j = 1; j < n - 1; j++)
            for (int k = 1; k < n - 1; k++)
                b[(i * n + j) * n + k] =
                    0.125 * (a[((i + 1) * n + j) * n + k] - 2.0 * a[(i * n + j) * n + k] + a[((i - 1) * n + j) * n + k]) +
                    0.125 * (a[(i * n + j + 1) * n + k] - 2.0 * a[(i * n + j) * n + k] + a[(i * n + j - 1) * n + k]) +
                    0.125 * (a[(i * n + j) * n + k + 1] - 2.0 * a[(i * n + j) * n + k] + a[(i * n + j) * n + k - 1]) +
                    a[(i * n + j) * n + k];
}

void laplacian(const int *in, int *out, int rows, int cols) {
    for (int i = 1; i < rows - 1; i++)
        for (int j = 1; j < cols - 1; j++)
            out[i * cols + j] = in[(i - 1) * cols + j] + in[(i + 1) * cols + j] + in[i * cols + (j - 1)] +
                                in[i * cols + (j + 1)] - 4 * in[i * cols + j];
}
