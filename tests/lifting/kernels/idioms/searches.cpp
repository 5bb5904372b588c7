// Loops over vectors that look for something.
#include <cstddef>
#include <vector>

bool any_negative(const std::vector<float> &v) {
    for (float x : v)
        if (x < 0)
            return true;
    return false;
}

bool all_even(const std::vector<int> &v) {
    for (const auto &x : v) {
        if (x % 2 != 0)
            return false;
    }
    return true;
}

bool is_sorted(const std::vector<int> &v) {
    for (int i = 0; i + 1 < static_cast<int>(v.size()); i++)
        if (v[i] > v[i + 1])
            return false;
    return true;
}

int find(const std::vector<int> &v, int key) {
    for (std::size_t i = 0; i < v.size(); ++i) {
        const int here = v[i];
        if (here == key)
            return static_cast<int>(i);
    }
    return -1;
}
