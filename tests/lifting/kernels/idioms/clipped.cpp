#include <algorithm>
#include <vector>

void by_functions(int n, const float *x, float *y) {
  for (int i = 0; i < n; i++) {
    float s = 0;
    for (int j = std::max(0, i - 1); j < std::min(n, i + 2); j++) s += x[j];
    y[i] = s;
  }
}

std::vector<float> of_vectors(const std::vector<float> &x) {
  int n = x.size();
  std::vector<float> y(n);
  for (int i = 0; i < n; i++) {
    float most = x[i];
    for (int j = std::max(i - 2, 0); j <= std::min(i + 2, n - 1); j++) most = std::max(most, x[j]);
    y[i] = most;
  }
  return y;
}
