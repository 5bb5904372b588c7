/* Vectors and matrices of a signal processing library. */

void vadd(const int *a, const int *b, int n, int *out) {
    for (int i = 0; i < n; ++i)
        *out++ = *a++ + *b++;
}

void vsub(const int *a, const int *b, int n, int *out) {
    for (int i = 0; i < n; ++i)
        out[i] = a[i] - b[i];
}

void vmul(const int *a, const int *b, int n, int *out) {
    while (n > 0) {
        *out = *a * *b;
        out++;
        a++;
        b++;
        n--;
    }
}

void vcopy(const int *a, int n, int *out) {
    for (int i = 0; i < n; ++i)
        out[i] = a[i];
}

void vneg(const int *a, int n, int *out) {
    for (int i = 0; i < n; ++i)
        out[i] = -a[i];
}

void voffset(const int *a, int v, int n, int *out) {
    for (int i = 0; i < n; ++i)
        out[i] = a[i] + v;
}

void vrecip(const int *a, int n, int *out) {
    for (int i = 0; i < n; ++i)
        out[i] = 1 / a[i];
}

void vscal(const int *a, int v, int n, int *out) {
    for (int i = n - 1; i >= 0; --i)
        out[i] = a[i] * v;
}

void wvec(const int *a, const int *b, int m, int n, int *out) {
    for (int i = 0; i < n; ++i)
        out[i] = m * a[i] + b[i];
}

void matadd(const int *a, const int *b, int m, int n, int *out) {
    for (int i = 0; i < m; ++i)
        for (int j = 0; j < n; ++j)
            *out++ = *a++ + *b++;
}

void matsub(const int *a, const int *b, int m, int n, int *out) {
    for (int i = 0; i < m; ++i)
        for (int j = 0; j < n; ++j)
            out[i * n + j] = a[i * n + j] - b[i * n + j];
}

void matscal(const int *a, int v, int m, int n, int *out) {
    for (int j = 0; j < n; ++j)
        for (int i = 0; i < m; ++i)
            out[i * n + j] = a[i * n + j] * v;
}
