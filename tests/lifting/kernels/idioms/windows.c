/* Windows over an image with nothing around it: what lies outside is left out. */

#include <stdint.h>

void same_convolution(const float *x, const float *k, float *y, int h, int w) {
    for (int i = 0; i < h; i++)
        for (int j = 0; j < w; j++) {
            float s = 0;
            for (int a = 0; a < 3; a++)
                for (int b = 0; b < 3; b++) {
                    int r = i + a - 1, c = j + b - 1;
                    if (r >= 0 && r < h && c >= 0 && c < w) s += x[r * w + c] * k[a * 3 + b];
                }
            y[i * w + j] = s;
        }
}

void by_leaving_out(const float *x, const float *k, float *y, int h, int w) {
    for (int i = 0; i < h; i++)
        for (int j = 0; j < w; j++) {
            float s = 0;
            for (int a = -1; a <= 1; a++)
                for (int b = -1; b <= 1; b++) {
                    if (i + a < 0 || i + a >= h || j + b < 0 || j + b >= w) continue;
                    s += x[(i + a) * w + j + b] * k[(a + 1) * 3 + b + 1];
                }
            y[i * w + j] = s;
        }
}

void five_by_five(const float *x, const float *k, float *y, int h, int w) {
    for (int i = 0; i < h; i++)
        for (int j = 0; j < w; j++) {
            float s = 0;
            for (int a = -2; a <= 2; a++)
                for (int b = -2; b <= 2; b++)
                    if (i + a >= 0 && i + a < h && j + b >= 0 && j + b < w)
                        s += x[(i + a) * w + j + b] * k[(a + 2) * 5 + b + 2];
            y[i * w + j] = s;
        }
}

void sums_of_bytes(const uint8_t *x, int *y, int h, int w) {
    for (int i = 0; i < h; i++)
        for (int j = 0; j < w; j++) {
            int s = 0;
            for (int a = -1; a <= 1; a++)
                for (int b = -1; b <= 1; b++)
                    if (i + a >= 0 && i + a < h && j + b >= 0 && j + b < w) s += x[(i + a) * w + j + b];
            y[i * w + j] = s;
        }
}

void mean_of_those_inside(const float *x, float *y, int h, int w) {
    for (int i = 0; i < h; i++)
        for (int j = 0; j < w; j++) {
            float s = 0;
            int n = 0;
            for (int a = -1; a <= 1; a++)
                for (int b = -1; b <= 1; b++)
                    if (i + a >= 0 && i + a < h && j + b >= 0 && j + b < w) {
                        s += x[(i + a) * w + j + b];
                        n++;
                    }
            y[i * w + j] = s / n;
        }
}

void depthwise(const float *x, const float *k, float *y, int c, int h, int w) {
    for (int m = 0; m < c; m++)
        for (int i = 0; i < h; i++)
            for (int j = 0; j < w; j++) {
                float s = 0;
                for (int a = 0; a < 3; a++)
                    for (int b = 0; b < 3; b++) {
                        int r = i + a - 1, q = j + b - 1;
                        if (r >= 0 && r < h && q >= 0 && q < w) s += x[(m * h + r) * w + q] * k[(m * 3 + a) * 3 + b];
                    }
                y[(m * h + i) * w + j] = s;
            }
}

void all_channels(const float *x, const float *k, const float *bias, float *y, int o, int c, int h, int w) {
    for (int n = 0; n < o; n++)
        for (int i = 0; i < h; i++)
            for (int j = 0; j < w; j++) {
                float s = bias[n];
                for (int m = 0; m < c; m++)
                    for (int a = 0; a < 3; a++)
                        for (int b = 0; b < 3; b++) {
                            int r = i + a - 1, q = j + b - 1;
                            if (r >= 0 && r < h && q >= 0 && q < w)
                                s += x[(m * h + r) * w + q] * k[((n * c + m) * 3 + a) * 3 + b];
                        }
                y[(n * h + i) * w + j] = s;
            }
}

