/* Stores with steps, upwards and downwards; what the last iteration wrote. */

void every_second(int n, float *a) {
    for (int i = 0; i < n; i += 2)
        a[i] = 0;
}

void every_third_from_one(int n, float *a) {
    for (int i = 1; i < n; i += 3)
        a[i] = a[i] * 2 + 1;
}

void spread_pairs(int n, const float *a, float *b) {
    for (int i = 0; i < n; i++) {
        b[2 * i] = a[i];
        b[2 * i + 1] = -a[i];
    }
}

void every_second_from_the_end(int n, const int *a, int *b) {
    for (int i = n - 1; i >= 0; i -= 2)
        b[i] = a[i];
}

void reversed_and_spread(int n, const int *a, int *b) {
    for (int i = 0; i < n; i++)
        b[2 * (n - 1 - i)] = a[i];
}

void swap_neighbours(int n, float *a) {
    for (int i = 0; i + 1 < n; i += 2) {
        float t = a[i];
        a[i] = a[i + 1];
        a[i + 1] = t;
    }
}

void last_row(int rows, int cols, const double *a, double *b) {
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < cols; j++)
            b[j] = a[i * cols + j];
}

void last_and_triple(int n, const int *a, int *last, int *triple) {
    int s = 0, t = 5;
    for (int i = 0; i < n; i++) {
        s = a[i];
        t = a[i] * 3;
    }
    *last = s;
    *triple = t;
}

void smoothed_to_the_border(int n, const float *x, float *y) {
    for (int i = 0; i < n; i++) {
        int l = i > 0 ? i - 1 : 0, r = i < n - 1 ? i + 1 : n - 1;
        y[i] = 0.25f * x[l] + 0.5f * x[i] + 0.25f * x[r];
    }
}
