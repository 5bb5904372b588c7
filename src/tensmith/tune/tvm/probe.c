/* __tvm_ffi_describe(text): fills an array of bytes with /proc/cpuinfo, and says how many there are. */
#include <fcntl.h>
#include <unistd.h>

EXPORTED int __tvm_ffi_describe(void *self, const Any *arguments, int32_t count, Any *result)
{
    int64_t room = arguments->value.tensor->shape[0], length = 0, got;
    int file = open("/proc/cpuinfo", O_RDONLY);
    while (file >= 0 && (got = read(file, tensor_data(arguments) + length, room - length)) > 0)
        length += got;
    if (file >= 0)
        close(file);
    result->kind = INTEGER;
    result->value.integer = length;
    return 0;
}
