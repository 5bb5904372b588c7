/* The inner loops of a transformer's forward pass, in single precision. */
#include <math.h>

float rmsnorm_part1(const float *x, const float *weight, int size) {
    float ss = 0.0f;
    for (int j = 0; j < size; j++)
        ss += x[j] * x[j];
    return ss;
}

void rmsnorm_part2(float *o, const float *x, const float *weight, float ss, int size) {
    float inv = ss / size + 1e-5f;
    inv = 1.0f / sqrtf(inv);
    for (int j = 0; j < size; j++)
        o[j] = weight[j] * (inv * x[j]);
}

float softmax_part1(const float *x, int size) {
    float max_val = x[0];
    for (int i = 1; i < size; i++) {
        if (x[i] > max_val)
            max_val = x[i];
    }
    return max_val;
}

void softmax_part2(float *x, int size, float max_val) {
    for (int i = 0; i < size; i++)
        x[i] = expf(x[i] - max_val);
}

float softmax_part3(const float *x, int size) {
    float sum = 0.0f;
    for (int i = 0; i < size; i++)
        sum += x[i];
    return sum;
}

void softmax_part4(float *x, int size, float sum) {
    for (int i = 0; i < size; i++)
        x[i] /= sum;
}

/* keys: a row of `stride` floats a token; this head's part begins at head * head_size. */
void transformer_part1(float *att, const float *q, const float *keys, int tokens, int head, int head_size,
                       int stride) {
    for (int t = 0; t < tokens; t++) {
        float score = 0.0f;
        for (int i = 0; i < head_size; i++)
            score += q[head * head_size + i] * keys[t * stride + head * head_size + i];
        score /= sqrtf(head_size);
        att[t] = score;
    }
}

void transformer_part2(float *xb, const float *att, const float *values, int position, int head, int head_size,
                       int stride) {
    for (int i = 0; i < head_size; i++) {
        float sum = 0.0f;
        for (int t = 0; t <= position; t++)
            sum += att[t] * values[t * stride + head * head_size + i];
        xb[i] = sum;
    }
}

void transformer_part3(float *hb, int hidden_dim) {
    for (int i = 0; i < hidden_dim; i++) {
        float val = hb[i];
        val *= (1.0f / (1.0f + expf(-val)));
        hb[i] = val;
    }
}

void transformer_part4(float *hb, const float *hb2, int hidden_dim) {
    for (int i = 0; i < hidden_dim; i++)
        hb[i] *= hb2[i];
}

void matmul(float *xout, const float *x, const float *w, int n, int d) {
    for (int i = 0; i < d; i++) {
        float val = 0.0f;
        for (int j = 0; j < n; j++)
            val += w[i * n + j] * x[j];
        xout[i] = val;
    }
}
