#include <cmath>

void nearest(int n, const float *x, long *y) {
  for (int i = 0; i < n; i++) y[i] = std::lround(x[i]);
}

void rounded(int n, const float *x, float *y) {
  for (int i = 0; i < n; i++) y[i] = std::round(x[i]) - std::rint(x[i]);
}

void octaves(int n, const int *x, float *y) {
  for (int i = 0; i < n; i++) y[i] = std::log2(std::fabs(x[i]) + 1.0f);
}
