/* Array helpers of a convolutional network library. */

float mag_array(const float *a, int n) {
    int i;
    float sum = 0;
    for (i = 0; i < n; ++i)
        sum += a[i] * a[i];
    return sum;
}

float mse_array(const float *a, int n) {
    int i;
    float sum = 0;
    for (i = 0; i < n; ++i)
        sum += a[i] * a[i];
    return sum;
}

float sum_array(const float *a, int n) {
    int i;
    float sum = 0;
    for (i = 0; i < n; ++i)
        sum += a[i];
    return sum;
}

void scale_array(float *a, int n, float s) {
    int i;
    for (i = 0; i < n; ++i)
        a[i] *= s;
}

void translate_array(float *a, int n, float s) {
    int i;
    for (i = 0; i < n; ++i)
        a[i] += s;
}

void mult_add_into_cpu(int N, const float *X, const float *Y, float *Z) {
    int i;
    for (i = 0; i < N; ++i)
        Z[i] += X[i] * Y[i];
}

void ol_l2_cpu1(int n, const float *pred, const float *truth, float *error) {
    int i;
    for (i = 0; i < n; ++i) {
        float diff = truth[i] - pred[i];
        error[i] = diff * diff;
    }
}

void ol_l2_cpu2(int n, const float *pred, const float *truth, float *delta) {
    int i;
    for (i = 0; i < n; ++i) {
        float diff = truth[i] - pred[i];
        delta[i] = diff;
    }
}

void matrix_add_matrix(const float *from, float *to, int rows, int cols) {
    int i, j;
    for (i = 0; i < rows; ++i)
        for (j = 0; j < cols; ++j)
            to[i * cols + j] += from[i * cols + j];
}

void scale_matrix(float *m, int rows, int cols, float scale) {
    int i, j;
    for (i = 0; i < rows; ++i)
        for (j = 0; j < cols; ++j)
            m[i * cols + j] *= scale;
}