void causal_filter(const float *x, const float *k, float *y, int n) {
    for (int i = 0; i < n; i++) {
        float s = 0;
        for (int t = 0; t < 4; t++)
            if (i - t >= 0) s += x[i - t] * k[t];
        y[i] = s;
    }
}

void two_apart(const float *x, const float *k, float *y, int n) {
    for (int i = 0; i < n; i++) {
        float s = 0;
        for (int t = -1; t <= 1; t++)
            if (i + 2 * t >= 0 && i + 2 * t < n) s += x[i + 2 * t] * k[t + 1];
        y[i] = s;
    }
}

void largest_nearby(const float *x, float *y, int h, int w) {
    for (int i = 0; i < h; i++)
        for (int j = 0; j < w; j++) {
            float s = x[i * w + j];
            for (int a = -1; a <= 1; a++)
                for (int b = -1; b <= 1; b++)
                    if (i + a >= 0 && i + a < h && j + b >= 0 && j + b < w)
                        if (x[(i + a) * w + j + b] > s) s = x[(i + a) * w + j + b];
            y[i * w + j] = s;
        }
}

void life(const int *x, int *y, int h, int w) {
    for (int i = 0; i < h; i++)
        for (int j = 0; j < w; j++) {
            int n = 0;
            for (int a = -1; a <= 1; a++)
                for (int b = -1; b <= 1; b++) {
                    if (a == 0 && b == 0) continue;
                    if (i + a >= 0 && i + a < h && j + b >= 0 && j + b < w) n += x[(i + a) * w + j + b];
                }
            y[i * w + j] = n == 3 || (n == 2 && x[i * w + j]);
        }
}

void largest_from_below(const float *x, float *y, int h, int w) {
    for (int i = 0; i < h; i++)
        for (int j = 0; j < w; j++) {
            float s = -1000;
            for (int a = -1; a <= 1; a++)
                for (int b = -1; b <= 1; b++)
                    if (i + a >= 0 && i + a < h && j + b >= 0 && j + b < w)
                        if (x[(i + a) * w + j + b] > s) s = x[(i + a) * w + j + b];
            y[i * w + j] = s;
        }
}

void convolution_of_bytes(const uint8_t *x, const int8_t *k, int32_t *y, int h, int w) {
    for (int i = 0; i < h; i++)
        for (int j = 0; j < w; j++) {
            int32_t s = 0;
            for (int a = 0; a < 3; a++)
                for (int b = 0; b < 3; b++) {
                    int r = i + a - 1, c = j + b - 1;
                    if (r >= 0 && r < h && c >= 0 && c < w) s += x[r * w + c] * k[a * 3 + b];
                }
            y[i * w + j] = s;
        }
}

void requantized(const uint8_t *x, const int8_t *k, uint8_t *y, int h, int w) {
    for (int i = 0; i < h; i++)
        for (int j = 0; j < w; j++) {
            int32_t s = 0;
            for (int a = 0; a < 3; a++)
                for (int b = 0; b < 3; b++) {
                    int r = i + a - 1, c = j + b - 1;
                    if (r >= 0 && r < h && c >= 0 && c < w) s += x[r * w + c] * k[a * 3 + b];
                }
            s = s >> 8;
            y[i * w + j] = s < 0 ? 0 : s > 255 ? 255 : s;
        }
}

void rows_and_columns(const float *x, float *y, int h, int w) {
    for (int i = 0; i < h; i++)
        for (int j = 0; j < w; j++) {
            float s = 0;
            for (int a = -1; a <= 1; a++)
                if (i + a >= 0 && i + a < h) s += x[(i + a) * w + j];
            for (int b = -1; b <= 1; b++)
                if (j + b >= 0 && j + b < w) s += x[i * w + j + b];
            y[i * w + j] = s;
        }
}

void third_of_doubled(const int *x, int *y, int n) {
    for (int i = 0; i < n; i++) {
        int s = 0;
        for (int a = 0; a <= 2; a++)
            if (i - a >= 0) s += 2 * x[i - a];
        y[i] = s / 3;
    }
}

