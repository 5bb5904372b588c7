#include <algorithm>
#include <cstddef>
#include <vector>

void blur_by_clamp(std::vector<float> &y, const std::vector<float> &x) {
    int n = x.size();
    for (int i = 0; i < n; i++) {
        float sum = 0;
        for (int k = -1; k <= 1; k++)
            sum += x[std::clamp(i + k, 0, n - 1)];
        y[i] = sum / 3;
    }
}

void blur_by_extremes(std::vector<float> &y, const std::vector<float> &x, int n) {
    for (int i = 0; i < n; i++) {
        float sum = 0;
        for (int k = -1; k <= 1; k++)
            sum += x[std::max(0, std::min(n - 1, i + k))];
        y[i] = sum / 3;
    }
}

void difference_of_sizes(std::vector<float> &y, const std::vector<float> &x) {
    for (size_t i = 0; i < x.size(); i++) {
        size_t left = i == 0 ? 0 : i - 1;
        size_t right = std::min(i + 1, x.size() - 1);
        y[i] = x[right] - x[left];
    }
}
