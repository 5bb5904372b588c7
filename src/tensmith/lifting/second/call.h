/* What a call of a function needs that is written beside its source: no header of the system, so that no name
   of theirs meets one of the source. */
typedef long long ts_long;
typedef char ts_widths[sizeof(long) == 8 && sizeof(int) == 4 && sizeof(void *) == 8 ? 1 : -1];

/* An argument, or the result: memory of exactly its size. */
struct ts_slot {
    void *data;
    ts_long shape[3], bytes;
    int same; /* the slot whose memory this is as well, or -1 */
};

#ifdef __cplusplus
#define TS_TABLE extern "C"
extern "C" {
#else
#define TS_TABLE
#endif
void ts_uneven(void);
void *ts_rows(const struct ts_slot *slot, unsigned long element);
typedef void (*ts_call)(struct ts_slot *, struct ts_slot *);
#ifdef __cplusplus
}
#endif

#ifdef __cplusplus
#include <vector>
/* A pointer of any type, from a slot. */
struct ts_pointer {
    void *data;
    template <class T> operator T *() const { return static_cast<T *>(data); }
};
#define TS_POINTER(slot) (ts_pointer{(slot).data})

template <class T> void ts_load(std::vector<T> &value, const ts_slot &slot) {
    const T *data = static_cast<const T *>(slot.data);
    value = std::vector<T>(data, data + slot.shape[0]);
}
template <class T> void ts_load(std::vector<std::vector<T>> &value, const ts_slot &slot) {
    const T *data = static_cast<const T *>(slot.data);
    for (ts_long i = 0; i < slot.shape[0]; i++)
        value.emplace_back(data + i * slot.shape[1], data + (i + 1) * slot.shape[1]);
}
template <class T> void ts_store(const std::vector<T> &value, ts_slot &slot) {
    slot.shape[0] = (ts_long)value.size();
    slot.bytes = (ts_long)(value.size() * sizeof(T));
    T *data = static_cast<T *>(slot.data = __builtin_malloc((unsigned long)slot.bytes + 1));
    for (T element : value)
        *data++ = element;
}
template <class T> void ts_store(const std::vector<std::vector<T>> &value, ts_slot &slot) {
    slot.shape[0] = (ts_long)value.size();
    slot.shape[1] = value.empty() ? slot.shape[1] : (ts_long)value[0].size();
    slot.bytes = slot.shape[0] * slot.shape[1] * (ts_long)sizeof(T);
    T *data = static_cast<T *>(slot.data = __builtin_malloc((unsigned long)slot.bytes + 1));
    for (const auto &row : value) {
        if ((ts_long)row.size() != slot.shape[1])
            ts_uneven();
        for (T element : row)
            *data++ = element;
    }
}
#else
#define TS_POINTER(slot) ((slot).data)
#endif

