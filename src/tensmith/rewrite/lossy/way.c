/* Ways through the states of a trellis: what dependent.py does in Python.

   cheapest_way does so to the bit: it adds and compares, and multiplies nothing that a compiler could round
   otherwise. nearest_numbers is for training, where nothing hangs on the last bit. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

/* By state, and whether it was come to from the lower one of two: that state, and the way taken there. */
static const uint8_t back[4][2][2] = {
    {{1, 1}, {0, 0}}, {{3, 3}, {2, 2}}, {{1, 0}, {0, 1}}, {{3, 2}, {2, 3}},
};

/* How each of `rows` rows leads on from a state, into `taken`; the state at the end. costs: [4][rows]. */
__attribute__((visibility("default")))
int32_t cheapest_way(const double *costs, int64_t rows, int32_t state, uint8_t *taken)
{
    double at[4] = {INFINITY, INFINITY, INFINITY, INFINITY};
    at[state] = 0;
    for (int64_t row = 0; row < rows; row++) {
        double even = costs[row], uneven = costs[rows + row];
        double even_1 = costs[2 * rows + row], uneven_1 = costs[3 * rows + row];
        double lower[4] = {at[0] + even, at[2] + even_1, at[0] + uneven, at[2] + uneven_1};
        double upper[4] = {at[1] + uneven, at[3] + uneven_1, at[1] + even, at[3] + even_1};
        taken[row] = 0;
        for (int to = 0; to < 4; to++) {
            int from_lower = lower[to] <= upper[to];
            taken[row] |= from_lower << to;
            at[to] = from_lower ? lower[to] : upper[to];
        }
    }
    int32_t last = 0;
    for (int32_t each = 1; each < 4; each++)
        if (at[each] < at[last])
            last = each;
    int32_t here = last;
    for (int64_t row = rows - 1; row >= 0; row--) {
        const uint8_t *came = back[here][taken[row] >> here & 1];
        here = came[0];
        taken[row] = came[1];
    }
    return last;
}

/* By way to lead on: its first number, or 0; others are four apart (see dependent.py). Of ways whose first is not
   0, the third holds 0, too. */
static inline float member(float size, float first, float top)
{
    float most = floorf((top - first) / 4), steps = floorf((size - first) / 4 + 0.5f);
    steps = steps < most ? steps : most;
    return first + 4 * (steps > 0 ? steps : 0);
}

static inline float error(float size, float first, float top)
{
    float off = size - member(size, first, top);
    return off * off;
}

/* Of values [rows][columns] the nearest numbers within +-top that a trellis makes, column by column, and whether
   each is of the quantizer of odd ones. shares [rows]: what a squared error counts in a row. still: what is to
   stay 0, where it is 1. 1 where there is no memory. */
__attribute__((visibility("default")))
int32_t nearest_numbers(const float *values, const float *shares, const uint8_t *still, int64_t rows,
                        int64_t columns, float top, float *numbers, uint8_t *odd)
{
    uint8_t *taken = malloc((size_t)((rows + 1) * columns));
    float *at = malloc((size_t)(4 * columns) * sizeof *at);
    if (taken == NULL || at == NULL) {
        free(taken);
        free(at);
        return 1;
    }
    float *restrict at_0 = at, *restrict at_1 = at + columns;
    float *restrict at_2 = at + 2 * columns, *restrict at_3 = at + 3 * columns;
    for (int64_t column = 0; column < columns; column++) {
        at_0[column] = 0;
        at_1[column] = at_2[column] = at_3[column] = INFINITY;
    }
    for (int64_t row = 0; row < rows; row++) {
        const float *restrict own = values + row * columns;
        float share = shares[row];
        const uint8_t *restrict zero = still + row * columns;
        uint8_t *restrict came = taken + row * columns;
        for (int64_t column = 0; column < columns; column++) {
            float size = fabsf(own[column]), none = zero[column] ? INFINITY : 0;
            float even = share * error(size, 0, top), uneven = share * error(size, 2, top) + none;
            float three = error(size, 3, top), nothing = size * size;
            float even_1 = share * (three < nothing ? three : nothing);
            float uneven_1 = share * error(size, 1, top) + none;
            even = zero[column] ? 0 : even;
            even_1 = zero[column] ? 0 : even_1;
            float a = at_0[column] + even, b = at_0[column] + uneven;
            float c = at_2[column] + even_1, d = at_2[column] + uneven_1;
            float e = at_1[column] + uneven, f = at_1[column] + even;
            float g = at_3[column] + uneven_1, h = at_3[column] + even_1;
            came[column] = (uint8_t)((a <= e) | (c <= g) << 1 | (b <= f) << 2 | (d <= h) << 3);
            at_0[column] = a <= e ? a : e;
            at_1[column] = c <= g ? c : g;
            at_2[column] = b <= f ? b : f;
            at_3[column] = d <= h ? d : h;
        }
    }
    uint8_t *here = taken + rows * columns;
    for (int64_t column = 0; column < columns; column++) {
        here[column] = 0;
        for (uint8_t each = 1; each < 4; each++)
            if (at[each * columns + column] < at[here[column] * columns + column])
                here[column] = each;
    }
    for (int64_t row = rows - 1; row >= 0; row--) {
        const float *restrict own = values + row * columns;
        const uint8_t *restrict zero = still + row * columns, *restrict came = taken + row * columns;
        float *restrict found = numbers + row * columns;
        uint8_t *restrict uneven = odd + row * columns;
        for (int64_t column = 0; column < columns; column++) {
            const uint8_t *led = back[here[column]][came[column] >> here[column] & 1];
            here[column] = led[0];
            uneven[column] = led[1];
        }
        for (int64_t column = 0; column < columns; column++) {
            float size = fabsf(own[column]);
            uint8_t way = uneven[column];
            float number = member(size, way == 0 ? 0 : way == 1 ? 2 : way == 2 ? 3 : 1, top);
            number = way == 2 && size <= fabsf(size - number) ? 0 : number;
            found[column] = copysignf(zero[column] ? 0 : number, own[column]);
            uneven[column] = way >= 2;
        }
    }
    free(taken);
    free(at);
    return 0;
}
