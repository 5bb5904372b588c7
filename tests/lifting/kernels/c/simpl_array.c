/* Small array programs. */
#include <stdint.h>

void array_inc(int *a, int n) {
    for (int i = 0; i < n; ++i)
        a[i]++;
}

long array_sum(const int *a, int n) {
    long sum = 0;
    for (int i = 0; i < n; ++i)
        sum += a[i];
    return sum;
}

void cube_in_place(int64_t *a, int n) {
    for (int i = 0; i < n; ++i)
        a[i] = a[i] * a[i] * a[i];
}

void fourth_in_place(int64_t *a, int n) {
    for (int i = 0; i < n; ++i) {
        a[i] = a[i] * a[i];
        a[i] = a[i] * a[i];
    }
}

unsigned sum_elts(const unsigned *a, int n) {
    unsigned sum = 0;
    for (int i = 0; i < n; ++i)
        sum += a[i];
    return sum;
}
