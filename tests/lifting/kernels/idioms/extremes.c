/* Maxima and minima that start beyond all numbers, or at the last of them. */
#include <float.h>
#include <limits.h>
#include <math.h>

float from_minus_infinity(int n, const float *a)
{
    float m = -INFINITY;
    for (int i = 0; i < n; i++)
        if (a[i] > m)
            m = a[i];
    return m;
}

float by_fmax(int n, const float *a)
{
    float m = -INFINITY;
    for (int i = 0; i < n; i++)
        m = fmaxf(m, a[i]);
    return m;
}

double from_infinity(int n, const double *a)
{
    double m = INFINITY;
    for (int i = 0; i < n; i++)
        m = a[i] < m ? a[i] : m;
    return m;
}

double from_huge(int n, const double *a)
{
    double m = -HUGE_VAL;
    for (int i = 0; i < n; i++)
        if (m < a[i])
            m = a[i];
    return m;
}

float from_lowest(int n, const float *a)
{
    float m = -FLT_MAX;
    for (int i = 0; i < n; i++)
        if (a[i] > m)
            m = a[i];
    return m;
}

double from_largest(int n, const double *a)
{
    double m = DBL_MAX;
    for (int i = 0; i < n; i++)
        if (a[i] < m)
            m = a[i];
    return m;
}

int from_int_min(int n, const int *a)
{
    int m = INT_MIN;
    for (int i = 0; i < n; i++)
        if (a[i] > m)
            m = a[i];
    return m;
}

float of_a_matrix(int n, int m, const float *a)
{
    float top = -INFINITY;
    for (int i = 0; i < n; i++)
        for (int j = 0; j < m; j++)
            if (a[i * m + j] > top)
                top = a[i * m + j];
    return top;
}

float of_a_matrix_from_zero(int n, int m, const float *a)
{
    float top = 0;
    for (int i = 0; i < n; i++)
        for (int j = 0; j < m; j++)
            if (a[i * m + j] > top)
                top = a[i * m + j];
    return top;
}

void of_rows(int n, int m, const float *a, float *b)
{
    for (int i = 0; i < n; i++) {
        float top = -INFINITY;
        for (int j = 0; j < m; j++)
            if (a[i * m + j] > top)
                top = a[i * m + j];
        b[i] = top;
    }
}

void softmax(int n, const float *a, float *b)
{
    float top = -INFINITY, sum = 0;
    for (int i = 0; i < n; i++)
        if (a[i] > top)
            top = a[i];
    for (int i = 0; i < n; i++) {
        b[i] = expf(a[i] - top);
        sum += b[i];
    }
    for (int i = 0; i < n; i++)
        b[i] /= sum;
}

float of_a_matrix_from_first(int n, int m, const float *a)
{
    float top = a[0];
    for (int i = 0; i < n; i++)
        for (int j = 0; j < m; j++)
            if (a[i * m + j] > top)
                top = a[i * m + j];
    return top;
}

int least_of_a_matrix(int n, int m, const int *a)
{
    int low = a[0];
    for (int i = 0; i < n; i++)
        for (int j = 0; j < m; j++)
            if (a[i * m + j] < low)
                low = a[i * m + j];
    return low;
}
