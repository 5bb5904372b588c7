/* Rows and columns of flat memory at quotients and remainders of counters. */

void each_pixel_four_times(const float *x, float *y, int h, int w)
{
    for (int i = 0; i < 2 * h; i++)
        for (int j = 0; j < 2 * w; j++)
            y[i * 2 * w + j] = x[(i / 2) * w + j / 2];
}

void enlarged(const float *x, float *y, int h, int w, int s)
{
    for (int i = 0; i < h * s; i++)
        for (int j = 0; j < w * s; j++)
            y[i * w * s + j] = x[(i / s) * w + j / s];
}

void nearest(const float *x, float *y, int h, int w, int rows, int columns)
{
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < columns; j++)
            y[i * columns + j] = x[(i * h / rows) * w + j * w / columns];
}

void heads_shared(const float *k, float *y, int heads, int size, int share)
{
    for (int i = 0; i < heads; i++)
        for (int j = 0; j < size; j++)
            y[i * size + j] = k[(i / share) * size + j];
}

void rows_rolled(const float *x, float *y, int h, int w, int s)
{
    for (int i = 0; i < h; i++)
        for (int j = 0; j < w; j++)
            y[i * w + j] = x[((i + s) % h) * w + j];
}

void columns_rolled(const float *x, float *y, int h, int w, int s)
{
    for (int i = 0; i < h; i++)
        for (int j = 0; j < w; j++)
            y[i * w + j] = x[i * w + (j + s) % w];
}

void both_rolled(const float *x, float *y, int h, int w, int s, int t)
{
    for (int i = 0; i < h; i++)
        for (int j = 0; j < w; j++)
            y[i * w + j] = x[((i + s) % h) * w + (j + t) % w];
}

void neighbours_on_a_torus(const int *x, int *y, int h, int w)
{
    for (int i = 0; i < h; i++)
        for (int j = 0; j < w; j++)
            y[i * w + j] = x[i * w + (j + w - 1) % w] + x[((i + 1) % h) * w + j];
}

void columns_repeated(const float *x, float *y, int h, int w, int m)
{
    for (int i = 0; i < h; i++)
        for (int j = 0; j < w; j++)
            y[i * w + j] = x[i * m + j % m];
}

void rolled_either_way(const float *x, float *y, int n, int s)
{
    for (int i = 0; i < n; i++)
        y[i] = x[((i + s) % n + n) % n];
}
