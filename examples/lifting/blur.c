/* A 3x3 box blur of an 8-bit grey image, as image libraries of the nineties wrote it: the border is left out. */
#include <stdint.h>

void blur(const uint8_t *in, uint8_t *out, int height, int width)
{
    int y, x, dy, dx;
    for (y = 1; y < height - 1; y++) {
        for (x = 1; x < width - 1; x++) {
            int sum = 0;
            for (dy = -1; dy <= 1; dy++)
                for (dx = -1; dx <= 1; dx++)
                    sum += in[(y + dy) * width + x + dx];
            out[y * width + x] = sum / 9;
        }
    }
}
