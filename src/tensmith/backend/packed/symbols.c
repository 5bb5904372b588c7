/* Symbols of packed model files, written and read: what rans.py, frequency.py, scaled.py and predicted.py do in
   NumPy, to the bit.

   Nothing here trusts a stream: its words are counted before they are read, symbols come from a search that
   ends inside its table, and a state stays below 2^32 whatever it began with. Everything else (sizes, levels,
   weights) is checked by the caller, who owns all memory. No product of floats is added to anything, so that
   a compiler can round none of them differently. */
#pragma GCC optimize("O3")
#include <stddef.h>
#include <stdint.h>

#define EXPORTED __attribute__((visibility("default")))
#define ALWAYS static inline __attribute__((always_inline))

enum {
    PRECISION = 15, TOTAL = 1 << PRECISION, LOW = 1 << 16, WORD = 16, NODE = 16,
    LEVELS = 53, MEANS = 19, CONTEXTS = LEVELS * MEANS, MIDDLE = 9,
    NEAR = 8, MOST_TAPS = 64, MOST_SYMBOLS = 2048, BLOCK = 1024,
};

/* A symbol stream: all its words, how many were read, the state of each lane, and whose turn it is. */
typedef struct {
    const uint16_t *words;
    int64_t count, position;
    uint32_t *states;
    int64_t lanes, lane;
} Stream;

/* The distributions of a tensor, a row a context. Row: the least slot of every symbol, less 1, in nodes of 16
   that are filled up with the last slot; before them, where there are several, the first of each node. */
typedef struct {
    int32_t low, alphabet;
    int32_t power;           /* of the density: half the degrees of freedom, rounded up */
    const float *squares;    /* [LEVELS] */
    const float *factors;    /* [quantizers][alphabet] */
    const int32_t *shifts;   /* [CONTEXTS] */
    int16_t *rows;           /* [quantizers][CONTEXTS][row] */
    uint8_t *known;          /* [quantizers][CONTEXTS]: whether the row is there */
    int64_t row, first;      /* int16 of a row, and of it before the nodes */
} Shape;

typedef int16_t Node __attribute__((vector_size(2 * NODE), aligned(2), may_alias));

/* How many of a node's entries lie below a slot. */
ALWAYS int below(const int16_t *node, int slot)
{
#ifdef __AVX2__
    typedef char Bytes __attribute__((vector_size(2 * NODE)));
    Node less = *(const Node *)node < (int16_t)slot;
    return __builtin_popcount((unsigned)__builtin_ia32_pmovmskb256((Bytes)less)) >> 1;
#else
    int count = 0;
    for (int i = 0; i < NODE; i++) count += node[i] < slot;
    return count;
#endif
}

/* Shares of 2^15 from weights of at most 2^20: as frequency.normalise. */
static void normalise(const int32_t *weights, int32_t *shares, int n)
{
    uint32_t sum = 0, rare = 0, spent = 0;
    for (int k = 0; k < n; k++) sum += (uint32_t)weights[k];
    uint32_t total = sum ? sum : 1;
    int32_t few = (int32_t)((total - 1) >> PRECISION);
    for (int k = 0; k < n; k++) rare += weights[k] <= few;
    uint64_t share = ((uint64_t)(TOTAL - rare) << 32) / total;
    uint32_t factor = share > UINT32_MAX ? UINT32_MAX : (uint32_t)share;
    for (int k = 0; k < n; k++) {
        uint32_t part = (uint32_t)((uint64_t)(uint32_t)weights[k] * factor >> 32);
        shares[k] = part ? (int32_t)part : 1;
        spent += part ? part : 1;
    }
    int best = 0;
    for (int k = 0; k < n; k++) best = shares[k] > shares[best] ? k : best;
    shares[best] += TOTAL - (int32_t)spent;
}

/* The row of shares that sum to 2^15. */
static void lay(const Shape *t, int context, const int32_t *shares)
{
    int16_t *row = t->rows + context * t->row, *nodes = row + t->first;
    int n = t->alphabet;
    int32_t at = -1;
    for (int k = 0; k < n; k++) {
        nodes[k] = (int16_t)at;
        at += shares[k];
    }
    for (int64_t k = n; k < t->row - t->first; k++) nodes[k] = TOTAL - 1;
    for (int64_t j = 0; j < t->first; j++) row[j] = NODE * j < n ? nodes[NODE * j] : TOTAL - 1;
    t->known[context] = 1;
}

