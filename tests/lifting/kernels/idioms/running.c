/* Running maxima, minima and products. */
#include <limits.h>
#include <math.h>

void highest(int n, const float *a, float *out)
{
    float m = a[0];
    for (int i = 0; i < n; i++) {
        m = fmaxf(m, a[i]);
        out[i] = m;
    }
}

void highest_by_if(int n, float start, const float *a, float *out)
{
    float m = start;
    for (int i = 0; i < n; i++) {
        if (a[i] > m)
            m = a[i];
        out[i] = m;
    }
}

void highest_before(int n, const double *a, double *out)
{
    double m = -INFINITY;
    for (int i = 0; i < n; i++) {
        out[i] = m;
        if (a[i] > m)
            m = a[i];
    }
}

void lowest_of_bytes(int n, const unsigned char *a, unsigned char *out)
{
    unsigned char m = 255;
    for (int i = 0; i < n; i++) {
        if (a[i] < m)
            m = a[i];
        out[i] = m;
    }
}

void lowest_before(int n, const int *a, int *out)
{
    int m = INT_MAX;
    for (int i = 0; i < n; i++) {
        out[i] = m;
        if (a[i] < m)
            m = a[i];
    }
}

void highest_and_lowest(int n, const float *a, float *high, float *low)
{
    float h = a[0], l = a[0];
    for (int i = 0; i < n; i++) {
        if (a[i] > h)
            h = a[i];
        else if (a[i] < l)
            l = a[i];
        high[i] = h;
        low[i] = l;
    }
}

void from_the_end(int n, const float *a, float *out)
{
    float m = -INFINITY;
    for (int i = n - 1; i >= 0; i--) {
        if (a[i] > m)
            m = a[i];
        out[i] = m;
    }
}

void down_columns(int n, int m, const float *a, float *out)
{
    for (int j = 0; j < m; j++) {
        float t = INFINITY;
        for (int i = 0; i < n; i++) {
            t = fminf(t, a[i * m + j]);
            out[i * m + j] = t;
        }
    }
}

void along_in_place(int n, float *a)
{
    for (int i = 1; i < n; i++)
        if (a[i] < a[i - 1])
            a[i] = a[i - 1];
}

void highest_sum(int n, const int *a, int *out)
{
    int sum = 0, m = 0;
    for (int i = 0; i < n; i++) {
        sum += a[i];
        if (sum > m)
            m = sum;
        out[i] = m;
    }
}

float drawdown(int n, const float *a)
{
    float high = a[0], most = 0;
    for (int i = 0; i < n; i++) {
        if (a[i] > high)
            high = a[i];
        if (high - a[i] > most)
            most = high - a[i];
    }
    return most;
}

void grown(int n, const double *rate, double *out)
{
    double p = 1;
    for (int i = 0; i < n; i++) {
        p *= 1 + rate[i];
        out[i] = p;
    }
}

void strides(int n, unsigned start, const unsigned *shape, unsigned *out)
{
    unsigned p = start;
    for (int i = 0; i < n; i++) {
        out[i] = p;
        p *= shape[i];
    }
}
