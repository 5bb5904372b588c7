/* Functions that no tensor program stands for: memory. */
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* refuses: subscript|index|data|scatter|position|computed */
void histogram(const uint8_t *image, int *bins, int n) {
    for (int i = 0; i < n; i++)
        bins[image[i]]++;
}

/* refuses: subscript|index|data|scatter|position|computed */
void scatter(const int *at, const int *value, int *out, int n) {
    for (int i = 0; i < n; i++)
        out[at[i]] = value[i];
}

/* refuses: subscript|index|affine|position|computed|nonlinear|conditional|data */
int compact(const int *a, int *out, int n) {
    int count = 0;
    for (int i = 0; i < n; i++)
        if (a[i] > 0)
            out[count++] = a[i];
    return count;
}

/* refuses: recurrence|earlier|iteration|carried|depends|own */
void logistic(double *a, int n) {
    for (int i = 1; i < n; i++)
        a[i] = 3.7 * a[i - 1] * (1.0 - a[i - 1]);
}

/* refuses: recurrence|earlier|iteration|carried|depends|own|closed */
unsigned checksum(const uint8_t *a, int n) {
    unsigned h = 5381;
    for (int i = 0; i < n; i++)
        h = (h << 5) + (h ^ a[i]);
    return h;
}

/* refuses: recurrence|earlier|iteration|carried|depends|own|overlap|written */
void gauss_seidel(double *a, int n) {
    for (int i = 1; i < n - 1; i++)
        for (int j = 1; j < n - 1; j++)
            a[i * n + j] = 0.25 * (a[(i - 1) * n + j] + a[(i + 1) * n + j] + a[i * n + j - 1] + a[i * n + j + 1]);
}

/* refuses: uninitial|undefined|no value|not set|never set|before */
int uninitialised(const int *a, int n) {
    int sum;
    for (int i = 0; i < n; i++)
        sum += a[i];
    return sum;
}

/* refuses: uninitial|undefined|no value|not set|never set|before|without|some paths */
void sometimes_set(const int *a, int *out, int n) {
    for (int i = 0; i < n; i++) {
        int value;
        if (a[i] > 0)
            value = 1;
        out[i] = value;
    }
}

/* refuses: bound|outside|past|end|length|subscript|extent|undefined */
int past_the_end(const int *a) {
    int table[4] = {1, 2, 3, 4};
    int sum = 0;
    for (int i = 0; i <= 4; i++)
        sum += table[i] * a[i];
    return sum;
}

/* refuses: malloc|alloc|undefined|no value|not set|uninitial|before */
int reads_fresh_memory(int n) {
    int *held = malloc(n * sizeof(int));
    int sum = 0;
    for (int i = 0; i < n; i++)
        sum += held[i];
    free(held);
    return sum;
}

/* refuses: volatile */
void device_register(volatile int *port, int n) {
    for (int i = 0; i < n; i++)
        *port = i;
}

static int calls_so_far = 0;
/* refuses: static|global|state|variable|declared */
int counts_its_calls(int n) {
    calls_so_far += n;
    return calls_so_far;
}

/* refuses: static|state */
int remembers(int n) {
    static int last = 0;
    int before = last;
    last = n;
    return before;
}

union word {
    float f;
    uint32_t u;
};
/* refuses: union */
void float_bits(const float *a, uint32_t *out, int n) {
    for (int i = 0; i < n; i++) {
        union word w;
        w.f = a[i];
        out[i] = w.u;
    }
}

/* refuses: cast|pointer|pun|type */
int bits_by_cast(const float *a) {
    return *(const int *)a;
}

/* refuses: variadic|va_|argument|call|... */
int sum_of_arguments(int n, ...) {
    va_list list;
    int sum = 0;
    va_start(list, n);
    for (int i = 0; i < n; i++)
        sum += va_arg(list, int);
    va_end(list);
    return sum;
}

/* refuses: pointer|call|strlen|string|function */
int text_length(const char *s) {
    return (int)strlen(s) * 2;
}

struct node {
    int value;
    struct node *next;
};
/* refuses: pointer|list|struct|recurs|while|next|field|type */
int list_sum(const struct node *list) {
    int sum = 0;
    while (list) {
        sum += list->value;
        list = list->next;
    }
    return sum;
}

/* refuses: pointer|compare|address|same */
int same_place(const int *a, const int *b) {
    return a == b ? 1 : 0;
}

/* restricted: apart|overlap|alias|share */
void shift_between(const int *from, int *to, int n) {
    for (int i = 0; i < n; i++)
        to[i] = from[i + 1];
}

/* restricted: apart|overlap|alias|share */
void running_difference(const double *a, double *b, int n) {
    for (int i = 1; i < n; i++)
        b[i] = a[i] - a[i - 1];
}

/* Right as a spread of a[0], wrong as a copy of the entry state. */
/* either: recurrence|earlier|iteration|carried|depends|own */
void shift_in_place(int *a, int n) {
    for (int i = 1; i < n; i++)
        a[i] = a[i - 1];
}

/* Reads what is still as it was. */
/* either: recurrence|earlier|iteration|carried|depends|own */
void shift_down(int *a, int n) {
    for (int i = 0; i < n - 1; i++)
        a[i] = a[i + 1];
}

