// What the lanes of a warp do together.
#pragma once

#include <cstdint>
#include <cstring>

#include "../core/thread.h"

namespace simt {

// What a lane brings to each kind of work, and finds the result in.

// Shuffle is a value, and the lane whose value is wanted.
struct Shuffle {
    uint64_t value;
    unsigned from;
    bool found; // that lane takes part
};

// Vote is a predicate.
struct Vote {
    bool yes;
    unsigned result; // the lanes that said yes
};

// Matrices is one row of four 8x8 matrices of 16-bit elements.
struct Matrices {
    uint32_t row[4];  // 16 bytes of the memory
    uint32_t result[4];
};

// Product is a lane's share of d, a and b in d += a b.
struct Product {
    float d[4];
    uint32_t a[4], b[2];
};

// The work of the last lane to come. None of it is seen by the race check: a lane's memory
// is read and written for it.
void shuffle(void *const *lanes, unsigned mask);
void vote(void *const *lanes, unsigned mask);
void distribute(void *const *lanes, unsigned mask);
void distribute_transposed(void *const *lanes, unsigned mask);
void multiply_f16(void *const *lanes, unsigned mask);
void multiply_bf16(void *const *lanes, unsigned mask);

// take is value of lane from.
template <class T> inline T take(unsigned mask, T value, unsigned from, Site site) {
    static_assert(sizeof(T) <= sizeof(uint64_t), "a lane's value has at most 8 bytes");
    Shuffle s{0, from, false};
    std::memcpy(&s.value, &value, sizeof value);
    meet(mask, &s, shuffle, false, site);
    if (!s.found)
        fault("takes the value of a lane that does not take part", site);
    std::memcpy(&value, &s.value, sizeof value);
    return value;
}

// ballot is the lanes of mask that said yes.
inline unsigned ballot(unsigned mask, bool yes, Site site) {
    Vote v{yes, 0};
    meet(mask, &v, vote, false, site);
    return v.result;
}

// segment is the first lane of the width lanes that lane belongs to.
inline unsigned segment(unsigned lane, int width) { return lane & ~unsigned(width - 1); }

} // namespace simt

// The words of CUDA. Only __syncwarp orders memory between the lanes.
inline void __syncwarp(unsigned mask = 0xffffffffu, simt::Site site = {}) {
    simt::meet(mask, nullptr, nullptr, true, site);
}

template <class T> inline T __shfl_sync(unsigned mask, T value, int from, int width = 32, simt::Site site = {}) {
    unsigned lane = simt::current->lane;
    return simt::take(mask, value, simt::segment(lane, width) | (unsigned(from) & unsigned(width - 1)), site);
}

template <class T> inline T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32, simt::Site site = {}) {
    unsigned lane = simt::current->lane, from = lane ^ unsigned(bits);
    return simt::take(mask, value, from < simt::segment(lane, width) + width ? from : lane, site);
}

template <class T> inline T __shfl_up_sync(unsigned mask, T value, unsigned by, int width = 32, simt::Site site = {}) {
    unsigned lane = simt::current->lane;
    return simt::take(mask, value, lane - simt::segment(lane, width) >= by ? lane - by : lane, site);
}

template <class T> inline T __shfl_down_sync(unsigned mask, T value, unsigned by, int width = 32, simt::Site site = {}) {
    unsigned lane = simt::current->lane;
    return simt::take(mask, value, lane - simt::segment(lane, width) + by < unsigned(width) ? lane + by : lane, site);
}

inline unsigned __ballot_sync(unsigned mask, bool yes, simt::Site site = {}) { return simt::ballot(mask, yes, site); }
inline bool __any_sync(unsigned mask, bool yes, simt::Site site = {}) { return simt::ballot(mask, yes, site) != 0; }
inline bool __all_sync(unsigned mask, bool yes, simt::Site site = {}) { return simt::ballot(mask, !yes, site) == 0; }
