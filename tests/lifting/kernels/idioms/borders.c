#include <stdint.h>
#include <stdlib.h>

static int clamp(int v, int low, int high) {
    return v < low ? low : v > high ? high : v;
}

void blur_by_helper(float *y, const float *x, int n) {
    for (int i = 0; i < n; i++)
        y[i] = (x[clamp(i - 1, 0, n - 1)] + x[i] + x[clamp(i + 1, 0, n - 1)]) / 3;
}

void difference(float *y, const float *x, int n) {
    for (int i = 0; i < n; i++) {
        int left = i - 1 < 0 ? 0 : i - 1;
        int right = i + 1 < n ? i + 1 : n - 1;
        y[i] = x[right] - x[left];
    }
}

void box_of_radius(float *y, const float *x, int n, int r) {
    for (int i = 0; i < n; i++) {
        float sum = 0;
        for (int k = -r; k <= r; k++) {
            int j = i + k;
            if (j < 0) j = 0;
            if (j >= n) j = n - 1;
            sum += x[j];
        }
        y[i] = sum;
    }
}

void box_blur_8(uint8_t *y, const uint8_t *x, int h, int w) {
    for (int i = 0; i < h; i++)
        for (int j = 0; j < w; j++) {
            int sum = 0;
            for (int a = -1; a <= 1; a++)
                for (int b = -1; b <= 1; b++) {
                    int r = i + a, c = j + b;
                    if (r < 0) r = 0;
                    else if (r >= h) r = h - 1;
                    if (c < 0) c = 0;
                    else if (c >= w) c = w - 1;
                    sum += x[r * w + c];
                }
            y[i * w + j] = (uint8_t)(sum / 9);
        }
}

void sobel_x(float *y, const float *x, int h, int w) {
    for (int i = 0; i < h; i++)
        for (int j = 0; j < w; j++) {
            int u = i > 0 ? i - 1 : 0, d = i < h - 1 ? i + 1 : h - 1;
            int l = j > 0 ? j - 1 : 0, r = j < w - 1 ? j + 1 : w - 1;
            y[i * w + j] = x[u * w + r] + 2 * x[i * w + r] + x[d * w + r]
                         - x[u * w + l] - 2 * x[i * w + l] - x[d * w + l];
        }
}

void gauss_in_two_passes(float *y, float *rows, const float *x, const float *k, int h, int w) {
    for (int i = 0; i < h; i++)
        for (int j = 0; j < w; j++) {
            float sum = 0;
            for (int d = -2; d <= 2; d++) {
                int c = j + d;
                if (c < 0) c = 0;
                if (c > w - 1) c = w - 1;
                sum += k[d + 2] * x[i * w + c];
            }
            rows[i * w + j] = sum;
        }
    for (int i = 0; i < h; i++)
        for (int j = 0; j < w; j++) {
            float sum = 0;
            for (int d = -2; d <= 2; d++) {
                int r = i + d;
                if (r < 0) r = 0;
                if (r > h - 1) r = h - 1;
                sum += k[d + 2] * rows[r * w + j];
            }
            y[i * w + j] = sum;
        }
}

void mirrored(float *y, const float *x, const float *k, int n) {
    for (int i = 0; i < n; i++) {
        float sum = 0;
        for (int d = -1; d <= 1; d++) {
            int j = i + d;
            if (j < 0) j = -j;
            if (j >= n) j = 2 * n - 2 - j;
            sum += k[d + 1] * x[j];
        }
        y[i] = sum;
    }
}

void mirrored_by_abs(float *y, const float *x, int n) {
    for (int i = 0; i < n; i++)
        y[i] = x[i] - x[abs(i - 1)];
}

void wrapped_around(float *y, const float *x, int h, int w) {
    for (int i = 0; i < h; i++)
        for (int j = 0; j < w; j++) {
            int u = i == 0 ? h - 1 : i - 1, d = i == h - 1 ? 0 : i + 1;
            int l = j == 0 ? w - 1 : j - 1, r = j == w - 1 ? 0 : j + 1;
            y[i * w + j] = x[u * w + j] + x[d * w + j] + x[i * w + l] + x[i * w + r] - 4 * x[i * w + j];
        }
}

