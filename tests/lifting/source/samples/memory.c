/* Arrays and pointers: walks, rows, variable-length arrays, local arrays, copies, helpers. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define N 4
static const int weights[3] = {1, -2, 1};
const float grid[2][3] = {{1, 2}, {0, 4.5f, -1}};
typedef float row_t[N];

void walk(int n, int *p, const int *q) { while (n-- > 0) *p++ = 2 * *q++; }
void walk_back(int n, int *p) { int *q = p + n; while (q > p) *--q = n; }
void until(int n, int *p) { for (int *end = p + n, *q = p; q != end; ++q) *q += q - p; }
void leading(int n, int m, int lda, float *a) { for (int i = 0; i < n; i++, a += lda) for (int j = 0; j < m; j++) a[j] *= 2; }
float rows(int n, int m, const float *a) { float s = 0; for (int i = 0; i < n; i++) { const float *row = a + i * m; for (int j = 0; j < m; j++) s += row[j] * (i - j); } return s; }
void product(int n, int m, int k, double c[n][m], double a[n][k], double b[k][m]) {
    for (int i = 0; i < n; i++)
        for (int j = 0; j < m; j++) {
            c[i][j] = 0;
            for (int p = 0; p < k; p++) c[i][j] += a[i][p] * b[p][j];
        }
}
void fixed(float a[N][N], row_t *b) { for (int i = 0; i < N; i++) for (int j = 0; j < N; j++) b[j][i] = a[i][j] + b[i][i]; }
void pointer_rows(int n, int m, float a[n][m]) { for (int i = 0; i < n; i++) { float *row = a[i]; for (float *p = row; p < row + m; p++) *p += i; } }
void local_array(int n, int *a) { int t[5] = {3, 1}; for (int i = 0; i < 5; i++) t[i] += i * n; for (int i = 0; i < 5; i++) a[i] = t[4 - i]; }
void local_matrix(int n, float *a) { float t[2][3] = {{1, 2, 3}, {4}}; for (int i = 0; i < 2; i++) for (int j = 0; j < 3; j++) a[i * 3 + j] = t[i][j] * n + grid[i][j]; }
void variable_length(int n, int *a) { n = n + 1; int t[n]; for (int i = 0; i < n; i++) t[i] = a[n - i]; n -= 1; for (int i = 0; i <= n; i++) a[i] = t[i]; }
void stencil(int n, const int *a, int *b) { for (int i = 1; i < n - 1; i++) { int s = 0; for (int k = -1; k <= 1; k++) s += weights[k + 1] * a[i + k]; b[i] = s; } }
void cleared(unsigned n, int *a, int *b) { memset(a, 0, n * sizeof(int)); memcpy(b, a + 1, sizeof(*b) * (n + 1)); memset(b + 3, -1, 2 * sizeof(int)); }
void cleared_matrix(float a[N][N]) { float t[N][N]; memset(t, 0, sizeof t); memset(a, 0, 2 * N * sizeof(float)); for (int i = 0; i < N; i++) a[i][i] += t[i][i] + 1; }
int reused(int n, int *a, int *b) {
    int *p, *made = calloc(n + 1, sizeof *made);
    for (p = a; p < a + n; p++) *p = 1;
    for (p = b; p < b + n; p += 2) *p = 2;
    for (int i = 0; i < n; i++) made[i + 1] = made[i] + a[i] + b[i];
    int last = made[n];
    free(made);
    return last;
}
void resets(int n, int m, const float *a, const float *x, float *y) {
    const float *pa = a, *px;
    for (int i = 0; i < n; i++) {
        float s = 0;
        px = x;
        for (int j = 0; j < m; j++) s += *pa++ * *px++;
        *y++ = s;
    }
}
void indirect(int n, const int *at, const float *a, float *b) { for (int i = 0; i < n; i++) if (at[i] >= 0 && at[i] < 20 && a[at[i]] > 0) b[i] = a[at[i]]; }
void same_place(int n, int *a) { int i = 0; while (i < n) { a[i++] += 3; a[i] -= i; } }

static int clamp(int x, int low, int high) { if (x < low) return low; if (x > high) return high; return x; }
static inline float square(float x) { return x * x; }
static void extremes(int n, const int *a, int *low, int *high) {
    *low = *high = a[0];
    for (int i = 1; i < n; i++) { if (a[i] < *low) *low = a[i]; if (a[i] > *high) *high = a[i]; }
}
static float dot(int n, const float *a, const float *b, int stride) { float s = 0; while (n-- > 0) { s += *a++ * *b; b += stride; } return s; }
static void scale(int n, float *a, float by) { for (int i = 0; i < n; i++) a[i] *= by; }
void clamped(int n, int *a) { for (int i = 0; i < n; i++) a[i] = clamp(clamp(a[i], -10, 10) * 3, 0, n); }
int spread(int n, const int *a) { int low, high; extremes(n, a, &low, &high); return high - low; }
void by_helper(int n, float *c, float *a, float *b) { for (int i = 0; i < n; i++) for (int j = 0; j < n; j++) c[i * n + j] = dot(n, a + i * n, &b[j], n) + square(a[i] - b[j]); scale(n, c, 0.5f); }
int ternary_helper(int n, int x) { return x > 0 ? clamp(x, 0, n) : n > 1 && clamp(n, 2, 3) == 2 ? 7 : x; }
