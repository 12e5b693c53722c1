// CUDA's atomic operations: relaxed, as on the device, so they order nothing else.
#pragma once

#include <cstdint>
#include <cstring>

namespace simt {

// update replaces *p by change(*p) and returns what was there.
template <class T, class Change> inline T update(T *p, Change change) {
    static_assert(sizeof(T) == 4, "32-bit words");
    auto *word = reinterpret_cast<uint32_t *>(p);
    uint32_t seen = __atomic_load_n(word, __ATOMIC_RELAXED), wanted;
    T old;
    do {
        std::memcpy(&old, &seen, sizeof old);
        T changed = change(old);
        std::memcpy(&wanted, &changed, sizeof wanted);
    } while (!__atomic_compare_exchange_n(word, &seen, wanted, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    return old;
}

} // namespace simt

inline float atomicAdd(float *p, float x) {
    return simt::update(p, [x](float old) { return old + x; });
}
inline unsigned atomicAdd(unsigned *p, unsigned x) {
    return simt::update(p, [x](unsigned old) { return old + x; });
}
inline unsigned atomicOr(unsigned *p, unsigned x) {
    return simt::update(p, [x](unsigned old) { return old | x; });
}