void where_gate_is_open(float *y, const float *x, const float *gate, int n) {
    for (int i = 0; i < n; i++) {
        int j = i > 0 ? i - 1 : 0;
        y[i] = gate[i] > 0 ? x[j] : 0;
    }
}

void rotated(float *y, const float *x, int n, int s) {
    for (int i = 0; i < n; i++)
        y[i] = x[(i + s) % n];
}

void up_to_a_border(float *y, const float *x, int n, int m) {
    for (int i = 0; i < n; i++) {
        int j = i < m ? i : m - 1;
        if (m > 0)
            y[i] = x[j];
        else
            y[i] = 0;
    }
}

void every_other(float *y, const float *x, int n) {
    for (int i = 0; i < n; i += 2) {
        int j = i + 1 < n ? i + 1 : n - 1;
        y[i] = x[j];
    }
}

void edge_padded(float *y, const float *x, int n, int r) {
    for (int i = 0; i < n + 2 * r; i++) {
        int j = i - r;
        if (j < 0) j = 0;
        if (j >= n) j = n - 1;
        y[i] = x[j];
    }
}

float sum_with_edges(const float *x, int n) {
    float sum = 0;
    for (int i = -1; i < n + 1; i++) {
        int j = i < 0 ? 0 : i >= n ? n - 1 : i;
        sum += x[j];
    }
    return sum;
}

void clamped_between(float *y, const float *x, int n, int lo, int hi) {
    for (int i = 0; i < n; i++) {
        int j = i < lo ? lo : i > hi ? hi : i;
        y[i] = x[j];
    }
}

void there_and_back(float *y, const float *x, int n) {
    for (int i = 0; i < 2 * n; i++) {
        int j = i < n ? i : 2 * n - 1 - i;
        y[i] = x[j];
    }
}

void rotated_in_one_turn(float *y, const float *x, int n, int s) {
    for (int i = 0; i < n; i++) {
        int j = i + s;
        if (j >= n) j -= n;
        y[i] = x[j];
    }
}

void next_of_the_first(float *y, const float *x, int n, int m) {
    for (int i = 0; i < n; i++) {
        int j = i + 1 < n ? i + 1 : n - 1;
        if (i < m)
            y[i] = x[j];
        else
            y[i] = 0;
    }
}

void back_by_three(float *y, const float *x, int n, int m) {
    for (int i = 0; i < n; i++) {
        int j = i - 3;
        if (j < 0) j = 0;
        if (j >= m) j = m - 1;
        y[i] = x[j];
    }
}

void back_by_three_upper_first(float *y, const float *x, int n, int m) {
    for (int i = 0; i < n; i++) {
        int j = i - 3;
        if (j >= m) j = m - 1;
        if (j < 0) j = 0;
        y[i] = x[j];
    }
}

void clamped_upper_first(float *y, const float *x, int n, int lo, int hi) {
    for (int i = 0; i < n; i++) {
        int j = i > hi ? hi : i;
        if (j < lo) j = lo;
        y[i] = x[j];
    }
}

void rows_there_and_back(float *y, const float *x, int h, int w) {
    for (int i = 0; i < 2 * h; i++)
        for (int j = 0; j < w; j++) {
            int r = i < h ? i : 2 * h - 1 - i;
            y[i * w + j] = x[r * w + j];
        }
}

void with_both_neighbours(float *y, const float *x, int n) {
    for (int i = 0; i < n; i++) {
        float s = x[i];
        if (i > 0) s += x[i - 1];
        if (i < n - 1) s += x[i + 1];
        y[i] = s;
    }
}

void with_those_two_away(int *y, const int *x, int n) {
    for (int i = 0; i < n; i++) {
        int s = x[i];
        if (i > 1) s += x[i - 2];
        if (i < n - 2) s -= x[i + 2];
        y[i] = s;
    }
}
