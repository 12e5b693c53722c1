// Metal's atomic operations on device memory: relaxed, so they order nothing else.
#pragma once
#pragma clang system_header

#include "vector.h"

namespace metal {

enum memory_order { memory_order_relaxed };

// atomic is a word that is reached by atomic operations only.
template <class T> struct atomic {
    atomic() = default;
    atomic(const atomic &) = delete;

    T value; // for the functions below
};

typedef atomic<float> atomic_float;
typedef atomic<uint> atomic_uint;

inline uint atomic_fetch_add_explicit(volatile MSL_DEVICE atomic_uint *p, uint x, memory_order) {
    return __atomic_fetch_add(&p->value, x, __ATOMIC_RELAXED);
}

inline uint atomic_fetch_or_explicit(volatile MSL_DEVICE atomic_uint *p, uint x, memory_order) {
    return __atomic_fetch_or(&p->value, x, __ATOMIC_RELAXED);
}

inline float atomic_fetch_add_explicit(volatile MSL_DEVICE atomic_float *p, float x, memory_order) {
    auto *word = (volatile MSL_DEVICE uint *)&p->value;
    uint seen = __atomic_load_n(word, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(word, &seen, as_type<uint>(as_type<float>(seen) + x), true, __ATOMIC_RELAXED,
                                        __ATOMIC_RELAXED)) {
    }
    return as_type<float>(seen);
}

} // namespace metal
