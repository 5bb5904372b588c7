/* A functional model of the TPC-C intrinsics that emitted kernels use, lane by lane.

   Vectors hold 2048 bits. A load outside a tensor gives the padding value 0, a store outside is dropped, as
   the hardware's tensor accesses do. Products of 32-bit integers come as low halves (v1) and high halves (v2).
   Reductions leave their result in lane 0; the other lanes are poisoned, so that a kernel that read them
   would be seen. Timing, rounding of special functions and saturation switches are not modelled. */
#pragma once
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

template <class T, int N> struct vec {
    T lane[N];
    vec() { std::memset(lane, 0, sizeof lane); }
    template <class S> vec(S value) { for (auto &x : lane) x = static_cast<T>(value); }
    T operator[](int i) const { return lane[i]; }
};
typedef vec<float, 64> float64;
typedef vec<int32_t, 64> int64;
typedef vec<uint32_t, 64> uint64;
typedef vec<int16_t, 128> short128;
typedef vec<uint16_t, 128> ushort128;
typedef vec<int8_t, 256> char256;
typedef vec<uint8_t, 256> uchar256;
struct int128 { int64 v1, v2; };
struct int256 { int64 v1, v2, v3, v4; };
struct int5 { int at[5]; int &operator[](int i) { return at[i]; } int operator[](int i) const { return at[i]; } };
inline int5 operator+(int5 a, int5 b) { for (int i = 0; i < 5; i++) a.at[i] += b.at[i]; return a; }

enum { SW_RHNE = 0 << 16, SW_RZ = 1 << 16, SW_LINEAR = 1 << 24 };

/* Tensors: dense, sizes[0] fastest. */
struct tensor { void *data; unsigned rank; unsigned sizes[5]; };
static int5 index_space_offset, index_space_size;
inline int5 get_index_space_offset() { return index_space_offset; }
inline int5 get_index_space_size() { return index_space_size; }

inline bool inside(const tensor &t, const int5 &at) {
    for (unsigned d = 0; d < 5; d++)
        if (at[d] < 0 || unsigned(at[d]) >= (d < t.rank ? t.sizes[d] : 1u)) return false;
    return true;
}
inline size_t place(const tensor &t, const int5 &at) {
    size_t position = 0, stride = 1;
    for (unsigned d = 0; d < t.rank; d++) { position += stride * at[d]; stride *= t.sizes[d]; }
    return position;
}
template <class V, class T, int N> V load(int5 at, const tensor &t) {
    V v;
    for (int i = 0; i < N; i++, at[0]++) v.lane[i] = inside(t, at) ? ((const T *)t.data)[place(t, at)] : T(0);
    return v;
}
template <class T, int N> void store(int5 at, const tensor &t, const vec<T, N> &v, int count) {
    for (int i = 0; i < count; i++, at[0]++) if (inside(t, at)) ((T *)t.data)[place(t, at)] = v.lane[i];
}
template <class T> struct address { const T *p; };
struct any_address { const tensor t; int5 at; };
inline any_address gen_addr(int5 at, const tensor &t) {
    if (!inside(t, at)) { std::fprintf(stderr, "gen_addr outside a tensor\n"); std::abort(); }
    return {t, at};
}
#define MEMORY(name, T, V, N) \
    inline V v_##name##_ld_tnsr_b(int5 at, const tensor &t) { return load<V, T, N>(at, t); } \
    inline void v_##name##_st_tnsr(int5 at, const tensor &t, const V &v) { store<T, N>(at, t, v, N); } \
    inline void v_##name##_st_tnsr_partial(int5 at, const tensor &t, const V &v, int8_t size, int8_t offset) { \
        at[0] += offset; store<T, N>(at, t, v, size + 1); } \
    inline T s_##name##_ld_g(const any_address &a) { return ((const T *)a.t.data)[place(a.t, a.at)]; }
MEMORY(f32, float, float64, 64)
MEMORY(i32, int32_t, int64, 64)
MEMORY(i16, int16_t, short128, 128)
MEMORY(u16, uint16_t, ushort128, 128)
MEMORY(i8, int8_t, char256, 256)
MEMORY(u8, uint8_t, uchar256, 256)

#define LANES2(V, name, expression) \
    inline V name(const V &a, const V &b) { V r; for (int i = 0; i < 64; i++) { auto x = a[i], y = b[i]; \
        r.lane[i] = (expression); } return r; }
#define LANES1(V, name, expression) \
    inline V name(const V &a) { V r; for (int i = 0; i < 64; i++) { auto x = a[i]; r.lane[i] = (expression); } return r; }
LANES2(float64, v_f32_add_b, x + y)
LANES2(float64, v_f32_sub_b, x - y)
LANES2(float64, v_f32_mul_b, x * y)
LANES2(float64, v_f32_max_b, x > y ? x : y)
LANES2(float64, v_f32_min_b, x < y ? x : y)
LANES1(float64, v_f32_abs_b, std::fabs(x))
LANES2(int64, v_i32_add_b, int32_t(uint32_t(x) + uint32_t(y)))
LANES2(int64, v_i32_sub_b, int32_t(uint32_t(x) - uint32_t(y)))
LANES2(int64, v_i32_max_b, x > y ? x : y)
LANES2(int64, v_i32_min_b, x < y ? x : y)
LANES2(int64, v_i32_and_b, x & y)
LANES2(int64, v_i32_or_b, x | y)
LANES2(int64, v_i32_xor_b, x ^ y)
LANES1(int64, v_i32_abs_b, x < 0 ? int32_t(0u - uint32_t(x)) : x)
inline float64 v_f32_mac_b(const float64 &a, const float64 &b, const float64 &c) {
    float64 r; for (int i = 0; i < 64; i++) r.lane[i] = a[i] * b[i] + c[i]; return r; }
