/* Serves the regions of a model to ONNX Runtime, as operators of the domain "tensmith".

   regions.h, which is generated, has the regions; their code and weights are linked beside this file. It is
   compiled for any processor of its architecture, so that it can refuse one that lacks what the regions need.
   Needs POSIX and Linux's /proc, and declares what it uses of ONNX Runtime's C API, which only ever grows:
   functions of its first version, and the operator of version 16 (ONNX Runtime 1.16), whose functions return
   a status. */
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define API_VERSION 16
enum { FAIL = 1, INVALID_ARGUMENT = 2 };

typedef struct Status Status;
typedef struct Value Value;
typedef struct Shape Shape;
typedef struct Domain Domain;
typedef struct Options Options;
typedef struct Info Info;
typedef struct Context Context;
typedef struct Operator Operator;

/* OrtApi: 102 functions in its first version. A status is 0 for success. */
typedef struct {
    Status *(*create_status)(int code, const char *message);
    void *to_domains[25];
    Status *(*create_domain)(const char *name, Domain **out);
    Status *(*add_operator)(Domain *, const Operator *);
    Status *(*add_domain)(Options *, Domain *);
    void *to_data[22];
    Status *(*data)(Value *, void **out);
    void *to_dimensions[9];
    Status *(*rank)(const Shape *, size_t *out);
    Status *(*dimensions)(const Shape *, int64_t *out, size_t rank);
    void *to_shape[2];
    Status *(*shape)(const Value *, Shape **out);
    void *to_attribute[21];
    Status *(*text_attribute)(const Info *, const char *name, char *out, size_t *size);
    void *to_input[2];
    Status *(*input)(const Context *, size_t index, const Value **out);
    Status *(*output)(Context *, size_t index, const int64_t *dimensions, size_t rank, Value **out);
    void *to_release_status[1];
    void (*release_status)(Status *);
    void *to_release_shape[5];
    void (*release_shape)(Shape *);
    void *to_release_domain[1];
    void (*release_domain)(Domain *);
} Api;
_Static_assert(sizeof(Api) == 102 * sizeof(void *), "a function of OrtApi is missing or one too many");

typedef struct {
    const Api *(*api)(uint32_t version);
    const char *(*version)(void);
} ApiBase;

/* OrtCustomOp of version 16. */
struct Operator {
    uint32_t version;
    void *(*create)(const Operator *, const Api *, const Info *);
    const char *(*name)(const Operator *);
    const char *(*provider)(const Operator *);
    int (*input_type)(const Operator *, size_t index);
    size_t (*inputs)(const Operator *);
    int (*output_type)(const Operator *, size_t index);
    size_t (*outputs)(const Operator *);
    void (*compute)(void *kernel, Context *);
    void (*destroy)(void *kernel);
    int (*input_characteristic)(const Operator *, size_t index);
    int (*output_characteristic)(const Operator *, size_t index);
    int (*input_memory)(const Operator *, size_t index);
    int (*least_inputs)(const Operator *);
    int (*inputs_alike)(const Operator *);
    int (*least_outputs)(const Operator *);
    int (*outputs_alike)(const Operator *);
    Status *(*create_checked)(const Operator *, const Api *, const Info *, void **kernel);
    Status *(*compute_checked)(void *kernel, Context *);
};

/* A tensor that a region takes or gives: its element type by ONNX's number, its sizes. */
typedef struct {
    int type;
    size_t rank;
    const int64_t *sizes;
} Tensor;

typedef struct {
    Operator op;
    const char *name;
    int (*run)(const void *weights, const void *const *inputs, void *const *outputs, void *arena);
    size_t arena_bytes, weights;
    size_t input_count, output_count;
    const Tensor *inputs, *outputs;
} Region;

/* A region in a session. Calls may come from several threads at once: each takes an arena that is free. */
enum { ARENAS = 64 };
typedef struct {
    const Api *api;
    const Region *region;
    char busy[ARENAS];
    char *arenas[ARENAS];
} Kernel;

