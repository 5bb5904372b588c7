/* Elements that move within their array. */

void shift_up(int n, float *a)
{
    for (int i = n - 1; i > 0; i--)
        a[i] = a[i - 1];
}

void rows_down(int h, int w, float *a)
{
    for (int y = h - 1; y > 0; y--)
        for (int x = 0; x < w; x++)
            a[y * w + x] = a[(y - 1) * w + x];
}
