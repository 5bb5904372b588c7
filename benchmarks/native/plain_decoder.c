/* A decoder in plain loops, as llama2.c's run.c walks them: one token at a time, one thread, floats.
 *     plain_decoder MODEL TOKENS
 * MODEL: llama2.c's first format (sizes, weights, tables of rotations). For each line on its input it says
 * TOKENS tokens after token 1, the likeliest each, and prints the seconds that took and the last token. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct { int width, hidden, layers, heads, shared, words, most; } sizes;

static float *take(float **weights, size_t count)
{
    float *here = *weights;
    *weights += count;
    return here;
}

static void product(float *y, const float *x, const float *w, int in, int out)
{
    for (int i = 0; i < out; i++) {
        float sum = 0;
        for (int j = 0; j < in; j++) sum += w[i * in + j] * x[j];
        y[i] = sum;
    }
}

static void normalize(float *y, const float *x, const float *scale, int count)
{
    float squares = 0;
    for (int i = 0; i < count; i++) squares += x[i] * x[i];
    float factor = 1 / sqrtf(squares / count + 1e-5f);
    for (int i = 0; i < count; i++) y[i] = scale[i] * (factor * x[i]);
}

static void softmax(float *x, int count)
{
    float most = x[0], sum = 0;
    for (int i = 1; i < count; i++) if (x[i] > most) most = x[i];
    for (int i = 0; i < count; i++) sum += x[i] = expf(x[i] - most);
    for (int i = 0; i < count; i++) x[i] /= sum;
}

static void rotate(float *x, const float *cosines, const float *sines, int count, int head)
{
    for (int i = 0; i < count; i += 2) {
        float c = cosines[i % head / 2], s = sines[i % head / 2], a = x[i], b = x[i + 1];
        x[i] = a * c - b * s;
        x[i + 1] = a * s + b * c;
    }
}

int main(int count, char **words)
{
    FILE *file = count == 3 ? fopen(words[1], "rb") : NULL;
    if (!file || fread(&sizes, sizeof sizes, 1, file) != 1) return 1;
    fseek(file, 0, SEEK_END);
    size_t bytes = ftell(file) - sizeof sizes;
    float *weights = malloc(bytes);
    fseek(file, sizeof sizes, SEEK_SET);
    if (fread(weights, 1, bytes, file) != bytes) return 1;

    int d = sizes.width, h = sizes.hidden, n = sizes.layers, most = sizes.most, head = d / sizes.heads;
    int kept = sizes.shared * head, times = sizes.heads / sizes.shared, all = abs(sizes.words);
    float *table = take(&weights, (size_t)all * d), *before = take(&weights, n * d);
    float *wq = take(&weights, n * d * d), *wk = take(&weights, n * d * kept), *wv = take(&weights, n * d * kept);
    float *wo = take(&weights, n * d * d), *between = take(&weights, n * d);
    float *w1 = take(&weights, n * d * h), *w2 = take(&weights, n * d * h), *w3 = take(&weights, n * d * h);
    float *after = take(&weights, d);
    float *cosines = take(&weights, most * head / 2), *sines = take(&weights, most * head / 2);
    float *keys = calloc((size_t)n * most * kept, 4), *values = calloc((size_t)n * most * kept, 4);
    float x[d], y[d], z[d], q[d], a[h], b[h], scores[most], logits[all];

    for (char line[64]; fgets(line, sizeof line, stdin);) {
        struct timespec begin, end;
        int token = 1;
        clock_gettime(CLOCK_MONOTONIC, &begin);
        for (int at = 0; at < atoi(words[2]); at++) {
            memcpy(x, table + token * d, sizeof x);
            for (int l = 0; l < n; l++) {
                float *k = keys + ((size_t)l * most + at) * kept, *v = values + ((size_t)l * most + at) * kept;
                normalize(y, x, before + l * d, d);
                product(q, y, wq + l * d * d, d, d);
                product(k, y, wk + l * d * kept, d, kept);
                product(v, y, wv + l * d * kept, d, kept);
                rotate(q, cosines + at * head / 2, sines + at * head / 2, d, head);
                rotate(k, cosines + at * head / 2, sines + at * head / 2, kept, head);
                memset(y, 0, sizeof y);
                for (int i = 0; i < sizes.heads; i++) {
                    size_t from = (size_t)l * most * kept + i / times * head;
                    for (int t = 0; t <= at; t++) {
                        scores[t] = 0;
                        for (int j = 0; j < head; j++) scores[t] += q[i * head + j] * keys[from + t * kept + j];
                        scores[t] /= sqrtf(head);
                    }
                    softmax(scores, at + 1);
                    for (int t = 0; t <= at; t++)
                        for (int j = 0; j < head; j++) y[i * head + j] += scores[t] * values[from + t * kept + j];
                }
                product(z, y, wo + l * d * d, d, d);
                for (int i = 0; i < d; i++) x[i] += z[i];
                normalize(y, x, between + l * d, d);
                product(a, y, w1 + l * d * h, d, h);
                product(b, y, w3 + l * d * h, d, h);
                for (int i = 0; i < h; i++) a[i] *= b[i] / (1 + expf(-a[i]));
                product(z, a, w2 + l * d * h, h, d);
                for (int i = 0; i < d; i++) x[i] += z[i];
            }
            normalize(x, x, after, d);
            product(logits, x, table, d, all);
            token = 0;
            for (int i = 1; i < all; i++) if (logits[i] > logits[token]) token = i;
        }
        clock_gettime(CLOCK_MONOTONIC, &end);
        printf("%.9f %d\n", end.tv_sec - begin.tv_sec + 1e-9 * (end.tv_nsec - begin.tv_nsec), token);
        fflush(stdout);
    }
    return 0;
}
