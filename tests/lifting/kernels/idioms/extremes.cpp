// Maxima of vectors.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

float from_lowest(const std::vector<float> &v)
{
    float m = std::numeric_limits<float>::lowest();
    for (float x : v)
        m = std::max(m, x);
    return m;
}

float from_minus_infinity(const std::vector<float> &v)
{
    float m = -std::numeric_limits<float>::infinity();
    for (float x : v)
        m = std::max(m, x);
    return m;
}

double by_subscript(const std::vector<double> &v)
{
    double m = -INFINITY;
    for (size_t i = 0; i < v.size(); ++i)
        if (v[i] > m)
            m = v[i];
    return m;
}
