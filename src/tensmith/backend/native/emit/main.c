/* Runs the model once, as an example of how to call it:

       main WEIGHTS INPUT... OUTPUT...

   with the path of weights.bin, then a file of raw numbers for each input and each output of model.json, in
   its order. Needs POSIX and nothing else; the first line of model.c says how to compile. */
#include <fcntl.h>
#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>

#include "model.h"

/* Zeroed memory that begins a page; a byte more than asked for, since none at all cannot be had. */
static char *memory(size_t bytes)
{
    void *found = mmap(0, bytes + 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return found == MAP_FAILED ? 0 : found;
}

/* Fills memory from a file (write 0), or a file from memory; 0 if all bytes were moved. */
static int move(const char *path, char *at, size_t bytes, int write_)
{
    int file = write_ ? open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666) : open(path, O_RDONLY);
    if (file < 0 || !at)
        return 1;
    while (bytes) {
        ssize_t moved = write_ ? write(file, at, bytes) : read(file, at, bytes);
        if (moved <= 0)
            break;
        at += moved;
        bytes -= (size_t)moved;
    }
    return close(file) || bytes;
}

int main(int count, char **words)
{
    static const size_t input_bytes[] = TENSMITH_INPUT_BYTES, output_bytes[] = TENSMITH_OUTPUT_BYTES;
    const void *inputs[TENSMITH_INPUTS + 1];
    void *outputs[TENSMITH_OUTPUTS + 1];
    char **files = words + 2;
    if (count != 2 + TENSMITH_INPUTS + TENSMITH_OUTPUTS)
        return 2;
    char *weights = memory(TENSMITH_WEIGHTS_BYTES), *arena = memory(TENSMITH_ARENA_BYTES);
    int failed = !arena || move(words[1], weights, TENSMITH_WEIGHTS_BYTES, 0);
    for (int i = 0; i < TENSMITH_INPUTS; i++) {
        char *at = memory(input_bytes[i]);
        failed |= move(*files++, at, input_bytes[i], 0);
        inputs[i] = at;
    }
    for (int i = 0; i < TENSMITH_OUTPUTS; i++) {
        outputs[i] = memory(output_bytes[i]);
        failed |= !outputs[i];
    }
    if (failed || tensmith_run(weights, inputs, outputs, arena))
        return 1;
    for (int i = 0; i < TENSMITH_OUTPUTS; i++)
        failed |= move(*files++, outputs[i], output_bytes[i], 1);
    return failed;
}
