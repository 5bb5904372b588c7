"""Functions whose branches guard what they read, and calls in which memory is missing outside of the branch.

Each is (C source, calls): a call lists the arguments in order; arrays have exactly the elements given.
"""

from __future__ import annotations

from typing import Any

FUNCTIONS: dict[str, tuple[str, list[tuple[Any, ...]]]] = {
    "strided_sum": (
        "float F(int n, const float *x, int s) { float r = 0; int k = 0; if (s <= 0) return 0; for (int i "
        "= 0; i < n; i++) { r += x[k]; k += s; } return r; }",
        [
            (3, [1.0, 2.0, 3.0], 1),
            (3, [1.0, 2.0, 4.0, 8.0, 16.0], 2),
            (3, [], -2),
            (3, [], 0),
            (-3, [], -2),
            (-3, [], 2),
            (0, [], 5),
            (1, [2.0], 9),
        ],
    ),
    "strided_dot": (
        "float F(int n, const float *x, int s, const float *y, int t) { float r = 0; if (n <= 0 || s <= 0 "
        "|| t <= 0) return 0; for (int i = 0; i < n; i++) r += x[i * s] * y[i * t]; return r; }",
        [
            (3, [1.0, 2.0, 3.0], 1, [5.0, 7.0, 11.0], 1),
            (3, [1.0, 2.0, 4.0, 8.0, 16.0], 2, [5.0, 7.0, 11.0], 1),
            (3, [], -2, [], 1),
            (3, [], 1, [], -1),
            (0, [], 1, [], 1),
            (-3, [], -2, [], -2),
        ],
    ),
    "strided_scale": (
        "void F(int n, float a, float *x, int s) { if (s <= 0) return; for (int i = 0; i < n; i++) x[i * "
        "s] *= a; }",
        [
            (3, 2.0, [1.0, 2.0, 3.0], 1),
            (3, 2.0, [1.0, 2.0, 4.0, 8.0, 16.0], 2),
            (3, 2.0, [], -2),
            (3, 2.0, [], 0),
            (0, 2.0, [], 3),
            (-4, 2.0, [], -3),
        ],
    ),
    "strided_out": (
        "void F(int n, const float *x, float *y, int s) { for (int i = 0; i < n; i++) y[i] = s <= 0 ? "
        "0.0f : x[i * s]; }",
        [
            (3, [1.0, 2.0, 3.0], [5.0, 7.0, 11.0], 1),
            (3, [1.0, 2.0, 4.0, 8.0, 16.0], [5.0, 7.0, 11.0], 2),
            (3, [], [5.0, 7.0, 11.0], -2),
            (3, [], [5.0, 7.0, 11.0], 0),
            (0, [], [], 1),
        ],
    ),
    "backwards": (
        "float F(int n, const float *x, int s) { float r = 0; if (s >= 0) return -1; for (int i = 0; i < "
        "n; i++) r += x[(i - n + 1) * s]; return r; }",
        [
            (3, [1.0, 2.0, 3.0], -1),
            (3, [1.0, 2.0, 4.0, 8.0, 16.0], -2),
            (3, [], 2),
            (3, [], 0),
            (0, [], -1),
            (1, [2.0], -7),
        ],
    ),
    "either_sign": (
        "float F(int n, const float *x, int s) { float r = 0; if (s > 0) { for (int i = 0; i < n; i++) r "
        "+= x[i * s]; } else { for (int i = 0; i < n; i++) r -= x[i]; } return r; }",
        [
            (3, [1.0, 2.0, 3.0], 1),
            (3, [1.0, 2.0, 4.0, 8.0, 16.0], 2),
            (3, [1.0, 2.0, 3.0], -2),
            (3, [1.0, 2.0, 3.0], 0),
            (0, [], 1),
            (0, [], -1),
        ],
    ),
    "max_strided": (
        "float F(int n, const float *x, int s) { if (n < 1 || s < 1) return -1; float m = x[0]; for (int "
        "i = 1; i < n; i++) if (x[i * s] > m) m = x[i * s]; return m; }",
        [
            (3, [1.0, 2.0, 3.0], 1),
            (3, [1.0, 2.0, 4.0, 8.0, 16.0], 2),
            (0, [], 1),
            (3, [], 0),
            (3, [], -1),
            (-2, [], -3),
        ],
    ),
    "last": (
        "int F(int n, const int *a) { return n > 0 ? a[n - 1] : -1; }",
        [
            (3, [3, 1, 2]),
            (0, []),
            (-5, []),
            (1, [9]),
        ],
    ),
    "first_or": (
        "int F(int n, const int *a) { if (n == 0) return 7; return a[0]; }",
        [
            (0, []),
            (1, [5]),
            (3, [3, 1, 2]),
        ],
    ),
    "first_if": (
        "int F(int n, const int *a) { int r = 0; if (n > 0) r = a[0]; return r; }",
        [
            (0, []),
            (-1, []),
            (2, [5, 6]),
        ],
    ),
    "tenth": (
        "int F(int n, const int *a) { if (n > 9) return a[9]; return n; }",
        [
            (0, []),
            (9, [3, 1, 2]),
            (10, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]),
        ],
    ),
    "ends": (
        "int F(int n, const int *a) { return n >= 2 ? a[0] + a[n - 1] : 0; }",
        [
            (0, []),
            (1, []),
            (2, [3, 4]),
            (3, [3, 1, 2]),
        ],
    ),
    "ends_else": (
        "int F(int n, const int *a) { if (n < 2) return 0; else return a[0] * a[n - 1]; }",
        [
            (0, []),
            (1, []),
            (2, [3, 4]),
            (3, [3, 1, 2]),
        ],
    ),
    "mean": (
        "float F(int n, const float *x) { if (n <= 0) return 0; float s = 0; for (int i = 0; i < n; i++) "
        "s += x[i]; return s / n; }",
        [
            (0, []),
            (-3, []),
            (3, [1.0, 2.0, 3.0]),
        ],
    ),
    "scaled_by_first": (
        "void F(int n, float *x) { if (n <= 0) return; float f = x[0]; for (int i = 1; i < n; i++) x[i] = "
        "x[i] * f; }",
        [
            (0, []),
            (-3, []),
            (3, [1.0, 2.0, 3.0]),
            (1, [4.0]),
        ],
    ),
    "set_last": (
        "void F(int n, int *a, int v) { if (n > 0) a[n - 1] = v; }",
        [
            (0, [], 3),
            (-2, [], 3),
            (3, [3, 1, 2], 7),
        ],
    ),
    "set_ends": (
        "void F(int n, int *a, int v) { if (n >= 2) { a[0] = v; a[n - 1] = -v; } }",
        [
            (0, [], 3),
            (1, [], 3),
            (2, [1, 2], 3),
            (3, [3, 1, 2], 7),
        ],
    ),
    "copy_last": (
        "void F(int n, const int *a, int *b) { if (n > 0) b[0] = a[n - 1]; }",
        [
            (0, [], []),
            (-3, [], []),
            (3, [3, 1, 2], [0]),
        ],
    ),
    "next": (
        "void F(int n, const int *a, int *b) { for (int i = 0; i < n; i++) b[i] = i + 1 < n ? a[i + 1] : "
        "0; }",
        [
            (0, [], []),
            (1, [5], [0]),
            (3, [3, 1, 2], [0, 0, 0]),
        ],
    ),
    "next_else": (
        "void F(int n, const int *a, int *b) { for (int i = 0; i < n; i++) { if (i + 1 < n) b[i] = a[i + "
        "1] - a[i]; else b[i] = 0; } }",
        [
            (0, [], []),
            (1, [5], [0]),
            (3, [3, 1, 2], [0, 0, 0]),
        ],
    ),
    "previous": (
        "void F(int n, const int *a, int *b) { for (int i = 0; i < n; i++) b[i] = i > 0 ? a[i - 1] : -1; }",
        [
            (0, [], []),
            (1, [5], [0]),
            (3, [3, 1, 2], [0, 0, 0]),
        ],
    ),
    "both_sides": (
        "int F(int n, const int *a) { int s = 0; for (int i = 0; i < n; i++) { if (i > 0 && i + 1 < n) s "
        "+= a[i - 1] * a[i + 1]; } return s; }",
        [
            (0, []),
            (1, [5]),
            (2, [1, 2]),
            (3, [3, 1, 2]),
            (5, [4, -1, 5, 9, -6]),
        ],
    ),
    "clipped": (
        "int F(int n, int m, const int *a) { int s = 0; for (int i = 0; i < n; i++) if (i < m) s += a[i]; "
        "return s; }",
        [
            (3, 1, [7]),
            (3, 0, []),
            (3, -4, []),
            (2, 9, [1, 2]),
            (0, 5, []),
        ],
    ),
    "offset_in": (
        "int F(int n, int k, const int *a) { int s = 0; for (int i = 0; i < n; i++) if (i >= k) s += a[i "
        "- k]; return s; }",
        [
            (3, 1, [7, 8]),
            (3, 3, []),
            (3, 9, []),
            (0, 0, []),
        ],
    ),
    "two_halves": (
        "void F(int n, int m, const int *a, const int *b, int *c) { for (int i = 0; i < n; i++) c[i] = i "
        "< m ? a[i] : b[i - m]; }",
        [
            (3, 1, [7], [8, 9], [0, 0, 0]),
            (3, 3, [3, 1, 2], [], [0, 0, 0]),
            (2, 0, [], [8, 9], [0, 0]),
            (0, 0, [], [], []),
        ],
    ),
    "flagged": (
        "int F(int n, const int *a, int f) { int s = 0; if (f) for (int i = 0; i < n; i++) s += a[i]; "
        "return s; }",
        [
            (3, [3, 1, 2], 1),
            (3, [3, 1, 2], -2),
            (3, [], 0),
            (0, [], 1),
        ],
    ),
    "flag_element": (
        "int F(const int *a, int f) { return f ? a[3] : 0; }",
        [
            ([], 0),
            ([4, -1, 5, 9, -6], 1),
            ([4, -1, 5, 9, -6], -1),
        ],
    ),
    "flag_positive": (
        "int F(const int *a, int f) { return f > 0 ? a[3] : 0; }",
        [
            ([], 0),
            ([4, -1, 5, 9, -6], 1),
            ([], -1),
        ],
    ),
    "bool_flag": (
        "int F(const int *a, _Bool f) { return f ? a[2] : 5; }",
        [
            ([], False),
            ([3, 1, 2], True),
        ],
    ),
    "flag_equal": (
        "int F(const int *a, int f) { return f == 2 ? a[2] : 5; }",
        [
            ([], 1),
            ([3, 1, 2], 2),
            ([], 3),
        ],
    ),
    "flag_two": (
        "int F(const int *a, int f, int g) { return f && g ? a[2] : 5; }",
        [
            ([], 0, 1),
            ([], 1, 0),
            ([3, 1, 2], 1, 1),
        ],
    ),
    "flag_or": (
        "int F(const int *a, int f, int g) { return f || g ? a[2] : 5; }",
        [
            ([], 0, 0),
            ([3, 1, 2], 1, 0),
            ([3, 1, 2], 0, 3),
        ],
    ),
    "flag_choice": (
        "int F(const int *a, const int *b, int f) { return f > 0 ? a[1] : b[2]; }",
        [
            ([1, 2], [], 1),
            ([], [3, 1, 2], 0),
            ([], [3, 1, 2], -1),
        ],
    ),
    "axpy": (
        "void F(int n, float a, const float *x, float *y) { if (a == 0.0f) return; for (int i = 0; i < n; "
        "i++) y[i] += a * x[i]; }",
        [
            (3, 2.0, [1.0, 2.0, 3.0], [5.0, 7.0, 11.0]),
            (0, 2.0, [], []),
            (3, 0.0, [], [5.0, 7.0, 11.0]),
        ],
    ),
    "axpy_short": (
        "void F(int n, float a, const float *x, float *y) { if (n <= 0 || a == 0.0f) return; for (int i = "
        "0; i < n; i++) y[i] += a * x[i]; }",
        [
            (3, 2.0, [1.0, 2.0, 3.0], [5.0, 7.0, 11.0]),
            (0, 2.0, [], []),
            (3, 0.0, [], [5.0, 7.0, 11.0]),
            (-2, 1.0, [], []),
        ],
    ),
    "gemv_beta": (
        "void F(int n, float a, const float *x, float b, float *y) { for (int i = 0; i < n; i++) { float "
        "v = a == 0.0f ? 0.0f : a * x[i]; y[i] = b * y[i] + v; } }",
        [
            (3, 2.0, [1.0, 2.0, 3.0], 0.5, [5.0, 7.0, 11.0]),
            (3, 0.0, [], 0.5, [5.0, 7.0, 11.0]),
            (0, 1.0, [], 1.0, []),
        ],
    ),
    "float_flag": (
        "float F(const float *x, float t) { return t > 0.5f ? x[1] : t; }",
        [
            ([1.0, 2.0, 3.0], 1.0),
            ([], 0.25),
            ([], -1.0),
        ],
    ),
    "unsigned_flag": (
        "int F(const int *a, unsigned f) { return f > 2u ? a[1] : 0; }",
        [
            ([], 0),
            ([], 2),
            ([3, 1, 2], 3),
        ],
    ),
    "nested": (
        "int F(int n, int k, const int *a) { if (n > 0) { if (k > 0) return a[0] + k; return 1; } return "
        "2; }",
        [
            (0, 1, []),
            (1, 0, []),
            (1, 1, [5]),
            (-1, -1, []),
        ],
    ),
    "nested_else": (
        "int F(int n, const int *a, const int *b) { if (n > 3) return a[3]; else if (n > 1) return b[1]; "
        "else return 0; }",
        [
            (0, [], []),
            (2, [], [4, 5]),
            (4, [4, -1, 5, 9, -6], []),
            (1, [], []),
        ],
    ),
    "three_returns": (
        "int F(int n, int m, const int *a) { if (n <= 0) return 0; if (m <= 0) return 1; int s = 0; for "
        "(int i = 0; i < n; i++) s += a[i * m]; return s; }",
        [
            (0, 1, []),
            (2, 0, []),
            (2, -3, []),
            (-2, -3, []),
            (3, 2, [4, -1, 5, 9, -6]),
        ],
    ),
    "both_write": (
        "void F(int n, const int *a, const int *b, int *c, int f) { if (f > 0) for (int i = 0; i < n; "
        "i++) c[i] = a[i]; else for (int i = 0; i < n; i++) c[i] = b[i]; }",
        [
            (3, [3, 1, 2], [], [0, 0, 0], 1),
            (3, [], [3, 1, 2], [0, 0, 0], 0),
            (0, [], [], [], 1),
        ],
    ),
    "maybe_added": (
        "void F(int n, const int *a, const int *b, int *c, int f) { for (int i = 0; i < n; i++) { int v = "
        "a[i]; if (f > 0) v += b[i]; c[i] = v; } }",
        [
            (3, [3, 1, 2], [3, 1, 2], [0, 0, 0], 1),
            (3, [3, 1, 2], [], [0, 0, 0], 0),
            (0, [], [], [], 1),
        ],
    ),
    "row_or_none": (
        "int F(int n, int r, const int *a) { int s = 0; if (r >= 0) for (int i = 0; i < n; i++) s += a[r "
        "* n + i]; return s; }",
        [
            (2, 1, [1, 2, 3, 4]),
            (2, -1, []),
            (0, 3, []),
            (3, 0, [3, 1, 2]),
        ],
    ),
    "and_element": (
        "int F(int n, const int *a) { return n > 2 && a[2] > 0 ? 1 : 0; }",
        [
            (0, []),
            (2, []),
            (3, [3, 1, 2]),
        ],
    ),
    "or_element": (
        "int F(int n, const int *a) { return n <= 2 || a[2] > 0 ? 1 : 0; }",
        [
            (0, []),
            (2, []),
            (3, [3, 1, 2]),
        ],
    ),
    "and_in_if": (
        "int F(int n, const int *a) { int r = 5; if (n > 0 && a[n - 1] > 1) r = 6; return r; }",
        [
            (0, []),
            (-1, []),
            (3, [3, 1, 2]),
            (1, [0]),
        ],
    ),
    "by_first": (
        "int F(int n, const int *a, const int *b) { if (n > 0 && a[0] > 0) return b[0]; return -1; }",
        [
            (0, [], []),
            (1, [0], []),
            (1, [1], [8]),
        ],
    ),
    "by_data": (
        "int F(const int *a, const int *b) { return a[0] > 0 ? b[2] : 0; }",
        [
            ([0], []),
            ([-1], []),
            ([1], [3, 1, 2]),
        ],
    ),
    "by_data_loop": (
        "int F(int n, const int *a, const int *b) { int s = 0; if (a[0] > 0) for (int i = 0; i < n; i++) "
        "s += b[i]; return s; }",
        [
            (3, [0], []),
            (3, [1], [3, 1, 2]),
            (0, [1], []),
        ],
    ),
    "masked_sum": (
        "int F(int n, const int *m, const int *a) { int s = 0; for (int i = 0; i < n; i++) if (m[i] > 0) "
        "s += a[i]; return s; }",
        [
            (3, [1, 0, 1], [3, 1, 2]),
            (0, [], []),
        ],
    ),
    "divided": (
        "int F(int n, int d, const int *a) { return d != 0 ? a[0] / d + n : n; }",
        [
            (1, 0, []),
            (1, 2, [7]),
        ],
    ),
    "divided_loop": (
        "int F(int n, int d) { int s = 0; if (d > 0) for (int i = 0; i < n; i++) s += i / d; return s; }",
        [
            (3, 0),
            (3, -1),
            (5, 2),
            (0, 1),
        ],
    ),
    "switched": (
        "int F(int k, const int *a) { switch (k) { case 0: return 1; case 1: return a[0]; case 2: return "
        "a[1]; default: return -1; } }",
        [
            (0, []),
            (1, [4]),
            (2, [4, 5]),
            (3, []),
            (-7, []),
        ],
    ),
    "ternaries": (
        "int F(int n, const int *a) { return n > 2 ? a[2] : n > 1 ? a[1] : n > 0 ? a[0] : -1; }",
        [
            (0, []),
            (1, [1]),
            (2, [1, 2]),
            (3, [3, 1, 2]),
            (-3, []),
        ],
    ),
    "matrix_corner": (
        "int F(int n, int m, const int *a) { return n > 0 && m > 0 ? a[(n - 1) * m + m - 1] : 0; }",
        [
            (0, 2, []),
            (2, 0, []),
            (2, 2, [1, 2, 3, 4]),
            (-1, -1, []),
        ],
    ),
    "matrix_sum": (
        "int F(int n, int m, int ld, const int *a) { int s = 0; if (ld < m || m <= 0) return -1; for (int "
        "i = 0; i < n; i++) for (int j = 0; j < m; j++) s += a[i * ld + j]; return s; }",
        [
            (2, 2, 1, []),
            (2, 2, 3, [4, -1, 5, 9, -6]),
            (0, 2, 2, []),
            (2, 0, 3, []),
            (2, -3, -2, []),
        ],
    ),
    "field_flag": (
        "struct S { int n; const int *a; int f; }; int F(struct S s) { return s.f > 0 && s.n > 0 ? "
        "s.a[s.n - 1] : 0; }",
        [],
    ),
    "cleared": (
        "void F(int n, float *x) { if (n > 0) __builtin_memset(x, 0, n * sizeof(float)); }",
        [
            (3, [1.0, 2.0, 3.0]),
            (0, []),
            (-3, []),
        ],
    ),
    "unsigned_last": (
        "int F(unsigned n, const int *a) { return n > 0 ? a[n - 1] : 0; }",
        [
            (0, []),
            (3, [3, 1, 2]),
        ],
    ),
    "after_loop": (
        "int F(int n, const int *a) { int s = 0; for (int i = 0; i < n; i++) s += a[i]; if (n > 0) s += "
        "a[n - 1]; return s; }",
        [
            (0, []),
            (-1, []),
            (3, [3, 1, 2]),
        ],
    ),
    "shifted_loop": (
        "int F(int n, int k, const int *a) { int s = 0; if (k >= 0) for (int i = 0; i < n; i++) s += a[i "
        "+ k]; return s; }",
        [
            (2, 1, [3, 1, 2]),
            (2, -1, []),
            (0, 0, []),
            (0, 5, []),
        ],
    ),
    "copied": (
        "void F(int n, const int *a, int *b) { if (n > 0) __builtin_memcpy(b, a, n * sizeof(int)); }",
        [
            (3, [3, 1, 2], [0, 0, 0]),
            (0, [], []),
            (-3, [], []),
        ],
    ),
    "first_of_many": (
        "float F(int n, const float *x, float y) { if (n < 1 || y != y) return y; return x[0] + y; }",
        [
            (1, [2.0], 1.0),
            (0, [], 1.0),
            (-1, [], 2.0),
        ],
    ),
    "stored_by_flag": (
        "void F(int flag, int n, const float *a, float *out) { if (flag > 0) for (int i = 0; i < n; i++) "
        "out[i] = a[i]; }",
        [
            (1, 3, [1.0, 2.0, 3.0], [5.0, 7.0, 11.0, 13.0]),
            (0, 3, [], [5.0]),
            (-1, 3, [], []),
            (2, 0, [], []),
        ],
    ),
    "stored_by_number": (
        "void F(float x, int n, const float *a, float *out) { if (x > 0) for (int i = 0; i < n; i++) "
        "out[i] = a[i]; }",
        [
            (0.5, 2, [1.0, 2.0], [5.0, 7.0, 11.0]),
            (-0.5, 2, [], [5.0]),
            (0.0, 2, [], []),
        ],
    ),
    "stored_by_both": (
        "void F(float x, int y, int n, const float *a, float *out) { if (x > 0) { if (y == 3) for (int i = "
        "0; i < n; i++) if (a[i] > 0) out[i] = a[i]; } }",
        [
            (1.0, 3, 2, [1.0, -2.0], [5.0, 7.0]),
            (1.0, 2, 2, [], [5.0]),
            (0.0, 3, 2, [], []),
        ],
    ),
    "stored_sum": (
        "void F(float x, int n, const float *a, float *out) { if (x > 0) { float s = 0; for (int i = 0; i < "
        "n; i++) s += a[i]; out[0] = s; } }",
        [
            (1.0, 3, [1.0, 2.0, 4.0], [5.0, 7.0]),
            (1.0, 0, [], [5.0]),
            (0.0, 3, [], []),
        ],
    ),
    "stored_everywhere": (
        "void F(float x, int n, const float *a, float *out) { if (n <= 0) return; if (x > 0) { float s = 0; "
        "for (int i = 0; i < n; i++) s += a[i]; for (int i = 0; i < n; i++) out[i] = s; } }",
        [
            (1.0, 3, [1.0, 2.0, 4.0], [5.0, 7.0, 11.0]),
            (1.0, -3, [], []),
            (0.0, 3, [], [5.0]),
        ],
    ),
    "stored_either": (
        "void F(float x, float y, int n, const float *a, const float *b, float *out) { if (x > 0) { for (int "
        "i = 0; i < n; i++) out[i] = a[i]; } else if (y > 0) { for (int i = 0; i < n; i++) out[i] += b[i]; "
        "} }",
        [
            (1.0, 0.0, 2, [1.0, 2.0], [], [5.0, 7.0, 11.0]),
            (0.0, 1.0, 2, [], [3.0, 4.0], [5.0, 7.0, 11.0]),
            (0.0, 0.0, 2, [], [], [5.0]),
        ],
    ),
    "stored_otherwise": (
        "void F(float x, int n, int m, const float *a, float *out) { if (x > 0) { for (int i = 0; i < n; "
        "i++) out[i] = a[i]; } else { for (int i = 0; i < m; i++) out[i] = 0; } }",
        [
            (1.0, 2, 3, [1.0, 2.0], [5.0, 7.0, 11.0]),
            (1.0, 2, 3, [1.0, 2.0], [5.0, 7.0]),
            (0.0, 3, 2, [], [5.0, 7.0]),
        ],
    ),
    "stored_rows": (
        "void F(float x, int n, const float *a, float *out) { if (x != 0) for (int i = 0; i < n; i++) for "
        "(int j = 0; j < 3; j++) out[i * 3 + j] += x * a[j]; }",
        [
            (2.0, 1, [1.0, 2.0, 4.0], [5.0, 7.0, 11.0, 13.0]),
            (0.0, 1, [], [5.0]),
        ],
    ),
}
