/* The cheapest way through the states of a trellis: what dependent.py does in Python, to the bit. It adds and
   compares, and multiplies nothing that a compiler could round otherwise. */
#include <math.h>
#include <stdint.h>

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