void not_the_middle(const int *x, const int *f, int *y, int n) {
    for (int i = 0; i < n; i++) {
        int s = 0;
        for (int a = -1; a <= 1; a++)
            if ((f[i] > 2 || a != 0) && i + a >= 0 && i + a < n) s += x[i + a];
        y[i] = s;
    }
}

void convolved_at_every_other(int h, int w, const float *x, const float *k, float *out) {
  int oh = (h - 1) / 2 + 1, ow = (w - 1) / 2 + 1;
  for (int i = 0; i < oh; i++)
    for (int j = 0; j < ow; j++) {
      float s = 0;
      for (int u = 0; u < 3; u++)
        for (int v = 0; v < 3; v++) {
          int r = 2 * i + u - 1, c = 2 * j + v - 1;
          if (r >= 0 && r < h && c >= 0 && c < w) s += x[r * w + c] * k[u * 3 + v];
        }
      out[i * ow + j] = s;
    }
}

void layer_at_every_other(int ci, int co, int h, int w, const float *x, const float *f, const float *b, float *out) {
  int oh = (h - 1) / 2 + 1, ow = (w - 1) / 2 + 1;
  for (int o = 0; o < co; o++)
    for (int i = 0; i < oh; i++)
      for (int j = 0; j < ow; j++) {
        float s = b[o];
        for (int q = 0; q < ci; q++)
          for (int u = 0; u < 3; u++)
            for (int v = 0; v < 3; v++) {
              int r = 2 * i + u - 1, c = 2 * j + v - 1;
              if (r < 0 || r >= h || c < 0 || c >= w) continue;
              s += x[(q * h + r) * w + c] * f[((o * ci + q) * 3 + u) * 3 + v];
            }
        out[(o * oh + i) * ow + j] = s > 0 ? s : 0;
      }
}

void largest_around_every_other(int h, int w, const float *x, float *out) {
  int oh = (h - 1) / 2 + 1, ow = (w - 1) / 2 + 1;
  for (int i = 0; i < oh; i++)
    for (int j = 0; j < ow; j++) {
      float m = -1e30f;
      for (int u = -1; u <= 1; u++)
        for (int v = -1; v <= 1; v++) {
          int r = 2 * i + u, c = 2 * j + v;
          if (r >= 0 && r < h && c >= 0 && c < w && x[r * w + c] > m) m = x[r * w + c];
        }
      out[i * ow + j] = m;
    }
}

void filtered_at_every_third(int n, const float *x, const float *k, float *out) {
  for (int i = 0; i < n / 3; i++) {
    float s = 0;
    for (int t = 0; t < 5; t++)
      if (3 * i + t - 2 >= 0 && 3 * i + t - 2 < n) s += x[3 * i + t - 2] * k[t];
    out[i] = s;
  }
}

void sums_at_as_many_as_asked(int h, int w, int oh, int ow, const float *x, float *out) {
  for (int i = 0; i < oh; i++)
    for (int j = 0; j < ow; j++) {
      float s = 0;
      for (int u = 0; u < 3; u++)
        for (int v = 0; v < 3; v++) {
          int r = 2 * i + u - 1, c = 2 * j + v - 1;
          if (r >= 0 && r < h && c >= 0 && c < w) s += x[r * w + c];
        }
      out[i * ow + j] = s;
    }
}

void two_ends_at_every_other(int n, const float *x, const float *k, float *out) {
  for (int i = 0; i < (n + 1) / 2; i++) {
    float s = 0;
    for (int t = 0; t < 3; t++) {
      if (2 * i + t - 1 >= 0 && 2 * i + t - 1 < n) s += x[2 * i + t - 1] * k[t];
      if (2 * i + t - 1 >= 0 && 2 * i + t - 1 < n - 1) s += x[2 * i + t - 1] * k[t + 3];
    }
    out[i] = s;
  }
}

void weighted_by_the_next(int n, int k, const float *x, const float *w, float *y) {
  for (int i = 0; i < n; i++) {
    float s = 0;
    for (int j = 0; j < k; j++)
      if (i + j < n) s += w[j] * x[i + j];
    y[i] = s;
  }
}
