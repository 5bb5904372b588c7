/* What a function of a library looks like to TVM: c_api.h of apache-tvm-ffi 0.1, dlpack.h of DLPack 1.
   Nothing of TVM is called, so that a library needs no more than the C library of the process it is in. */
#include <stdint.h>

typedef struct {
    int32_t kind;
    uint32_t zero;
    union { int64_t integer; double real; const struct Tensor *tensor; } value;
} Any;

struct Tensor {
    char *data;
    int32_t device_type, device_id;
    int32_t dimensions;
    struct { uint8_t code, bits; uint16_t lanes; } type;
    const int64_t *shape, *strides;
    uint64_t offset;
};

enum { INTEGER = 1, REAL = 3 };

#define EXPORTED __attribute__((visibility("default")))

static char *tensor_data(const Any *argument)
{
    return argument->value.tensor->data + argument->value.tensor->offset;
}