/* The row of a context: as frequency.student. */
static void build(const Shape *t, int context)
{
    float ratios[MOST_SYMBOLS], density[MOST_SYMBOLS];
    int32_t weights[MOST_SYMBOLS], shares[MOST_SYMBOLS];
    int n = t->alphabet, low = t->low, shift = t->shifts[context % CONTEXTS];
    float squared = t->squares[context % CONTEXTS / MEANS];
    const float *factors = t->factors + context / CONTEXTS * n;
    for (int k = 0; k < n; k++) {
        float away = (float)((low + k) * 256 - shift);
        density[k] = ratios[k] = 1.0f / (1.0f + away * away / squared);
    }
    for (int i = 1; i < t->power; i++)
        for (int k = 0; k < n; k++) density[k] *= ratios[k];
    for (int k = 0; k < n; k++) weights[k] = (int32_t)(density[k] * factors[k]);
    normalise(weights, shares, n);
    lay(t, context, shares);
}

/* The symbols of n lanes in turn, plus `low`; the number of words read, -1 where they end. `careful`: where
   there may be fewer than n. `wide`: where a row has more than one node. */
ALWAYS int64_t turn(const uint16_t *words, int64_t left, uint32_t *states, const Shape *t, const uint16_t *contexts,
        int64_t n, int16_t *out, const int wide, const int careful)
{
    int64_t at = 0;
    for (int64_t i = 0; i < n; i++) {
        const int16_t *row = t->rows + contexts[i] * t->row;
        uint32_t state = states[i];
        int slot = state & (TOTAL - 1), symbol = 0;
        if (wide) {
            int node = -1;
            for (int64_t j = 0; j < t->first; j += NODE) node += below(row + j, slot);
            row += t->first;
            symbol = NODE * node;
        }
        symbol += below(row + symbol, slot) - 1;
        int start = row[symbol] + 1;
        state = (uint32_t)(row[symbol + 1] + 1 - start) * (state >> PRECISION) + (uint32_t)(slot - start);
        uint32_t hungry = state < LOW;  /* no branch: a processor could not foretell it */
        if (careful && hungry && at == left) return -1;
        states[i] = state << WORD * hungry | (careful && !hungry ? 0 : words[at] & -hungry);
        at += hungry;
        out[i] = (int16_t)(symbol + t->low);
    }
    return at;
}

/* n symbols; 1 where words end. */
static int take(Stream *s, const Shape *t, const uint16_t *contexts, int64_t n, int16_t *out)
{
    while (n) {
        int64_t run = s->lanes - s->lane < n ? s->lanes - s->lane : n, left = s->count - s->position;
        const uint16_t *words = s->words + s->position;
        uint32_t *states = s->states + s->lane;
        int64_t read = left < run ? turn(words, left, states, t, contexts, run, out, t->first > 0, 1)
            : t->first ? turn(words, left, states, t, contexts, run, out, 1, 0)
                       : turn(words, left, states, t, contexts, run, out, 0, 0);
        if (read < 0) return 1;
        s->position += read;
        s->lane = s->lane + run == s->lanes ? 0 : s->lane + run;
        contexts += run, out += run, n -= run;
    }
    return 0;
}

/* `count` symbols that all have the same distribution, by its weights [alphabet] of at most 2^20. */
EXPORTED int packed_alike(Stream *s, const Shape *t, const int32_t *weights, int64_t count, int16_t *out)
{
    static const uint16_t first[BLOCK];
    int32_t shares[MOST_SYMBOLS];
    normalise(weights, shares, t->alphabet);
    lay(t, 0, shares);
    s->lane = 0;
    for (int64_t i = 0; i < count; i += BLOCK)
        if (take(s, t, first, count - i < BLOCK ? count - i : BLOCK, out + i)) return 1;
    return 0;
}

static int clipped(int x, int least, int most) { return x < least ? least : x > most ? most : x; }

