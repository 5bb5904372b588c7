// Calls any C++ function on values that lie in plain memory: what each parameter needs follows from its type.
#ifndef SLOTS_HPP
#define SLOTS_HPP

#include <cstdlib>
#include <cstring>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

// With -D_GLIBCXX_ASSERTIONS a subscript outside of a vector ends here.
#if defined(_GLIBCXX_ASSERTIONS) && _GLIBCXX_RELEASE >= 12
namespace std {
void __glibcxx_assert_fail(const char *, int, const char *, const char *) noexcept { longjmp(leave_call, 1); }
}  // namespace std
#endif

struct Slot {
    void *data;
    long shape[3];
};

// Scalars, structs by value and pointers.
template <class T> struct Held {
    T value;
    explicit Held(Slot &slot) {
        if constexpr (std::is_pointer_v<T>)
            value = static_cast<T>(slot.data);
        else
            value = *static_cast<T *>(slot.data);
    }
    void back(Slot &) {}
};

template <class T> struct Held<std::vector<T>> {
    std::vector<T> value;
    explicit Held(Slot &slot) {
        const T *data = static_cast<const T *>(slot.data);
        value.assign(data, data + slot.shape[0]);
    }
    void back(Slot &slot) {
        slot.shape[0] = value.size();
        if (!value.empty())
            std::memcpy(slot.data, value.data(), value.size() * sizeof(T));
    }
};

template <class T> struct Held<std::vector<std::vector<T>>> {
    std::vector<std::vector<T>> value;
    explicit Held(Slot &slot) {
        const T *data = static_cast<const T *>(slot.data);
        for (long i = 0; i < slot.shape[0]; i++)
            value.emplace_back(data + i * slot.shape[1], data + (i + 1) * slot.shape[1]);
    }
    void back(Slot &slot) {
        T *data = static_cast<T *>(slot.data);
        slot.shape[0] = value.size();
        for (auto &row : value)
            for (auto &element : row)
                *data++ = element;
    }
};

// A returned value; vectors go to memory that the caller frees.
template <class T> void give(T &&value, Slot &slot) { *static_cast<std::decay_t<T> *>(slot.data) = value; }
template <class T> void give(std::vector<T> &&value, Slot &slot) {
    slot.shape[0] = value.size();
    slot.data = std::malloc(value.size() * sizeof(T) + 1);
    if (!value.empty())
        std::memcpy(slot.data, value.data(), value.size() * sizeof(T));
}
template <class T> void give(std::vector<std::vector<T>> &&value, Slot &slot) {
    slot.shape[0] = value.size();
    slot.shape[1] = value.empty() ? 0 : value[0].size();
    T *data = static_cast<T *>(slot.data = std::malloc(slot.shape[0] * slot.shape[1] * sizeof(T) + 1));
    for (auto &row : value)
        for (auto &element : row)
            *data++ = element;
}

template <class R, class... A, size_t... I>
void call(R (*function)(A...), Slot *slots, Slot &result, std::index_sequence<I...>) {
    std::tuple<Held<std::decay_t<A>>...> held{Held<std::decay_t<A>>(slots[I])...};
    if constexpr (std::is_void_v<R>)
        function(std::get<I>(held).value...);
    else
        give(function(std::get<I>(held).value...), result);
    (std::get<I>(held).back(slots[I]), ...);
}

template <class R, class... A> int guarded(R (*function)(A...), Slot *slots, Slot *result) {
    if (setjmp(leave_call))
        return 1;
    try {
        call(function, slots, *result, std::index_sequence_for<A...>{});
    } catch (...) {  // a vector of negative length
        return 1;
    }
    return 0;
}

#endif
