/* Strides and groups that arguments say. */

#include <math.h>
#include <stdint.h>

void every_so_many(const float *x, float *y, int n, int s)
{
    for (int i = 0; i < n / s; i++)
        y[i] = x[i * s];
}

void strided_convolution(const float *x, const float *k, float *y, int n, int m, int s)
{
    int count = (n - m) / s + 1;
    for (int i = 0; i < count; i++) {
        float sum = 0;
        for (int j = 0; j < m; j++)
            sum += x[s * i + j] * k[j];
        y[i] = sum;
    }
}

void strided_convolution_of_planes(const float *x, const float *k, float *y, int h, int w, int m, int s)
{
    int rows = (h - m) / s + 1, columns = (w - m) / s + 1;
    for (int r = 0; r < rows; r++)
        for (int c = 0; c < columns; c++) {
            float sum = 0;
            for (int i = 0; i < m; i++)
                for (int j = 0; j < m; j++)
                    sum += x[(r * s + i) * w + c * s + j] * k[i * m + j];
            y[r * columns + c] = sum;
        }
}

void convolution_at_every_other(const float *x, const float *k, float *y, int h, int w)
{
    int rows = (h - 3) / 2 + 1, columns = (w - 3) / 2 + 1;
    for (int r = 0; r < rows; r++)
        for (int c = 0; c < columns; c++) {
            float sum = 0;
            for (int i = 0; i < 3; i++)
                for (int j = 0; j < 3; j++)
                    sum += x[(2 * r + i) * w + 2 * c + j] * k[i * 3 + j];
            y[r * columns + c] = sum;
        }
}

void largest_of_windows(const float *x, float *y, int h, int w, int size, int stride)
{
    int rows = (h - size) / stride + 1, columns = (w - size) / stride + 1;
    for (int r = 0; r < rows; r++)
        for (int c = 0; c < columns; c++) {
            float most = -INFINITY;
            for (int i = 0; i < size; i++)
                for (int j = 0; j < size; j++) {
                    float v = x[(r * stride + i) * w + c * stride + j];
                    most = v > most ? v : most;
                }
            y[r * columns + c] = most;
        }
}

void quantized_by_groups(const float *x, int8_t *q, float *scales, int n, int group)
{
    for (int g = 0; g < n / group; g++) {
        float most = 0;
        for (int i = 0; i < group; i++) {
            float v = fabsf(x[g * group + i]);
            if (v > most)
                most = v;
        }
        float scale = most / 127.0f;
        scales[g] = scale;
        for (int i = 0; i < group; i++)
            q[g * group + i] = (int8_t)roundf(x[g * group + i] / scale);
    }
}
