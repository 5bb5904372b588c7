/* Whether all, or any: what C makes of truth. */
#include <stdbool.h>

bool all_by_and(int n, const int *a)
{
    bool all = true;
    for (int i = 0; i < n; i++)
        all = all && a[i] > 0;
    return all;
}

bool any_by_or(int n, const int *a)
{
    bool any = false;
    for (int i = 0; i < n; i++)
        any |= a[i] > 0;
    return any;
}

bool all_from(int n, const int *a, bool all)
{
    for (int i = 0; i < n; i++)
        all = all && a[i] > 0;
    return all;
}

int any_by_if(int n, const int *a)
{
    int any = 0;
    for (int i = 0; i < n; i++)
        if (a[i] > 0)
            any = 1;
    return any;
}

bool all_by_if(int n, const int *a)
{
    bool all = true;
    for (int i = 0; i < n; i++)
        if (a[i] < 0)
            all = false;
    return all;
}

int all_of_int(int n, const int *a)
{
    int all = 1;
    for (int i = 0; i < n; i++)
        all &= a[i] > 0;
    return all;
}

int all_of_int_by_and(int n, const int *a)
{
    int all = 1;
    for (int i = 0; i < n; i++)
        all = all && a[i];
    return all;
}

bool sorted(int n, const int *a)
{
    bool ok = true;
    for (int i = 0; i + 1 < n; i++)
        ok = ok && a[i] <= a[i + 1];
    return ok;
}

int marked(int n, const int *a, int x)
{
    int mark = -1;
    for (int i = 0; i < n; i++)
        if (a[i] == x)
            mark = 7;
    return mark;
}

int symmetric(int n, const float *a)
{
    int ok = 1;
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            if (a[i * n + j] != a[j * n + i])
                ok = 0;
    return ok;
}

bool equal(int n, const int *a, const int *b)
{
    bool same = true;
    for (int i = 0; i < n; i++)
        same &= a[i] == b[i];
    return same;
}

void any_in_row(int n, int m, const int *a, unsigned char *b)
{
    for (int i = 0; i < n; i++) {
        bool any = false;
        for (int j = 0; j < m; j++)
            any = any || a[i * m + j] > 3;
        b[i] = any;
    }
}

int matches(int n, const int *a, int x)
{
    int count = 0;
    for (int i = 0; i < n; i++)
        count += a[i] == x;
    return count;
}
