// std::vector, references, and the algorithms over whole vectors.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>
using namespace std;

vector<vector<int>> sums(vector<vector<int>> base, vector<vector<int>> active) {
    vector<vector<int>> out;
    int m = base.size(), n = base[0].size();
    for (int row = 0; row < m; row++) {
        vector<int> made;
        for (int col = 0; col < n; col++) made.push_back(base[row][col] + active[row][col]);
        out.push_back(made);
    }
    return out;
}
vector<float> soft(const vector<float> &x, int m, float mx) { vector<float> o(m); for (int i = 0; i < m; ++i) o[i] = std::exp(x[i] - mx); return o; }
float total(const vector<float> &v) { return std::accumulate(v.begin(), v.end(), 0.0f); }
double weighted(const vector<float> &a, const vector<float> &b) { return inner_product(a.begin(), a.end(), b.begin(), 0.0); }
float twice(vector<float> &v) { float s = 0; for (float x : v) s += x; for (auto &x : v) x *= 2; return s; }
int largest(vector<int> v) { int m = v[0]; for (size_t i = 1; i < v.size(); ++i) m = max(m, v[i]); return m; }
float least(const vector<float> &v) { float m = numeric_limits<float>::max(); for (auto it = v.begin(); it != v.end(); ++it) m = std::min(m, *it); return m; }
vector<vector<float>> product(const vector<vector<float>> &a, const vector<vector<float>> &b) {
    vector<vector<float>> c(a.size(), vector<float>(b[0].size(), 1));
    for (size_t i = 0; i < a.size(); i++) {
        auto &row = c[i];
        for (size_t j = 0; j < b[0].size(); j++) for (size_t k = 0; k < b.size(); k++) row[j] += a[i][k] * b.at(k)[j];
    }
    return c;
}
vector<int> grown(vector<int> a, int n) { for (int i = 0; i < n; i++) a[i] += 1; return a; }
vector<int> copied(const vector<int> &a) { vector<int> b = a; b[0] = 9; auto c = b; c.back() += b.front(); return c; }
void filled(vector<uint8_t> &a, int x) { std::fill(a.begin() + 1, a.end(), x); a[0] = a.size() + a.empty(); }
vector<int> reversed(const vector<int> &a) { int n = a.size(); vector<int> o(n, 0); for (int i = n - 1, j = 0; i >= 0; --i, ++j) o[j] = a[i]; return o; }
vector<double> listed(double x) { vector<double> v{x, 2, x * x}; v.push_back(3); return v; }
vector<int> resized(int n) { vector<int> v; v.resize(n); iota(v.begin(), v.end(), 4); return v; }
vector<int> checked(const vector<int> &a) { vector<int> out; out.reserve(a.size()); if (a.size() < 3) return out; for (int x : a) out.push_back(std::abs(x)); return out; }
static vector<int> doubled(const vector<int> &a) { vector<int> out(a.size()); for (size_t i = 0; i < a.size(); i++) out[i] = 2 * a[i]; return out; }
vector<int> twice_doubled(const vector<int> &a) { vector<int> b = doubled(doubled(a)); return b; }
vector<vector<int>> transposed(const vector<vector<int>> &a) {
    vector<vector<int>> out(a[0].size(), vector<int>(a.size()));
    for (size_t i = 0; i < a.size(); ++i) { const auto &row = a[i]; for (size_t j = 0; j < row.size(); ++j) out[j][i] = row[j]; }
    return out;
}
template <class T> static T squared(T x) { return x * x; }
double squares(const vector<double> &a) { double s = 0; for (const double &x : a) s += squared(x) + squared(2); return s; }
float clamped(float x, float low) { return std::clamp(x, low, low + 1) + std::fmax(x, low) + std::pow(x * x, 2) + sqrt(x * x) + std::abs(x); }
int swapped(int a, int b) { if (a > b) std::swap(a, b); return a * 10 + b; }
int casts(double x, int n) { return static_cast<int>(x) + int(x * 2) + static_cast<unsigned char>(n) + bool(n); }
namespace inner { int hidden(int x) { constexpr int k = 3; auto y = x * k; return y - 1; } }
using inner::hidden;
