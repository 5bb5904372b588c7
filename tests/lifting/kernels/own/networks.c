/* Layers of networks. */
#include <math.h>

void batched_matmul(const float *a, const float *b, float *c, int batch, int m, int n, int k) {
    for (int t = 0; t < batch; t++)
        for (int i = 0; i < m; i++)
            for (int j = 0; j < n; j++) {
                float sum = 0.0f;
                for (int p = 0; p < k; p++)
                    sum += a[(t * m + i) * k + p] * b[(t * k + p) * n + j];
                c[(t * m + i) * n + j] = sum;
            }
}

void layer_norm(const float *x, const float *gain, const float *bias, float *y, int rows, int cols) {
    for (int i = 0; i < rows; i++) {
        float mean = 0.0f;
        for (int j = 0; j < cols; j++)
            mean += x[i * cols + j];
        mean /= cols;
        float variance = 0.0f;
        for (int j = 0; j < cols; j++) {
            float d = x[i * cols + j] - mean;
            variance += d * d;
        }
        variance /= cols;
        float scale = 1.0f / sqrtf(variance + 1e-5f);
        for (int j = 0; j < cols; j++)
            y[i * cols + j] = (x[i * cols + j] - mean) * scale * gain[j] + bias[j];
    }
}

void rms_norm(const float *x, const float *weight, float *out, int n) {
    float ss = 0.0f;
    for (int i = 0; i < n; i++)
        ss += x[i] * x[i];
    ss = 1.0f / sqrtf(ss / n + 1e-5f);
    for (int i = 0; i < n; i++)
        out[i] = weight[i] * (ss * x[i]);
}

void softmax(float *x, int n) {
    float top = x[0];
    for (int i = 1; i < n; i++)
        if (x[i] > top)
            top = x[i];
    float sum = 0.0f;
    for (int i = 0; i < n; i++) {
        x[i] = expf(x[i] - top);
        sum += x[i];
    }
    for (int i = 0; i < n; i++)
        x[i] /= sum;
}

void dense_relu(const float *x, const float *w, const float *b, float *y, int batch, int n, int m) {
    for (int i = 0; i < batch; i++)
        for (int j = 0; j < m; j++) {
            float sum = b[j];
            for (int k = 0; k < n; k++)
                sum += x[i * n + k] * w[j * n + k];
            y[i * m + j] = sum > 0.0f ? sum : 0.0f;
        }
}
