#include <stddef.h>
#include <stdint.h>

void take(int n, const int *ids, const float *table, float *out) {
    for (int i = 0; i < n; i++)
        out[i] = table[ids[i]];
}

void embed(int n, int d, const int *ids, const float *table, float *out) {
    for (int i = 0; i < n; i++)
        for (int j = 0; j < d; j++)
            out[i * d + j] = table[ids[i] * d + j];
}

void by_bytes(int n, const uint8_t *x, const uint8_t *table, uint8_t *out) {
    for (int i = 0; i < n; i++)
        out[i] = table[x[i]];
}

void gamma_of(int h, int w, const uint8_t *image, const float *curve, float *out) {
    for (int y = 0; y < h; y++)
        for (int x = 0; x < w; x++)
            out[y * w + x] = 2.0f * curve[image[y * w + x]];
}

float dot_by(int n, const long *ids, const float *w, const float *x) {
    float sum = 0;
    for (int i = 0; i < n; i++)
        sum += w[ids[i]] * x[i];
    return sum;
}

void padded(int n, const int *ids, const float *table, float *out) {
    for (int i = 0; i < n; i++) {
        if (ids[i] >= 0)
            out[i] = table[ids[i]];
        else
            out[i] = 0;
    }
}

void twice(int n, const int *a, const int *b, const double *t, double *out) {
    for (int i = 0; i < n; i++) {
        int k = a[b[i]];
        out[i] = t[k] + t[k + 1];
    }
}

int first_of(const int *place, const int *t) { return t[place[0]]; }

float largest_of(int n, const int *ids, const float *t) {
    float most = t[ids[0]];
    for (int i = 1; i < n; i++)
        if (t[ids[i]] > most)
            most = t[ids[i]];
    return most;
}

void beside(int n, const int *ids, const float *t, float *out) {
    for (int i = 0; i < n; i++)
        out[i] = t[i] - t[ids[i]];
}

void walked(size_t n, const unsigned *ids, const int16_t *t, int16_t *out) {
    while (n--)
        *out++ = t[*ids++];
}

int64_t by_sizes(size_t n, const size_t *ids, const int64_t *t) {
    int64_t sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += t[ids[n - 1 - i]];
    return sum;
}

int first_negative(const int *a, int n) {
    for (int i = 0; i < n; i++)
        if (a[i] < 0)
            return a[i];
    return 0;
}

float at_the_largest(int n, const float *a, const float *b) {
    int k = 0;
    for (int i = 1; i < n; i++)
        if (a[i] > a[k])
            k = i;
    return b[k];
}

int value_of(int n, const int *keys, const int *values, int key) {
    for (int i = 0; i < n; i++)
        if (keys[i] == key)
            return values[i];
    return -1;
}

void embed_rows(int n, int v, int d, const int *ids, const float table[v][d], float out[n][d]) {
    for (int i = 0; i < n; i++)
        for (int j = 0; j < d; j++)
            out[i][j] = table[ids[i]][j];
}

float right_ones(int n, int d, const float logits[n][d], const uint8_t *labels) {
    float sum = 0;
    for (int i = 0; i < n; i++)
        sum += logits[i][labels[i]];
    return sum;
}

void in_cube(int n, const int16_t t[][3][4], const int *a, int16_t *out) {
    for (int i = 0; i < n; i++)
        out[i] = t[a[i]][a[i]][a[i] + 1];
}

float one_of(int n, int d, const float t[n][d], const int *ids, int i, int j) { return t[ids[i]][j]; }

void beside_rows(int n, int d, const float t[n][d], const int *ids, float *out) {
    for (int i = 0; i < n; i++)
        out[i] = t[ids[i]][0] - t[i][d - 1];
}
