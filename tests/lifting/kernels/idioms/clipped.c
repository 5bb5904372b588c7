#include <stdint.h>

#define MAX(a, b) ((a) > (b) ? (a) : (b))
#define MIN(a, b) ((a) < (b) ? (a) : (b))

void by_macros(int n, const float *x, float *y) {
  for (int i = 0; i < n; i++) {
    float s = 0;
    for (int j = MAX(0, i - 1); j < MIN(n, i + 2); j++) s += x[j];
    y[i] = s;
  }
}

void by_choices(int n, const float *x, float *y) {
  for (int i = 0; i < n; i++) {
    float s = 0;
    int lo = i - 1 < 0 ? 0 : i - 1, hi = i + 1 >= n ? n - 1 : i + 1;
    for (int j = lo; j <= hi; j++) s += x[j];
    y[i] = s / (hi - lo + 1);
  }
}

void by_branches(int n, const float *x, float *y) {
  for (int i = 0; i < n; i++) {
    float s = 0;
    int lo = i - 2, hi = i + 2;
    if (lo < 0) lo = 0;
    if (hi > n - 1) hi = n - 1;
    for (int j = lo; j <= hi; j++) s += x[j];
    y[i] = s;
  }
}

void by_either(int n, const float *x, float *y) {
  for (int i = 0; i < n; i++) {
    float s = 0;
    int lo, hi;
    if (i > 0)
      lo = i - 1;
    else
      lo = 0;
    if (i + 2 < n)
      hi = i + 2;
    else
      hi = n;
    for (int j = lo; j < hi; j++) s += x[j];
    y[i] = s;
  }
}

void as_long_as_both(int n, const float *x, float *y) {
  for (int i = 0; i < n; i++) {
    float s = 0;
    int j;
    for (j = i; j < n && j < i + 3; j++) s += x[j];
    y[i] = s;
  }
}

void rows_and_columns(int h, int w, const float *x, float *y) {
  for (int i = 0; i < h; i++) {
    int r0 = i > 0 ? i - 1 : 0, r1 = i < h - 1 ? i + 1 : h - 1;
    for (int j = 0; j < w; j++) {
      int c0 = j > 0 ? j - 1 : 0, c1 = j < w - 1 ? j + 1 : w - 1;
      float s = 0;
      for (int r = r0; r <= r1; r++)
        for (int c = c0; c <= c1; c++) s += x[r * w + c];
      y[i * w + j] = s;
    }
  }
}

void dilation(int h, int w, const uint8_t *x, uint8_t *y) {
  for (int i = 0; i < h; i++)
    for (int j = 0; j < w; j++) {
      uint8_t most = 0;
      for (int r = MAX(i - 1, 0); r <= MIN(i + 1, h - 1); r++)
        for (int c = MAX(j - 1, 0); c <= MIN(j + 1, w - 1); c++)
          if (x[r * w + c] > most) most = x[r * w + c];
      y[i * w + j] = most;
    }
}

void full_convolution(int n, int m, const float *x, const float *h, float *y) {
  for (int i = 0; i < n + m - 1; i++) {
    y[i] = 0;
    for (int k = MAX(0, i - m + 1); k <= MIN(i, n - 1); k++) y[i] += x[k] * h[i - k];
  }
}

void sums_of_the_next(int n, int k, const float *x, float *y) {
  for (int i = 0; i < n; i++) {
    float s = 0;
    int end = i + k < n ? i + k : n;
    for (int j = i; j < end; j++) s += x[j];
    y[i] = s;
  }
}
