// Arithmetic that wraps around, and counters that may.
#include <vector>

int all_but_last(const std::vector<int> &v)
{
    int s = 0;
    for (size_t i = 0; i < v.size() - 1; i++)
        s += v[i];
    return s;
}

int from_first(const std::vector<int> &v)
{
    int m = v[0];
    for (size_t i = 1; i < v.size(); i++)
        if (v[i] > m)
            m = v[i];
    return m;
}

int from_first_by_int(const std::vector<int> &v)
{
    int m = v[0];
    for (int i = 1; i < v.size(); i++)
        m = v[i] > m ? v[i] : m;
    return m;
}

void shift_left(unsigned n, int *a)
{
    for (unsigned i = 0; i < n - 1; i++)
        a[i] = a[i + 1];
}

void flip(unsigned n, const int *a, int *b)
{
    for (unsigned i = 0; i < n; i++)
        b[n - 1 - i] = a[i];
}

void multiply_add(int n, const unsigned *a, const unsigned *b, unsigned *c)
{
    for (int i = 0; i < n; i++)
        c[i] = a[i] + b[i] * 3u;
}

void widened(int n, const unsigned *a, unsigned long *b)
{
    for (int i = 0; i < n; i++)
        b[i] = a[i] * 7u;
}

long negated(int n, const unsigned *a)
{
    long s = 0;
    for (int i = 0; i < n; i++)
        s += -a[i];
    return s;
}

void in_range(int n, const unsigned *a, int *b)
{
    for (int i = 0; i < n; i++)
        b[i] = a[i] - 1u < 5u;
}

void against_a_constant(int n, int *a)
{
    for (int i = 0; i < n; i++)
        a[i] = -i > -3u;
}
