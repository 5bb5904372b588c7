void extremes_of(const float *x, int n, float *low, float *high) {
    float a = x[0], b = x[0];
    for (int i = 1; i < n; i++) {
        if (x[i] < a) a = x[i];
        if (x[i] > b) b = x[i];
    }
    *low = a;
    *high = b;
}

void sum_and_squares(const double *x, int n, double *sum, double *squares) {
    *sum = 0;
    *squares = 0;
    for (int i = 0; i < n; i++) {
        *sum += x[i];
        *squares += x[i] * x[i];
    }
}

void complex_product(double *re, double *im, const double *a, const double *b, const double *c,
                     const double *d, int n) {
    for (int i = 0; i < n; i++) {
        re[i] = a[i] * c[i] - b[i] * d[i];
        im[i] = a[i] * d[i] + b[i] * c[i];
    }
}
