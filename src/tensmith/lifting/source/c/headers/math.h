#if defined(__cplusplus) && !defined(TENSMITH_CMATH)
// In C++, <math.h> brings the overloads of <cmath> into the global namespace.
#include <cmath>
using namespace std;
#elif !defined(TENSMITH_MATH)
#define TENSMITH_MATH
#ifdef __cplusplus
extern "C" {
#endif
#define ONE(name) double name(double x); float name##f(float x);
#define TWO(name) double name(double x, double y); float name##f(float x, float y);
ONE(fabs) ONE(sqrt) ONE(exp) ONE(log) ONE(sin) ONE(cos) ONE(tan) ONE(tanh) ONE(floor) ONE(ceil) ONE(round)
ONE(trunc) ONE(rint) ONE(nearbyint) ONE(exp2) ONE(expm1) ONE(log2) ONE(log10) ONE(log1p) ONE(cbrt) ONE(sinh)
ONE(cosh) ONE(asin) ONE(acos) ONE(atan) ONE(asinh) ONE(acosh) ONE(atanh) ONE(erf) ONE(erfc) ONE(tgamma)
ONE(lgamma)
TWO(fmin) TWO(fmax) TWO(pow) TWO(fmod) TWO(atan2) TWO(hypot) TWO(copysign) TWO(remainder)
#undef ONE
#undef TWO
#define WHOLE(name) long l##name(double x); long l##name##f(float x); \
  long long ll##name(double x); long long ll##name##f(float x);
WHOLE(round) WHOLE(rint)
#undef WHOLE
double fma(double x, double y, double z);
float fmaf(float x, float y, float z);
#ifdef __cplusplus
}
#endif
#define HUGE_VAL __builtin_huge_val()
#define INFINITY __builtin_inff()
#define NAN __builtin_nanf("")
#ifndef __cplusplus
#define isnan(x) __builtin_isnan(x)
#endif
#define M_E 2.7182818284590452354
#define M_PI 3.14159265358979323846
#define M_PI_2 1.57079632679489661923
#define M_PI_4 0.78539816339744830962
#define M_SQRT2 1.41421356237309504880
#define M_SQRT1_2 0.70710678118654752440
#endif