inline int128 v_i32_mul_b(const int64 &a, const int64 &b) {
    int128 r;
    for (int i = 0; i < 64; i++) {
        const long long p = (long long)a[i] * b[i];
        r.v1.lane[i] = int32_t(uint32_t(p)); r.v2.lane[i] = int32_t(p >> 32);
    }
    return r;
}
#define SELECT(R, r, A, a, name, sign) \
    inline R v_##r##_sel_##name##_##a##_b(const A &x, const A &y, const R &then, const R &otherwise) { \
        R v; for (int i = 0; i < 64; i++) v.lane[i] = x[i] sign y[i] ? then[i] : otherwise[i]; return v; }
#define SELECTS(R, r, A, a) SELECT(R, r, A, a, less, <) SELECT(R, r, A, a, leq, <=) SELECT(R, r, A, a, grt, >) \
    SELECT(R, r, A, a, geq, >=) SELECT(R, r, A, a, eq, ==) SELECT(R, r, A, a, neq, !=)
SELECTS(float64, f32, float64, f32)
SELECTS(float64, f32, int64, i32)
SELECTS(int64, i32, float64, f32)
SELECTS(int64, i32, int64, i32)

LANES1(float64, v_exp_f32, std::exp(x))
LANES1(float64, v_log_f32, std::log(x))
LANES1(float64, v_sqrt_f32, std::sqrt(x))
LANES1(float64, v_tanh_f32, std::tanh(x))
LANES1(float64, v_sin_f32, std::sin(x))
LANES1(float64, v_cos_f32, std::cos(x))
LANES2(float64, v_div_f32, x / y)
LANES2(float64, v_pow_f32, std::pow(x, y))

#define REDUCTION(V, name, start, expression) \
    inline V name(const V &v) { auto total = v[0]; for (int i = 1; i < 64; i++) { auto x = total, y = v[i]; \
        total = (expression); } V r(start); r.lane[0] = total; return r; }
REDUCTION(float64, v_f32_reduce_add, NAN, x + y)
REDUCTION(float64, v_f32_reduce_mul, NAN, x * y)
REDUCTION(float64, v_f32_reduce_max, NAN, x > y ? x : y)
REDUCTION(float64, v_f32_reduce_min, NAN, x < y ? x : y)
REDUCTION(int64, v_i32_reduce_add, 77777, int32_t(uint32_t(x) + uint32_t(y)))
REDUCTION(int64, v_i32_reduce_max, 77777, x > y ? x : y)
REDUCTION(int64, v_i32_reduce_min, 77777, x < y ? x : y)

inline uint64 read_lane_id_4b_b() { uint64 r; for (int i = 0; i < 64; i++) r.lane[i] = i; return r; }
inline int64 convert_uint64_to_int64(const uint64 &a, int) { int64 r; for (int i = 0; i < 64; i++) r.lane[i] = a[i]; return r; }
inline float64 convert_int64_to_float64(const int64 &a, int) { float64 r; for (int i = 0; i < 64; i++) r.lane[i] = float(a[i]); return r; }
inline int64 convert_float64_to_int64(const float64 &a, int) {
    int64 r;
    for (int i = 0; i < 64; i++) {
        const float x = a[i];
        r.lane[i] = x != x ? 0 : x >= 2147483648.0f ? INT32_MAX : x <= -2147483648.0f ? INT32_MIN : int32_t(x);
    }
    return r;
}
#define WIDEN(T, V, N, name) \
    inline int##N convert_##name##_to_int##N(const V &a, int options) { \
        if (!(options & SW_LINEAR)) std::abort(); \
        int##N r; int64 *part = &r.v1; for (int i = 0; i < N; i++) part[i / 64].lane[i % 64] = a[i]; return r; } \
    inline V convert_int##N##_to_##name(const int##N &a, int options) { \
        if (!(options & SW_LINEAR)) std::abort(); \
        V r; const int64 *part = &a.v1; for (int i = 0; i < N; i++) r.lane[i] = narrow<T>(part[i / 64][i % 64]); return r; }
template <class T> T narrow(int32_t x) { /* conversions saturate */
    const int32_t low = T(-1) < T(0) ? -(1 << (8 * sizeof(T) - 1)) : 0;
    const int32_t high = low + (1 << (8 * sizeof(T))) - 1;
    return T(x < low ? low : x > high ? high : x);
}
WIDEN(uint8_t, uchar256, 256, uchar256)
WIDEN(int8_t, char256, 256, char256)
WIDEN(uint16_t, ushort128, 128, ushort128)
WIDEN(int16_t, short128, 128, short128)
