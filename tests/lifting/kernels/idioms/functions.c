#include <math.h>
#include <stdint.h>

// Weights to bytes, as quantizers write it: halves go away from zero.
void quantize(int n, float scale, const float *x, int8_t *q) {
  for (int i = 0; i < n; i++) q[i] = (int8_t)fminf(fmaxf(roundf(x[i] / scale), -128.0f), 127.0f);
}

// Halves go to even.
void snap(int n, const float *x, float *y) {
  for (int i = 0; i < n; i++) y[i] = rintf(x[i] * 4.0f) * 0.25f;
}

void nearest(int n, const double *x, long *y) {
  for (int i = 0; i < n; i++) y[i] = lround(x[i]) - lrint(x[i]);
}

void bent(int n, const float *x, float *y) {
  for (int i = 0; i < n; i++) y[i] = x[i] * erff(x[i] * 0.70710678f);
}

void decibels(int n, const float *x, float *y) {
  for (int i = 0; i < n; i++) y[i] = 20.0f * log10f(fabsf(x[i]) + 1e-6f);
}

void magnitudes(int n, const double *re, const double *im, double *y) {
  for (int i = 0; i < n; i++) y[i] = hypot(re[i], im[i]);
}

float turned(int n, const float *x, const float *y) {
  float s = 0.0f;
  for (int i = 0; i < n; i++) s += atanf(x[i]) * sinhf(y[i]) + asinhf(x[i]);
  return s;
}

// Of 0 they are NaN.
void rests(int n, const double *x, const double *y, double p, double *z) {
  for (int i = 0; i < n; i++) z[i] = fmod(x[i], y[i]) - fmod(y[i], p);
}
