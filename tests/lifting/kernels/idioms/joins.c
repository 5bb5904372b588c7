/* What is put side by side, or into a frame. */

void one_after_the_other(const float *a, const float *b, float *o, int n, int m)
{
    for (int i = 0; i < n; i++)
        o[i] = a[i];
    for (int i = 0; i < m; i++)
        o[n + i] = b[i];
}

void framed_by_zeros(const float *x, float *y, int n, int p)
{
    for (int i = 0; i < n + 2 * p; i++)
        y[i] = i >= p && i < n + p ? x[i - p] : 0;
}

void plane_framed_by_zeros(const float *x, float *y, int h, int w, int p)
{
    int rows = h + 2 * p, columns = w + 2 * p;
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < columns; j++) {
            int r = i - p, c = j - p;
            y[i * columns + j] = r >= 0 && r < h && c >= 0 && c < w ? x[r * w + c] : 0;
        }
}

void put_into_zeros(const float *x, float *y, int h, int w)
{
    int rows = h + 2, columns = w + 2;
    for (int i = 0; i < rows * columns; i++)
        y[i] = 0;
    for (int i = 0; i < h; i++)
        for (int j = 0; j < w; j++)
            y[(i + 1) * columns + j + 1] = x[i * w + j];
}
