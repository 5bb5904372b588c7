/* __tvm_ffi_time(source, weights, constants, target bytes, scratch bytes, copies, microseconds, patience):
   the least processor time in seconds of a call of the kernel, measured for so many microseconds; what
   tensmith.tune.serve does for kernels of this machine. The kernel runs in a process of its own, since TVM's
   server does not outlive a crash: then the result is the signal's number, negative. */
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LINE 64
/* A batch of calls is long beside what reading the clock costs, and beside its steps. Batches grow until the
   clock sees them well: a first call, which touches new pages, says little. */
#define BATCH_SECONDS 1e-3

static double clock_seconds(clockid_t clock)
{
    struct timespec time;
    clock_gettime(clock, &time);
    return time.tv_sec + 1e-9 * time.tv_nsec;
}

/* Zeroed memory that begins a page, on huge pages where the system offers them. */
static char *fresh_memory(long bytes)
{
    char *found = mmap(0, bytes + 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (found == MAP_FAILED)
        _exit(1);
    madvise(found, bytes + 1, MADV_HUGEPAGE);
    return found;
}

static long tensor_bytes(const Any *argument)
{
    const struct Tensor *tensor = argument->value.tensor;
    long bytes = tensor->type.bits / 8;
    for (int i = 0; i < tensor->dimensions; i++)
        bytes *= tensor->shape[i];
    return bytes;
}

static double least_seconds(const Any *arguments)
{
    long weight_bytes = tensor_bytes(arguments + 1), step = (weight_bytes + LINE - 1) / LINE * LINE;
    long copies = arguments[5].value.integer;
    char *source = fresh_memory(tensor_bytes(arguments)), *weights = fresh_memory(copies * step);
    char *target = fresh_memory(arguments[3].value.integer);
    char *scratch = fresh_memory(arguments[4].value.integer);
    const float *constants = (const float *)tensor_data(arguments + 2);
    memcpy(source, tensor_data(arguments), tensor_bytes(arguments));
    for (long copy = 0; copy < copies; copy++)
        memcpy(weights + copy * step, tensor_data(arguments + 1), weight_bytes);
    double end = clock_seconds(CLOCK_MONOTONIC) + 1e-6 * arguments[6].value.integer, least = INFINITY;
    for (long first = 0, count = 1; least == INFINITY || clock_seconds(CLOCK_MONOTONIC) < end;) {
        double start = clock_seconds(CLOCK_THREAD_CPUTIME_ID);
        repeat(first, count, copies, step, source, weights, constants, target, scratch);
        double took = clock_seconds(CLOCK_THREAD_CPUTIME_ID) - start;
        first += count;
        if (least == INFINITY && took < BATCH_SECONDS)
            count *= 2;
        else if (took < least * count)
            least = took / count;
    }
    return least;
}

EXPORTED int __tvm_ffi_time(void *self, const Any *arguments, int32_t count, Any *result)
{
    int status = SIGABRT;
    double *seconds = mmap(0, sizeof *seconds, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t child = seconds == MAP_FAILED ? -1 : fork();
    if (child == 0) {
        signal(SIGALRM, SIG_DFL);
        alarm(arguments[7].value.integer);
        *seconds = least_seconds(arguments);
        _exit(0);
    }
    if (child > 0 && waitpid(child, &status, 0) != child)
        status = SIGABRT;
    result->kind = REAL;
    result->value.real = status ? -(double)(WIFSIGNALED(status) ? WTERMSIG(status) : SIGABRT) : *seconds;
    if (seconds != MAP_FAILED)
        munmap(seconds, sizeof *seconds);
    return 0;
}