/* n symbols of these contexts, whose rows are built where they are not there; 1 where words end. */
static int take_in(Stream *s, const Shape *t, const uint16_t *contexts, int n, int16_t *out)
{
    for (int i = 0; i < n; i++)
        if (!t->known[contexts[i]]) build(t, contexts[i]);
    return take(s, t, contexts, n, out);
}

/* n symbols of a row that a trellis made: as trellis.py and scaled.read_rows. The quantizer of each is that of
   its state, which follows. */
static int take_row(Stream *s, const Shape *t, uint16_t *contexts, uint8_t *states, int n, int16_t *out)
{
    for (int i = 0; i < n; i++) contexts[i] = (uint16_t)(contexts[i] + (states[i] >> 1) * CONTEXTS);
    if (take_in(s, t, contexts, n, out)) return 1;
    for (int i = 0; i < n; i++) {
        int size = out[i] < 0 ? -out[i] : out[i], odd = states[i] >> 1, parity = (size + odd) >> 1;
        states[i] = (uint8_t)(((parity ^ states[i]) & 1) << 1 | odd);
    }
    return 0;
}

/* Symbols [rows, columns, inner] whose level, counted from the lowest, is `base` and the row's and column's.
   states [columns, inner]: all 0, where a trellis made them. */
EXPORTED int packed_grid(Stream *s, const Shape *t, const int32_t *rows, int64_t row_count, const int32_t *columns,
        int64_t column_count, int32_t base, int64_t inner, uint8_t *states, int16_t *out)
{
    uint16_t levels[BLOCK], contexts[BLOCK];
    s->lane = 0;
    for (int64_t o = 0; o < row_count; o++) {
        uint8_t *own = states;
        if (states) s->lane = 0;
        for (int64_t begin = 0; begin < column_count; begin += BLOCK) {
            int n = column_count - begin < BLOCK ? (int)(column_count - begin) : BLOCK, filled = 0;
            for (int i = 0; i < n; i++)
                levels[i] = (uint16_t)(clipped(rows[o] + columns[begin + i] + base, 0, LEVELS - 1) * MEANS + MIDDLE);
            if (inner == 1) {
                if (own ? take_row(s, t, levels, own, n, out) : take_in(s, t, levels, n, out)) return 1;
                out += n, own += own ? n : 0;
                continue;
            }
            for (int i = 0; i < n; i++)
                for (int64_t r = 0; r < inner; r++) {
                    contexts[filled++] = levels[i];
                    if (filled < BLOCK && (i < n - 1 || r < inner - 1)) continue;
                    if (own ? take_row(s, t, contexts, own, filled, out) : take_in(s, t, contexts, filled, out))
                        return 1;
                    out += filled, own += own ? filled : 0, filled = 0;
                }
        }
    }
    return 0;
}

/* What predicted.py knows of a tensor's kernels. */
typedef struct {
    int64_t count;             /* kernels */
    int32_t taps, quarters[3]; /* taps; the fractions of a float32 where its quarter octaves begin */
    int32_t most_rest, most_added;
    const float *inverse;      /* [LEVELS]: 1 over a spread */
    const float *shares;       /* [taps]: 1 over the number of taps that a sum of rests stands for */
    const int32_t *factors;    /* [taps]: of rests */
    const int32_t *turns;      /* [taps]: from four times an exponent to a level, counted from the lowest */
    const int32_t *near;       /* [taps][NEAR]: earlier taps */
    const int32_t *weights;    /* [taps][NEAR] */
    int32_t *rests;            /* [count] */
    int16_t *known;            /* [taps][count] */
    int64_t run;               /* kernels of a row, where a trellis made them, else 0 */
    uint8_t *states;           /* [run] */
} Kernels;

