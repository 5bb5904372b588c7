/* A call whose meaning the language leaves undefined is left at once, through the hooks of -fsanitize: linked
   without libubsan, these are its handlers. */
#ifndef GUARDS_H
#define GUARDS_H

#include <setjmp.h>

#ifdef __cplusplus
extern "C" {
#endif

static jmp_buf leave_call;

#define REPORT(what) \
    void __ubsan_handle_##what(void) { longjmp(leave_call, 1); }
REPORT(add_overflow)
REPORT(sub_overflow)
REPORT(mul_overflow)
REPORT(negate_overflow)
REPORT(divrem_overflow)
REPORT(shift_out_of_bounds)
REPORT(out_of_bounds)
REPORT(float_cast_overflow)
REPORT(vla_bound_not_positive)
#undef REPORT

/* From here on, results too small for a normal float are 0: what some libraries do for speed. */
#ifdef __SSE__
#include <xmmintrin.h>
void flush_subnormals(int on) { _mm_setcsr(on ? _mm_getcsr() | 0x8040 : _mm_getcsr() & ~0x8040u); }
#else
void flush_subnormals(int on) { (void)on; }
#endif

#ifdef __cplusplus
}
#endif

#endif
