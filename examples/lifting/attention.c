/* One head of attention, all positions at once: out = softmax(q k^T / sqrt(d)) v. Rows are positions. */
#include <math.h>

void attention(const float *q, const float *k, const float *v, float *score, float *out, int length, int d)
{
    for (int t = 0; t < length; t++) {
        float *row = score + t * length;
        for (int s = 0; s < length; s++) {
            float dot = 0.0f;
            for (int i = 0; i < d; i++)
                dot += q[t * d + i] * k[s * d + i];
            row[s] = dot / sqrtf(d);
        }
        float largest = row[0];
        for (int s = 1; s < length; s++)
            if (row[s] > largest)
                largest = row[s];
        float sum = 0.0f;
        for (int s = 0; s < length; s++) {
            row[s] = expf(row[s] - largest);
            sum += row[s];
        }
        for (int s = 0; s < length; s++)
            row[s] /= sum;
        for (int i = 0; i < d; i++) {
            float mixed = 0.0f;
            for (int s = 0; s < length; s++)
                mixed += row[s] * v[s * d + i];
            out[t * d + i] = mixed;
        }
    }
}
