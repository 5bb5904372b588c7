/* What lies at quotients and remainders of counters, and windows that end at the borders. */

void bias_of_each_channel(const float *x, const float *b, float *out, int n, int c)
{
    for (int i = 0; i < n; i++)
        out[i] = x[i] + b[i % c];
}

void each_pixel_times_its_channel(const float *rgb, const float *gain, float *out, int n)
{
    for (int i = 0; i < 3 * n; i++)
        out[i] = rgb[i] * gain[i % 3];
}

void each_sample_twice(const float *x, float *out, int n)
{
    for (int i = 0; i < n; i++)
        out[i] = x[i / 2];
}

void each_sample_often(const float *x, float *out, int n, int c)
{
    for (int i = 0; i < n; i++)
        out[i] = x[i / c];
}

void one_further_round(const float *x, float *out, int n)
{
    for (int i = 0; i < n; i++)
        out[i] = x[(i + 1) % n];
}

void window_inside(const float *x, const float *w, float *out, int n, int r)
{
    for (int i = 0; i < n; i++) {
        float s = 0;
        for (int k = -r; k <= r; k++)
            if (i + k >= 0 && i + k < n)
                s += x[i + k] * w[k + r];
        out[i] = s;
    }
}

void filter_of_the_past(const float *x, const float *h, float *y, int n, int taps)
{
    for (int i = 0; i < n; i++) {
        float s = 0;
        for (int k = 0; k < taps; k++)
            if (i >= k)
                s += h[k] * x[i - k];
        y[i] = s;
    }
}

void mirrored_at_the_front(const int *x, int *out, int n)
{
    for (int i = 0; i < n; i++) {
        int j = i - 1;
        if (j < 0)
            j = -j;
        out[i] = x[i] - x[j];
    }
}

void dilated_convolution(const float *x, const float *w, float *out, int n, int m, int d)
{
    for (int i = 0; i < n; i++) {
        float s = 0;
        for (int k = 0; k < m; k++)
            s += x[i + d * k] * w[k];
        out[i] = s;
    }
}

void overlapping_frames(const float *x, float *out, int n, int hop, int size)
{
    for (int i = 0; i < n; i++)
        for (int j = 0; j < size; j++)
            out[i * size + j] = x[i * hop + j];
}
