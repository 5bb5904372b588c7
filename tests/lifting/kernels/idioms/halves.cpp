// Vectors and halves of them.
#include <algorithm>
#include <vector>

std::vector<int> every_second(const std::vector<int> &v)
{
    std::vector<int> r;
    for (size_t i = 0; i < v.size() / 2; i++)
        r.push_back(v[2 * i]);
    return r;
}

void reverse(std::vector<int> &v)
{
    for (size_t i = 0; i < v.size() / 2; i++)
        std::swap(v[i], v[v.size() - 1 - i]);
}
