/* Loops that look for something: the first of it, whether there is any, how far it goes. */

int find(const int *a, int n, int key) {
    for (int i = 0; i < n; i++)
        if (a[i] == key)
            return i;
    return -1;
}

int find_behind(const int *a, int n, int key) {
    int i;
    for (i = 2; i < n; ++i) {
        if (a[i] == key)
            break;
    }
    return i;
}

int find_last(const int *a, int n, int key) {
    int i = n - 1;
    while (i >= 0 && a[i] != key)
        i--;
    return i;
}

int all_positive(const float *a, int n) {
    for (int i = 0; i < n; i++)
        if (a[i] <= 0)
            return 0;
    return 1;
}

int is_sorted(const int *a, int n) {
    int good = 1;
    for (int i = 0; i < n - 1; i++) {
        int here = a[i], next = a[i + 1];
        if (here > next) {
            good = 0;
            break;
        }
    }
    return good;
}

int same(const int *a, const int *b, unsigned n) {
    for (unsigned i = 0; i < n; i++)
        if (a[i] != b[i])
            return 0;
    return 1;
}

int walk(const int *a, int n, int key) {
    for (const int *p = a; p < a + n; p++)
        if (*p == key)
            return 1;
    return 0;
}

static int has(const int *a, int n, int key) {
    for (int i = 0; i < n; i++)
        if (a[i] == key)
            return 1;
    return 0;
}

int common(const int *a, int n, const int *b, int m) {
    int count = 0;
    for (int i = 0; i < n; i++)
        count += has(b, m, a[i]);
    return count;
}

void first_in_rows(const int *a, int n, int m, int key, int *at) {
    for (int i = 0; i < n; i++) {
        at[i] = -1;
        for (int j = 0; j < m; j++)
            if (a[i * m + j] == key) {
                at[i] = j;
                break;
            }
    }
}

int first_of_two(const int *a, int n, int one, int other) {
    for (int i = 0; i < n; i++)
        if (a[i] == one)
            return i;
    for (int i = 0; i < n; i++)
        if (a[i] == other)
            return n + i;
    return -1;
}
