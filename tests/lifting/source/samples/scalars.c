/* Numbers: promotion, conversion, wrapping, division, shifts, choices. */
#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#define HALF(x) ((x) / 2)
#define MAX(a, b) ((a) > (b) ? (a) : (b))
enum { FIRST = 3, SECOND, THIRD = -7 };
typedef unsigned char byte;
static const int table_size = 2 * 3;

uint8_t promoted(uint8_t a, uint8_t b) { return (a + b) / 2 - (a * b >> 3); }
int8_t narrowed(int a) { int8_t c = a; c += 100; c <<= 1; c -= a; return c; }
unsigned wrapped(unsigned a, unsigned b) { return a * b - b + ~a - (a << 3) + (b >> 2) + -a; }
uint64_t wide(uint32_t a, int b) { uint64_t c = a; c = c * b + a * a; return c ^ (c >> 7) | b & 12; }
int divided(int a, int b) { return a / b * 100 + a % b; }
uint16_t mixed(int16_t a, uint32_t b, char c) { a += b; return a * c % 7 + (b > a) + (c < b); }
float floats(float a, double b, int c) { a *= b; a += c / 2; return a - b * 0.1f + 1 / 3.0 + c / 7; }
int truncated(float a, double b) { return (int)(a * 3) + (short)b + (unsigned char)(int)a; }
bool truths(int a, float b, unsigned c) { bool d = a; return d && (b || !c) || a == 3 && !b; }
int counted_truths(int a, int b) { return (a < b) + (a <= b) * 2 + !a * 4 + (a && b) * 8 + (a != b); }
int chosen(int a, int b) { return a > b ? a - b : a == b ? MAX(a, 5) : HALF(b) + SECOND * THIRD; }
double library(double a, float b) { return fabs(a) + sqrt(fabs(a)) + floor(b) + ceilf(b) + fmax(a, b) + round(a * 3) + trunc(a * 5); }
float smooth(float a, float b) { return expf(-a * a) + logf(1 + b * b) + sinf(a) * cosf(b) + tanhf(a) + powf(fabsf(b), a); }
int absolute(int a) { return abs(a) + (int)fmod(a, 3.0); }
int sizes(int a) { return a + sizeof(int) + sizeof(double) * table_size - (int)sizeof(byte) + 'c' + true; }
long longs(long a, int b) { return a * 1000003L + b % 5 + (a ^ b) + (a & 0xFFL) + (a | 1) + ~a; }
int stepped(int a) { int b = a++; int c = ++a; b -= --c; c = b--; return a * 7 + b * 3 + c; }
int chained(int a) { int b, c; b = c = a + 1; b += c *= 2; return b - c + (a = 5, a * 2); }
int branches(int a, int b) {
    int s = 0;
    if (a > 1 && b / a > 0) s = 1; else if (a < 0 || 10 % (a + 1) == 1) s = 2; else s = 3;
    if (!(a == b)) s += 10;
    if (a) if (b) s += 20; else s += 40;
    return s;
}
int early(int a, int b) {
    if (a < 0) return -1;
    if (a == 0) { if (b > 2) return b; a = 7; }
    a += b;
    if (a > 6) return a * 2;
    return a;
}
int switched(int a, int b) {
    int s = 1;
    switch (a) {
    case 0: s = b; break;
    case 1: case 2: s += 2 * b; break;
    case FIRST: return -b;
    default: { s = 9; break; }
    }
    return s * 3;
}
unsigned char saturated(int a, int b) { int s = a * b; return s < 0 ? 0 : s > 255 ? 255 : s; }
double infinite(float a) { double m = -INFINITY; if (a > m) m = a; return m == INFINITY ? 0 : m + INT_MAX; }
