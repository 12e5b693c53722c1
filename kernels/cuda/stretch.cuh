// Which keys a tile has, and where their rows lie.
#pragma once

#include <type_traits>

#include "attend.cuh"
#include "ptx.cuh"
#include "quant.cuh"

namespace fkv {

// Used is the type that elements of storage type S have in arithmetic with T.
template <class T, class S> using Used = std::conditional_t<std::is_same_v<S, quant>, T, S>;

// Stretch is which keys a tile has: KEYS of the span from number first on.
struct Stretch {
    const Pages &pages;
    const Span &span;
    int first;

    __device__ bool any() const { return first < span.count; }
    __device__ bool has(int key) const { return span.has(first + key); }

    // row and panel are where a key's row lies; those of a key that is not there are not used.
    __device__ int64_t row(int key) const { return has(key) ? pages.row(span.at(first + key)) : 0; }
    __device__ int64_t panel(int key) const { return pages.panel(span.at(first + key)); }

    // run reports whether keys [key, key+n) are there and lie one behind the other, from row
    // begin on.
    __device__ bool run(int key, int n, int64_t &begin) const {
        if (first + key + n > span.count) return false;
        const int at = span.at(first + key);
        if (span.at(first + key + n - 1) != at + n - 1 || !pages.together(at, n)) return false;
        if (at < span.shut + span.closed && at + n > span.shut && span.closed > 0) return false;
        begin = pages.row(at);
        return true;
    }
};

// together waits for all of a ring's threads, which are a warp or the block.
template <int THREADS> __device__ inline void together() {
    if (THREADS == 32) {
        __syncwarp();
    } else {
        __syncthreads();
    }
}

// leaves is in how many pieces the keys of a tile move, and squads how many of them at once: each
// by its own warps, so that a thread looks few blocks up.
template <int KEYS> constexpr int leaves = KEYS < LEAF ? 1 : KEYS / LEAF;
template <int THREADS, int KEYS> constexpr int squads = THREADS / 32 < leaves<KEYS> ? THREADS / 32 : leaves<KEYS>;

} // namespace fkv
