/* Structs of plain fields: by value, by pointer, local; fields that are arrays; bytes with a type. */
#include <stdint.h>

typedef struct { int order; int *dimensions; uint8_t *vals; } tensor;
struct point { float x, y; };
struct image { int width, height; const uint8_t *in; float *out; };

int tensor_twice(tensor *a, tensor *b) {
    int n = a->dimensions[0] % 5;
    double *restrict to = (double *)(a->vals);
    double *from = (double *)b->vals;
#pragma omp parallel for schedule(static)
    for (int32_t i = 0; i < n; i++) to[i] = from[i] * 2;
    return 0;
}
float length2(struct point p) { p.x += 1; return p.x * p.x + p.y * p.y; }
static struct point *same(struct point *p) { return p; }
float area(struct point *p, const struct point q) {
    struct point r = {p->x - q.x};
    struct point s = r, t;
    t = *p;
    s.y = (*p).y - t.y + q.y;
    return r.x * s.y + p[0].x + r.y;
}
void convert(struct image *im, float gain) { for (int i = 0; i < im->width * im->height; i++) im->out[i] = im->in[i] * gain; }
void typed_by_cast(int n, void *to, const void *from) { int *a = to; const int *b = (const int *)from; for (int i = 0; i < n; i++) a[i] = b[i] + 1; }
