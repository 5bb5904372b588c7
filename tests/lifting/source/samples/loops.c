/* Loops: bounds, steps, directions, nests, continue, do, side effects in conditions. */
#include <stdint.h>

int rising(int n, const int *a) { int s = 0; for (int i = 0; i < n; i++) s += a[i]; return s; }
int falling(int n, const int *a) { int s = 0; for (int i = n - 1; i >= 0; --i) s = s * 3 + a[i]; return s; }
int strided(int n, const int *a) { int s = 0; for (int i = 1; i <= 2 * n; i += 3) s = s * 2 - a[i]; return s; }
int doubled(int n, const int *a) { int s = 0, i = 0; while (i < n) { s += a[i]; i = i + 2; } return s + i; }
int counted_down(int n, const int *a) { int s = 0; while (n-- > 0) s = 2 * s + a[n]; return s * 10 + n; }
int before(int n, const int *a) { int s = 0; n += 1; while (--n > 0) s += a[n] * n; return s; }
int at_least_once(int n, int *a) { int i = 0; do { a[i] = i + 1; if (i == 2) continue; a[i + 9] = i; } while (++i < n); return i; }
int two_counters(int n, const int *a) { int s = 0; for (int i = 0, j = n - 1; i < j; ++i, --j) s += a[i] * a[j]; return s; }
void skipping(int n, int *a) { for (int i = 0; i < n; i++) { if (a[i] < 0) continue; if (a[i] % 2) { a[i] *= 2; continue; } a[i] -= 1; } }
void nested_skip(int n, int m, int *a) {
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < m; j++) { if (j == i) continue; a[i * m + j] += j; }
        a[i * m] -= 1;
    }
}
int triangle(int n, const int *a) { int s = 0; for (int i = 0; i < n; i++) for (int j = i; j < n; j++) s += a[j] * (i + 1); return s; }
void sequence(int n, int *a, int *b) {
    int i;
    for (i = 0; i < n; i++) a[i] += 1;
    for (i = 0; i < n; i++) b[i] = a[n - 1 - i];
    for (; i < 2 * n;) { b[i] = i; i++; }
}
int guarded(int n, int m, const int *a) { int s = 0; for (int i = 0;; i++) { if (i >= n || i >= m) break; s += a[i]; } return s; }
void no_braces(int n, int m, int *a) { for (int i = 0; i < n; ++i) for (int j = 0; j < m; ++j) if (i != j) a[i * m + j] = i - j; else a[i * m + j] = 7; }
unsigned hashed(int n, const uint8_t *a) { uint32_t h = 2166136261u; for (int i = 0; i < n; i++) { h ^= a[i]; h *= 16777619u; } return h; }
float polynomial(int n, const float *a, float x) { float s = 0.0f; for (int i = n; i-- > 0;) s = s * x + a[i]; return s; }
int unsigned_counter(unsigned n, const int *a) { int s = 0; for (unsigned i = n; i != 0; i--) s += a[i - 1] * i; return s; }
void bytes(int n, uint8_t *a) { for (uint8_t i = 0; i < n; i++) a[i] += i * 3; }
int largest(int n, const float *a) { int best = 0; for (int i = 1; i < n; i++) if (a[i] > a[best]) best = i; return best; }
void histogram(int n, const uint8_t *a, int *h) { for (int i = 0; i < n; i++) h[a[i] % 8]++; }
int sought(int n, const int *a, int x) { for (int i = 0; i < n; i++) if (a[i] > x) return i * 2; return -1; }
int sought_twice(int n, const int *a, int x) {
    int i, k = 7;
    for (i = 2; i < n; i += 3) { if (a[i] > x) { k = i; break; } }
    for (; i < n; ++i) if (a[i] < x) return i + k;
    return k - i;
}
int sought_down(int n, const int *a, int x) { int i = n; while (i > 0) { if (a[i] == x || a[i - 1] > 90) break; i -= 1; } return i; }
unsigned sought_unsigned(unsigned n, const int *a) { unsigned i; for (i = n; i >= 3; i -= 2) if (a[i] < 0) return i; return i + 1000; }
int walked(int n, const int *a, int x) { const int *p = a + 1; for (; p < a + n; p++) if (*p == x) return (int)(p - a); return n; }
int walked_on(int n, const int *a, int x) { int i = 0; while (i <= n && a[i] != x && a[i + 1] < 80) ++i; return i; }
void sought_and_changed(int n, int *a, int x) { for (int i = 0; i < n; i++) if (a[i] > x) { a[0] = i; x = i; a[1] = x; return; } a[2] = n; }
int sought_in_rows(int n, int m, const int *a, int *b) {
    int s = 0;
    for (int i = 0; i < n % 5; i++) {
        int j;
        for (j = 0; j < m % 7; j++) { const int here = a[i * 7 + j], next = a[i * 7 + j + 1]; if (here > next) { b[i] = j; s += j; break; } }
        if (j == 3) continue;
        s = s * 3 + j;
    }
    return s;
}
static int position(const int *a, int n, int x) { for (int k = 0; k < n; k++) if (a[k] >= x) return k; return 99; }
int sought_by_another(int n, const int *a) { int s = 0; for (int i = 0; i < n % 9; i++) s = 5 * s + position(a + i, 6, 50); return s; }
int sought_where_asked(int n, const int *a, int x) { if (x > 3) { for (int i = 0; i < n; i++) if (a[i] % 5 == 0) return i; x = 3; } return x; }
int sought_by_two_bounds(int n, int m, const int *a) { int i; for (i = 0; i < n && i + 1 < m; i++) if (a[i] > a[i + 1]) break; return i; }
int sought_until_equal(int n, const int *a) { for (int i = 0; i != n % 50 + 8; i += 1) if (a[i] > 95) return i; return -3; }
int sought_among_numbers(int n) { for (int i = 2; i < n; i++) if (n % i == 0) return i; return n; }