extern const char tensmith_weights[];

/* Zeroed memory, on huge pages where the system offers them; 0 if there is none. */
static char *memory(size_t bytes)
{
    void *found = mmap(0, bytes + 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (found == MAP_FAILED)
        return 0;
    madvise(found, bytes + 1, 14 /* MADV_HUGEPAGE */);
    return found;
}

/* The number of a free arena, ARENAS if all are taken. */
static int take(Kernel *kernel)
{
    int n = 0;
    while (n < ARENAS && __atomic_exchange_n(&kernel->busy[n], 1, __ATOMIC_ACQUIRE))
        n++;
    return n;
}

/* Success if a tensor has the sizes that the region was compiled for. */
static Status *check_sizes(const Api *api, const Value *value, const Tensor *wanted)
{
    Shape *shape;
    size_t rank;
    int64_t sizes[wanted->rank + 1];
    Status *status = api->shape(value, &shape);
    if (status)
        return status;
    status = api->rank(shape, &rank);
    if (!status && rank == wanted->rank)
        status = api->dimensions(shape, sizes, rank);
    if (!status && (rank != wanted->rank || memcmp(sizes, wanted->sizes, rank * sizeof *sizes)))
        status = api->create_status(INVALID_ARGUMENT, "an input has other sizes than it was compiled for");
    api->release_shape(shape);
    return status;
}

static Status *compute(void *at, Context *context)
{
    Kernel *kernel = at;
    const Region *region = kernel->region;
    const Api *api = kernel->api;
    void *inputs[region->input_count + 1], *outputs[region->output_count + 1];
    Status *status;
    for (size_t n = 0; n < region->input_count; n++) {
        const Value *value;
        if ((status = api->input(context, n, &value)) || (status = check_sizes(api, value, &region->inputs[n]))
                || (status = api->data((Value *)value, &inputs[n])))
            return status;
    }
    for (size_t n = 0; n < region->output_count; n++) {
        const Tensor *tensor = &region->outputs[n];
        Value *value;
        if ((status = api->output(context, n, tensor->sizes, tensor->rank, &value))
                || (status = api->data(value, &outputs[n])))
            return status;
    }
    int n = take(kernel), kept = n < ARENAS;
    char *arena = kept ? kernel->arenas[n] : 0;
    if (!arena)
        arena = memory(region->arena_bytes);
    const char *weights = tensmith_weights + region->weights;
    int failed = !arena || region->run(weights, (const void *const *)inputs, outputs, arena);
    if (kept) {
        kernel->arenas[n] = arena;
        __atomic_store_n(&kernel->busy[n], 0, __ATOMIC_RELEASE);
    } else if (arena) {
        munmap(arena, region->arena_bytes + 1);
    }
    return failed ? api->create_status(FAIL, "not enough memory to run") : 0;
}

static void destroy(void *at)
{
    Kernel *kernel = at;
    for (int n = 0; n < ARENAS; n++)
        if (kernel->arenas[n])
            munmap(kernel->arenas[n], kernel->region->arena_bytes + 1);
    free(kernel);
}

static const char *name(const Operator *op) { return ((const Region *)op)->name; }
static const char *provider(const Operator *op) { (void)op; return 0; }
static size_t inputs(const Operator *op) { return ((const Region *)op)->input_count; }
static size_t outputs(const Operator *op) { return ((const Region *)op)->output_count; }
static int input_type(const Operator *op, size_t n) { return ((const Region *)op)->inputs[n].type; }
static int output_type(const Operator *op, size_t n) { return ((const Region *)op)->outputs[n].type; }
static int required(const Operator *op, size_t n) { (void)op; (void)n; return 0; }
static int variadic(const Operator *op) { (void)op; return 1; }

static Status *create(const Operator *, const Api *, const Info *, void **out);

#define OPERATOR { API_VERSION, 0, name, provider, input_type, inputs, output_type, outputs, 0, destroy, \
    required, required, required, variadic, variadic, variadic, variadic, create, compute }

