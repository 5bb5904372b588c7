#include <algorithm>
#include <cstddef>
#include <cstdint>
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

static int within(int v, int low, int high) { return v < low ? low : v > high ? high : v; }

static float between(float v, float low, float high) { return v < low ? low : v > high ? high : v; }

static int kept_within(int v, int low, int high) {
    if (v < low) return low;
    if (v > high) return high;
    return v;
}

void sharper_rows(const uint8_t *in, uint8_t *out, int w, int h) {
    for (int y = 0; y < h; y++)
        for (int x = 0; x < w; x++) {
            int left = std::max(0, x - 1), right = std::min(w - 1, x + 1);
            int v = 3 * in[y * w + x] - in[y * w + left] - in[y * w + right];
            out[y * w + x] = (uint8_t)within(v, 0, 255);
        }
}

void sharper_rows_by_branches(const uint8_t *in, uint8_t *out, int w, int h) {
    for (int y = 0; y < h; y++)
        for (int x = 0; x < w; x++) {
            int left = std::max(0, x - 1), right = std::min(w - 1, x + 1);
            int v = 3 * in[y * w + x] - in[y * w + left] - in[y * w + right];
            out[y * w + x] = (uint8_t)kept_within(v, 0, 255);
        }
}

void sharper_rows_between(const float *in, float *out, int w, int h, float low, float high) {
    for (int y = 0; y < h; y++)
        for (int x = 0; x < w; x++) {
            int left = std::max(0, x - 1), right = std::min(w - 1, x + 1);
            float v = 3 * in[y * w + x] - in[y * w + left] - in[y * w + right];
            out[y * w + x] = between(v, low, high);
        }
}
