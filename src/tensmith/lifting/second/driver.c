/* Calls functions on values that come over a pipe. Each has a `call`, written beside it, that takes its
   arguments from slots. What the language leaves undefined leaves the call: through the hooks of
   -fsanitize=undefined, which are defined here in place of its library, and through AddressSanitizer's. */
#include <fenv.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "call.h"

enum { TS_DONE, TS_ASSUMED, TS_DIVIDED, TS_WRONG };

static jmp_buf ts_leave;

/* Excluded by what every lift states (no overflow, shifts and conversions in range), by requirements on
   divisors, or by nothing: then the requirements are too weak. */
void __ubsan_handle_divrem_overflow(void *place, void *dividend, void *divisor) {
    (void)place, (void)dividend;
    longjmp(ts_leave, divisor == NULL ? TS_DIVIDED : TS_ASSUMED); /* the values themselves, not where they are */
}
#define TS_HOOK(what, why) void __ubsan_handle_##what(void) { longjmp(ts_leave, why); }
TS_HOOK(add_overflow, TS_ASSUMED)
TS_HOOK(sub_overflow, TS_ASSUMED)
TS_HOOK(mul_overflow, TS_ASSUMED)
TS_HOOK(negate_overflow, TS_ASSUMED)
TS_HOOK(shift_out_of_bounds, TS_ASSUMED)
TS_HOOK(float_cast_overflow, TS_ASSUMED)
TS_HOOK(out_of_bounds, TS_WRONG)
TS_HOOK(vla_bound_not_positive, TS_WRONG)
TS_HOOK(type_mismatch_v1, TS_WRONG)
TS_HOOK(missing_return, TS_WRONG)
TS_HOOK(builtin_unreachable, TS_WRONG)

/* libstdc++'s std::__glibcxx_assert_fail: every lift states that the bounds of clamp are in order. */
void _ZSt21__glibcxx_assert_failPKciS0_S0_(const char *file, int line, const char *function,
                                            const char *condition) {
    (void)file, (void)line, (void)condition;
    longjmp(ts_leave, strstr(function, " std::clamp(") != NULL ? TS_ASSUMED : TS_WRONG);
}

/* All of a piece of memory, read from file 0 or written to file 1. */
static void ts_move(int file, void *data, size_t size) {
    char *at = (char *)data;
    while (size > 0) {
        ssize_t done = file == 0 ? read(0, at, size) : write(1, at, size);
        if (done <= 0)
            _exit(file);
        at += done;
        size -= (size_t)done;
    }
}

void __asan_on_error(void) {
    int32_t status = TS_WRONG;
    ts_move(1, &status, sizeof status);
    _exit(0);
}

/* Rows of unequal length: a lift states that there are none. */
void ts_uneven(void) { longjmp(ts_leave, TS_ASSUMED); }

/* Pointers to the rows of a matrix. */
void *ts_rows(const struct ts_slot *slot, size_t element) {
    char **rows = malloc((size_t)slot->shape[0] * sizeof(char *));
    for (int64_t i = 0; i < slot->shape[0]; i++)
        rows[i] = (char *)slot->data + (size_t)i * (size_t)slot->shape[1] * element;
    return rows;
}

#ifdef __linux__
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#define TS_ALLOW(name) {0x15, 0, 1, __NR_##name}, {0x06, 0, 0, SECCOMP_RET_ALLOW}
/* From here on only computing: cell.py has set a filter that allowed loading. */
static void ts_confine(void) {
    static struct sock_filter code[] = {
        {0x20, 0, 0, 0}, TS_ALLOW(read), TS_ALLOW(write), TS_ALLOW(exit_group), TS_ALLOW(brk), TS_ALLOW(mmap),
        TS_ALLOW(munmap), TS_ALLOW(mremap), TS_ALLOW(mprotect), TS_ALLOW(madvise), TS_ALLOW(futex),
        TS_ALLOW(rt_sigprocmask), TS_ALLOW(sigaltstack), TS_ALLOW(getpid), TS_ALLOW(gettid),
        {0x06, 0, 0, SECCOMP_RET_ERRNO | 1},
    };
    struct sock_fprog program = {(unsigned short)(sizeof code / sizeof *code), code};
    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0);
}
#else
static void ts_confine(void) {}
#endif

/* That it has started: TS_DONE. Then, one request: which function, how many slots, how floats are rounded, the slots, the bytes of the result. One answer: the status,
   and where it is TS_DONE each slot's shape, bytes and data, the result last. */
extern const ts_call ts_calls[];

int main(void) {
    int32_t started = TS_DONE;
    ts_move(1, &started, sizeof started);
    ts_confine();
    for (;;) {
        int32_t head[3], status;
        ts_move(0, head, sizeof head);
        struct ts_slot *slots = (struct ts_slot *)calloc((size_t)head[1] + 1, sizeof *slots);
        char **owned = (char **)calloc((size_t)head[1] + 1, sizeof *owned);
        for (int32_t i = 0; i <= head[1]; i++) {
            ts_move(0, &slots[i].same, sizeof slots[i].same);
            ts_move(0, slots[i].shape, sizeof slots[i].shape);
            ts_move(0, &slots[i].bytes, sizeof slots[i].bytes);
            if (slots[i].same >= 0) {
                slots[i].data = slots[slots[i].same].data;
                continue;
            }
            slots[i].data = owned[i] = (char *)malloc((size_t)slots[i].bytes);
            if (i < head[1])
                ts_move(0, slots[i].data, (size_t)slots[i].bytes);
            else
                memset(slots[i].data, 0, (size_t)slots[i].bytes);
        }
        status = setjmp(ts_leave);
        if (status == 0) {
            if (head[2] != 0)
                fesetround(head[2] > 0 ? FE_UPWARD : FE_DOWNWARD);
            ts_calls[head[0]](slots, &slots[head[1]]);
        }
        fesetround(FE_TONEAREST);
        ts_move(1, &status, sizeof status);
        for (int32_t i = 0; status == 0 && i <= head[1]; i++) {
            ts_move(1, slots[i].shape, sizeof slots[i].shape);
            ts_move(1, &slots[i].bytes, sizeof slots[i].bytes);
            ts_move(1, slots[i].data, (size_t)slots[i].bytes);
        }
        for (int32_t i = 0; i <= head[1]; i++) {
            if (slots[i].data != owned[i] && slots[i].same < 0)
                free(slots[i].data);
            free(owned[i]);
        }
        free(slots);
        free(owned);
    }
}