#include "regions.h"

static Status *create(const Operator *op, const Api *api, const Info *info, void **out)
{
    char model[sizeof MODEL];
    size_t size = sizeof model;
    Status *status = api->text_attribute(info, "model", model, &size);
    if (status)
        api->release_status(status);
    if (status || strcmp(model, MODEL))
        return api->create_status(FAIL, "the model and its library were not compiled together; "
                "register the library that lies beside the model");
    Kernel *kernel = calloc(1, sizeof *kernel);
    if (!kernel)
        return api->create_status(FAIL, "not enough memory");
    kernel->api = api;
    kernel->region = (const Region *)op;
    *out = kernel;
    return 0;
}

/* Whether a line of /proc/cpuinfo has a word. */
static int has(const char *line, const char *end, const char *word)
{
    size_t length = strlen(word);
    for (const char *at = line; at + length <= end; at++)
        if (at[-1] == ' ' && !memcmp(at, word, length) && (at + length == end || at[length] == ' '))
            return 1;
    return 0;
}

/* Success if this processor has what the regions need, or if the system does not say what it has. Tile
   registers it must lend, too. */
static Status *check_processor(const Api *api)
{
    static const char *const needs[] = {NEEDS 0};
    char text[1 << 14];
    int file = open("/proc/cpuinfo", O_RDONLY);
    size_t filled = 0;
    for (ssize_t got; file >= 0 && (got = read(file, text + filled, sizeof text - 1 - filled)) > 0;)
        filled += (size_t)got;
    if (file >= 0)
        close(file);
    text[filled] = 0;
    char *line = strstr(text, "\nflags");
    line = line ? line : strstr(text, "\nFeatures");
    line = line ? strchr(line, ':') : 0;
    char *end = line ? strchr(line, '\n') : 0;
    for (int n = 0; end && needs[n]; n++)
        if (!has(line + 1, end, needs[n]))
            return api->create_status(FAIL, "the model is compiled for a CPU with " FEATURES
                    ", which this one has not");
    if (ASK_FOR_TILES)
        return api->create_status(FAIL, "the model is compiled for a CPU with " FEATURES
                ", whose tile registers the system does not let this process use");
    return 0;
}

/* Success if the weights are as they were written, by two sums (Fletcher, 1982). */
static Status *check_weights(const Api *api)
{
    const uint64_t *words = (const uint64_t *)tensmith_weights;
    uint64_t sum = 0, weighted = 0;
    for (uint64_t n = 0; n < WEIGHTS_BYTES / sizeof *words; n++) {
        sum += words[n];
        weighted += words[n] * (n + 1);
    }
    if (sum == WEIGHTS_SUM && weighted == WEIGHTS_WEIGHTED_SUM)
        return 0;
    return api->create_status(FAIL, "the weights were altered after they were written; compile them again");
}

/* What ONNX Runtime calls when the library is registered with the options of a session. */
__attribute__((visibility("default")))
Status *RegisterCustomOps(Options *options, const ApiBase *base)
{
    static Domain *shared;
    const Api *api = base->api(API_VERSION);
    Status *status;
    if (!api)
        return base->api(1)->create_status(FAIL, "the model needs ONNX Runtime 1.16 or newer");
    if ((status = check_processor(api)) || (status = check_weights(api)))
        return status;
    Domain *domain = __atomic_load_n(&shared, __ATOMIC_ACQUIRE), *none = 0;
    if (!domain) {
        if ((status = api->create_domain("tensmith", &domain)))
            return status;
        for (size_t n = 0; n < sizeof regions / sizeof *regions; n++)
            if ((status = api->add_operator(domain, &regions[n].op))) {
                api->release_domain(domain);
                return status;
            }
        if (!__atomic_compare_exchange_n(&shared, &none, domain, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
            api->release_domain(domain);
            domain = none;
        }
    }
    return api->add_domain(options, domain);
}
