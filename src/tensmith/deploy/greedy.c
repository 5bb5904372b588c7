/* The likeliest tokens one after the other, by a compiled step: what slots.py would do call by call. */
#define EXPORTED __attribute__((visibility("default")))

/* A compiled model and what it is called with (backend/native/emit/header.py). */
typedef struct {
    int (*run)(const void *weights, const void *const *in, void *const *out, void *arena);
    const void *weights;
    const void *const *in;
    void *const *out;
    void *arena;
    const float *logits;
    int64_t vocabulary;
} Step;

/* Element `at` of a table, written to an input, `to_step` bytes further each time. */
typedef struct {
    char *to;
    const char *table;
    int64_t bytes, to_step, table_step;
} Field;

static void write(const Field *f, int64_t at)
{
    memcpy(f->to + at * f->to_step, f->table + at * f->table_step, f->bytes);
}

/* The first of the largest; -1 where one is no number, or the largest is not finite. */
static int64_t likeliest(const float *x, int64_t n)
{
    vf most = splat(-INFINITY), wrong = splat(0);
    const int64_t left = n % LANES, whole = n - left;
    for (int64_t i = 0; i < whole; i += LANES) {
        vf v = load(x + i);
        most = vmax(most, v), wrong = (vf)((vi)wrong | (v != v));
    }
    for (int64_t i = whole; i < n; i++) {
        if (x[i] != x[i]) return -1;
        most = vmax(most, splat(x[i]));
    }
    for (int i = 0; i < LANES; i++) if (((vi)wrong)[i]) return -1;
    const float found = most_of(most);
    if (!(found > -INFINITY && found < INFINITY)) return -1;
    for (int64_t i = 0; i < n; i += LANES) {
        vi same = (i + LANES <= n ? load(x + i) : load_part(x + i, n - i)) == found;
        for (int k = 0; k < LANES && i + k < n; k++) if (same[k]) return i + k;
    }
    return -1;
}

/* `wanted` tokens after `token`, which is number `count` of the text; how many there are. Fewer where logits
   hold no number; -1 where the model fails. */
EXPORTED int64_t greedy(const Step *s, const Field *tokens, const Field *fields, int64_t field_count,
        int64_t token, int64_t count, int64_t wanted, int64_t *said)
{
    for (int64_t n = 0; n < wanted; n++) {
        write(tokens, token);
        for (int64_t f = 0; f < field_count; f++) write(fields + f, count + n);
        if (s->run(s->weights, s->in, s->out, s->arena)) return -1;
        token = likeliest(s->logits, s->vocabulary);
        if (token < 0) return n;
        said[n] = token;
    }
    return wanted;
}
