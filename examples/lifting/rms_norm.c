/* Root mean square normalization of the rows of x, Zhang and Sennrich 2019. */
#include <math.h>

void rms_norm(float *out, const float *x, const float *weight, int rows, int size)
{
    for (int r = 0; r < rows; r++) {
        float ss = 0.0f;
        for (int j = 0; j < size; j++)
            ss += x[r * size + j] * x[r * size + j];
        ss = 1.0f / sqrtf(ss / size + 1e-5f);
        for (int j = 0; j < size; j++)
            out[r * size + j] = weight[j] * (ss * x[r * size + j]);
    }
}
