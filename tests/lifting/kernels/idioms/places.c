#include <limits.h>

int argmax(const float *a, int n) {
    int k = 0;
    for (int i = 1; i < n; i++)
        if (a[i] > a[k])
            k = i;
    return k;
}

int argmin_kept(const float *a, int n) {
    int best = 0;
    float least = a[0];
    for (int i = 1; i < n; i++)
        if (a[i] < least) {
            least = a[i];
            best = i;
        }
    return best;
}

int last_of_the_least(const int *a, int n) {
    int best = -1, least = INT_MAX;
    for (int i = 0; i < n; i++)
        if (a[i] <= least) {
            least = a[i];
            best = i;
        }
    return best;
}

int largest_allowed(const int *a, const int *allowed, int n) {
    int best = -1, most = -1;
    for (int i = 0; i < n; i++)
        if (allowed[i] != 0 && a[i] > most) {
            best = i;
            most = a[i];
        }
    return best;
}

int last_allowed(const int *a, const int *allowed, int n) {
    int best = -1, most = -1;
    for (int i = 0; i < n; i++) {
        if (allowed[i] == 0)
            continue;
        if (!(a[i] < most)) {
            best = i;
            most = a[i];
        }
    }
    return best;
}

int from_behind(const float *a, int n) {
    int k = n - 1;
    for (int i = n - 2; i >= 0; i--)
        if (a[k] < a[i])
            k = i;
    return k;
}

void classes(const float *scores, int n, int m, int *out) {
    for (int r = 0; r < n; r++) {
        int best = 0;
        for (int j = 1; j < m; j++)
            if (scores[r * m + j] > scores[r * m + best])
                best = j;
        out[r] = best;
    }
}

int nearest(const float *x, const float *y, int n, float px, float py) {
    int k = -1;
    float least = 1e30f;
    for (int i = 0; i < n; i++) {
        float dx = x[i] - px, dy = y[i] - py;
        float distance = dx * dx + dy * dy;
        if (distance < least) {
            least = distance;
            k = i;
        }
    }
    return k;
}

void value_and_place(const float *a, int n, float *value, int *place) {
    float most = a[0];
    int k = 0;
    for (int i = 1; i < n; i++)
        if (a[i] > most) {
            most = a[i];
            k = i;
        }
    *value = most;
    *place = k;
}

float largest(const float *a, int n) {
    int k = 0;
    for (int i = 1; i < n; i++)
        if (a[i] > a[k])
            k = i;
    return a[k];
}

int other_scopes(const int *a, int n, int m) {
    int k = 0, s = 0;
    for (int i = 1; i < n; i++)
        if (a[i] > a[k])
            k = i;
    for (int r = 0; r < m; r++) {
        int k = r;
        s += a[k];
    }
    return s + a[k];
}
