/* Loops that end at a quotient. */

void reverse(int n, int *a)
{
    for (int i = 0; i < n / 2; i++) {
        int t = a[i];
        a[i] = a[n - 1 - i];
        a[n - 1 - i] = t;
    }
}

void sums_of_pairs(int n, const float *a, float *b)
{
    for (int i = 0; i < n / 2; i++)
        b[i] = a[2 * i] + a[2 * i + 1];
}

int sum_of_first_half(int n, const int *a)
{
    int s = 0;
    for (int i = 0; i < n / 2; i++)
        s += a[i];
    return s;
}

void second_half(int n, const int *a, int *b)
{
    for (int i = n / 2; i < n; i++)
        b[i] = a[i];
}

void up_to_the_middle(int n, const int *a, int *b)
{
    for (int i = 0; i <= n / 2; i++)
        b[i] = a[i];
}

void every_second(int n, const int *a, int *b)
{
    for (int i = 0; i < (n + 1) / 2; i++)
        b[i] = a[2 * i];
}

void by_shift(int n, const int *a, int *b)
{
    for (int i = 0; i < (n >> 1); i++)
        b[i] = a[i];
}

void of_unsigned(unsigned n, const int *a, int *b)
{
    for (unsigned i = 0; i < n / 2; i++)
        b[i] = a[2 * i];
}

void butterfly(int n, const float *a, float *b)
{
    int h = n / 2;
    for (int i = 0; i < h; i++) {
        b[i] = a[i] + a[i + h];
        b[i + h] = a[i] - a[i + h];
    }
}

void max_pool(int h, int w, const float *a, float *b)
{
    for (int i = 0; i < h / 2; i++)
        for (int j = 0; j < w / 2; j++) {
            float m = a[2 * i * w + 2 * j];
            for (int p = 0; p < 2; p++)
                for (int q = 0; q < 2; q++) {
                    float v = a[(2 * i + p) * w + 2 * j + q];
                    if (v > m)
                        m = v;
                }
            b[i * (w / 2) + j] = m;
        }
}

void average_pool(int h, int w, const float *a, float *b)
{
    int rows = h / 2, columns = w / 2;
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < columns; j++) {
            float s = 0;
            for (int p = 0; p < 2; p++)
                for (int q = 0; q < 2; q++)
                    s += a[(2 * i + p) * w + 2 * j + q];
            b[i * columns + j] = s / 4;
        }
}

void strided_convolution(int n, const float *a, const float *w, float *b)
{
    int count = (n - 3) / 2 + 1;
    for (int i = 0; i < count; i++) {
        float s = 0;
        for (int j = 0; j < 3; j++)
            s += a[2 * i + j] * w[j];
        b[i] = s;
    }
}
