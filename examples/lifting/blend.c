/* Two layers of an image program: "screen" below, then faded in by an opacity from 0 to 255. */
#include <stdint.h>

#define SCREEN(a, b) (255 - (255 - (a)) * (255 - (b)) / 255)

void blend(const uint8_t *base, const uint8_t *layer, uint8_t *out, int n, uint8_t opacity)
{
    for (int i = 0; i < n; i++) {
        int screened = SCREEN(base[i], layer[i]);
        out[i] = (screened * opacity + base[i] * (255 - opacity)) / 255;
    }
}
