/* Halves of matrices, as loops write them. */

void upper_of_products(const double *x, double *g, int n, int d) {
    for (int i = 0; i < n; i++)
        for (int j = i; j < n; j++) {
            double s = 0;
            for (int k = 0; k < d; k++) s += x[i * d + k] * x[j * d + k];
            g[i * n + j] = s;
        }
}

void distances_above_the_diagonal(const float *x, float *d, int n) {
    for (int i = 0; i < n; i++)
        for (int j = i + 1; j < n; j++) d[i * n + j] = x[i] - x[j];
}

void zeros_above_the_diagonal(float *a, int n) {
    for (int i = 0; i < n; i++)
        for (int j = i + 1; j < n; j++) a[i * n + j] = 0;
}

void ones_on_the_diagonal(float *a, int n) {
    for (int i = 0; i < n; i++) a[i * n + i] = 1;
}

void distances_below_the_diagonal(const float *x, float *d, int n) {
    for (int i = 0; i < n; i++)
        for (int j = 0; j < i; j++) d[i * n + j] = x[i] - x[j];
}

void upper_column_by_column(const float *x, float *d, int n) {
    for (int j = 0; j < n; j++)
        for (int i = 0; i <= j; i++) d[i * n + j] = x[i] - x[j];
}

void both_halves(const float *x, float *d, int n) {
    for (int i = 0; i < n; i++)
        for (int j = i; j < n; j++) {
            d[i * n + j] = x[i] * x[j];
            d[j * n + i] = d[i * n + j];
        }
}

void below_the_other_diagonal(const float *x, float *d, int n) {
    for (int i = 0; i < n; i++)
        for (int j = n - 1 - i; j < n; j++) d[i * n + j] = x[i] - x[j];
}

void upper_with_rows_of_their_own(const float *x, float *d, int n, int stride) {
    for (int i = 0; i < n; i++)
        for (int j = i; j < n; j++) d[i * stride + j] = x[i * stride + j] * 2;
}

void upper_of_a_rectangle(const float *x, float *d, int h, int w) {
    for (int i = 0; i < h; i++)
        for (int j = i; j < w; j++) d[i * w + j] = x[i * w + j] + 1;
}

void upper_of_each(const float *x, float *d, int b, int n) {
    for (int p = 0; p < b; p++)
        for (int i = 0; i < n; i++)
            for (int j = i; j < n; j++) d[(p * n + i) * n + j] = x[p * n + i] * x[p * n + j];
}

void upper_update(const double *x, double *a, int n, double by) {
    for (int i = 0; i < n; i++)
        for (int j = i; j < n; j++) a[i * n + j] += by * x[i] * x[j];
}

void upper_turned(const double *u, double *v, int n) {
    for (int i = 0; i < n; i++)
        for (int j = i; j < n; j++) v[j * n + i] = u[i * n + j];
}

void upper_times_vector(const double *u, const double *x, double *y, int n) {
    for (int i = 0; i < n; i++) {
        double s = 0;
        for (int j = i; j < n; j++) s += u[i * n + j] * x[j];
        y[i] = s;
    }
}

void strict_upper_times_vector(const double *u, const double *x, double *y, int n) {
    for (int i = 0; i < n; i++) {
        double s = 0;
        for (int j = i + 1; j < n; j++) s += u[i * n + j] * x[j];
        y[i] = s;
    }
}