/* refuses: nobody uses */
void read_in_vain(int n, const int *ids, const float *t, float *out) {
    for (int i = 0; i < n; i++) {
        float unused = t[ids[i]];
        out[i] = 1;
    }
}

/* Clamped to one less than there is. */
/* refuses: negative|inside */
void clamped_below_0(float *y, const float *x, int n) {
    for (int i = 0; i < n; i++) {
        int j = i - 1 < -1 ? -1 : i - 1;
        y[i] = x[j];
    }
}

/* refuses: negative|inside */
void clamped_the_wrong_way(float *y, const float *x, int n) {
    for (int i = 0; i < n; i++) {
        int j = i - 1;
        if (j > 0) j = 0;
        y[i] = x[j];
    }
}

/* An unsigned number is never below 0. */
/* refuses: negative|inside|unsigned */
void clamped_too_late(float *y, const float *x, unsigned n) {
    for (unsigned i = 0; i < n; i++) {
        unsigned j = i - 1;
        if (j < 0) j = 0;
        y[i] = x[j];
    }
}

/* refuses: earlier|iteration */
void clamped_in_place(float *x, int n) {
    for (int i = 0; i < n; i++) {
        int j = i > 0 ? i - 1 : 0;
        x[i] = x[j] + 1;
    }
}

/* restricted: x >= n + 1 */
void clamped_one_too_far(float *y, const float *x, int n) {
    for (int i = 0; i < n; i++) {
        int j = i + 1;
        if (j > n) j = n;
        y[i] = x[j];
    }
}

/* restricted: n >= 4 */
void mirrored_twice(float *y, const float *x, int n) {
    for (int i = 0; i < n; i++) {
        int j = i + 3;
        if (j >= n) j = 2 * n - 2 - j;
        y[i] = x[j];
    }
}

/* either: inside */
void clamped_to_another_size(float *y, const float *x, int n, int m) {
    for (int i = 0; i < n; i++) {
        int j = i + 1;
        if (j >= m) j = m - 1;
        y[i] = x[j];
    }
}

/* either: inside */
void clamped_to_the_other_axis(float *y, const float *x, int h, int w) {
    for (int i = 0; i < h; i++)
        for (int j = 0; j < w; j++) {
            int r = i + 1;
            if (r >= w) r = w - 1;
            y[i * w + j] = x[r * w + j];
        }
}

/* Reads what is still as it was. */
/* either: inside */
void clamped_ahead_in_place(float *x, int n) {
    for (int i = 0; i < n; i++) {
        int j = i + 1 < n ? i + 1 : n - 1;
        x[i] = x[j] + x[i];
    }
}

/* restricted: s >= 1 */
void rotated_by_one_less(float *y, const float *x, int n, int s) {
    for (int i = 0; i < n; i++)
        y[i] = x[(i + s - 1) % n];
}

/* C's remainder of -1 is -1. */
/* refuses: negative */
void rotated_to_the_right(float *y, const float *x, int n) {
    for (int i = 0; i < n; i++)
        y[i] = x[(i - 1) % n];
}

/* refuses: i + s is unsigned */
void rotated_without_a_sign(float *y, const float *x, unsigned n, unsigned s) {
    for (unsigned i = 0; i < n; i++)
        y[i] = x[(i + s) % n];
}

/* refuses: write every element in order */
void rotated_where_it_goes(float *y, const float *x, int n, int s) {
    for (int i = 0; i < n; i++)
        y[(i + s) % n] = x[i];
}

/* either: lies inside of 'x' */
void wrapped_along_both_axes(int h, int w, float y[h][w], float x[h][w]) {
    for (int i = 0; i < h; i++)
        for (int j = 0; j < w; j++)
            y[i][j] = x[(i + 1) % h][(j + w - 1) % w];
}

/* refuses: depends on the loop counters of another */
void columns_of_an_image(float *col, const float *im, int h, int w, int k) {
    int rows = h - k + 1, columns = w - k + 1;
    for (int c = 0; c < k * k; c++)
        for (int y = 0; y < rows; y++)
            for (int x = 0; x < columns; x++)
                col[(c * rows + y) * columns + x] = im[(y + c / k) * w + x + c % k];
}

/* refuses: as in a histogram */
void counted_by_value(int *hist, const unsigned char *x, int n) {
    for (int b = 0; b < 256; b++)
        hist[b] = 0;
    for (int i = 0; i < n; i++)
        hist[x[i]]++;
}

/* refuses: multiplied by a and added to */
void smoothed(float *y, const float *x, float a, int n) {
    float s = 0;
    for (int i = 0; i < n; i++) {
        s = a * s + (1 - a) * x[i];
        y[i] = s;
    }
}

/* C's remainder of what is negative is negative, and is divided again. */
/* refuses: quotient or remainder of what may be negative */
void rotated_by_two_remainders(float *y, const float *x, int n, int s) {
    for (int i = 0; i < n; i++)
        y[i] = x[((i - s) % n + n) % n];
}

/* refuses: read an element in each branch */
void chosen_by_a_flag(float *y, const float *x, int n, int all) {
    for (int i = 0; i < n; i++) {
        int j = all > 0 ? i : 0;
        y[i] = x[j];
    }
}