/* Means and contexts of kernels begin .. begin + n - 1 at a tap. */
static void foretell(const Kernels *k, int tap, int64_t begin, int n, int32_t *restrict means,
        uint16_t *restrict contexts)
{
    const int32_t *restrict rests = k->rests + begin;
    const float *inverse = k->inverse;
    float share = k->shares[tap];
    int32_t first = k->quarters[0], second = k->quarters[1], third = k->quarters[2];
    int32_t turn = k->turns[tap];
    for (int i = 0; i < n; i++) means[i] = 0;
    for (int j = 0; j < NEAR && j < tap; j++) {
        const int16_t *restrict known = k->known + k->near[NEAR * tap + j] * k->count + begin;
        int32_t weight = k->weights[NEAR * tap + j];
        for (int i = 0; i < n; i++) means[i] += weight * known[i];
    }
    for (int i = 0; i < n; i++) {
        union { float value; int32_t bits; } spread = {(float)rests[i] * share};
        int32_t fraction = spread.bits & 0x7fffff;
        int32_t level = 4 * (spread.bits >> 23) + (fraction >= first) + (fraction >= second) + (fraction >= third);
        level += turn;
        level = level < 0 ? 0 : level;
        level = level > LEVELS - 1 ? LEVELS - 1 : level;
        float parts = (float)means[i] * inverse[level];
        parts = parts < -(float)MIDDLE ? -(float)MIDDLE : parts;
        parts = parts > (float)MIDDLE ? (float)MIDDLE : parts;
        contexts[i] = (uint16_t)(level * MEANS + (int32_t)(parts + (MIDDLE + 0.5f)));
    }
}

/* Takes in the values of kernels begin .. begin + n - 1 at a tap. */
static void learn(const Kernels *k, int tap, int64_t begin, int n, const int32_t *restrict means)
{
    int32_t *restrict rests = k->rests + begin;
    const int16_t *restrict known = k->known + tap * k->count + begin;
    uint32_t factor = (uint32_t)k->factors[tap], most = (uint32_t)k->most_rest, added = (uint32_t)k->most_added;
    for (int i = 0; i < n; i++) {
        int32_t apart = 16 * known[i] - means[i];
        uint32_t rest = (uint32_t)(apart < 0 ? -apart : apart);
        rest = (rest < most ? rest : most) * factor >> 6;
        rests[i] += (int32_t)(rest < added ? rest : added);
    }
}

/* The symbols of all kernels, tap after tap, into out [count, taps]. */
EXPORTED int packed_kernels(Stream *s, const Shape *t, const Kernels *k, int16_t *out)
{
    int32_t means[BLOCK];
    uint16_t contexts[BLOCK];
    for (int tap = 0; tap < k->taps; tap++) {
        int64_t run = k->run ? k->run : k->count;
        for (int64_t i = 0; i < k->run; i++) k->states[i] = 0;
        for (int64_t row = 0; row < k->count; row += run) {
            s->lane = 0;
            for (int64_t at = 0; at < run; at += BLOCK) {
                int64_t begin = row + at;
                int n = run - at < BLOCK ? (int)(run - at) : BLOCK;
                int16_t *out = k->known + tap * k->count + begin;
                foretell(k, tap, begin, n, means, contexts);
                if (k->run ? take_row(s, t, contexts, k->states + at, n, out) : take_in(s, t, contexts, n, out))
                    return 1;
                learn(k, tap, begin, n, means);
            }
        }
    }
    for (int64_t i = 0; i < k->count; i++)
        for (int tap = 0; tap < k->taps; tap++) out[i * k->taps + tap] = k->known[tap * k->count + i];
    return 0;
}

/* Writes n symbols, the last one first, each by the row of its context in starts [contexts][alphabet + 1]; of
   words [n], those from the returned place on are the stream's. Symbol i belongs to lane i % lanes. */
EXPORTED int64_t packed_words(const uint16_t *symbols, const uint16_t *contexts, const uint16_t *starts,
        int32_t alphabet, int64_t n, uint32_t *states, int64_t lanes, uint16_t *words)
{
    int64_t left = n, lane = n ? (n - 1) % lanes : 0;
    for (int64_t i = n - 1; i >= 0; i--) {
        const uint16_t *entry = starts + (int64_t)contexts[i] * (alphabet + 1) + symbols[i];
        uint32_t start = entry[0], share = entry[1] - start, state = states[lane];
        if (state >> (2 * WORD - PRECISION) >= share) {
            words[--left] = (uint16_t)state;
            state >>= WORD;
        }
        states[lane] = (state / share << PRECISION) + state % share + start;
        lane = lane ? lane - 1 : lanes - 1;
    }
    return left;
}
