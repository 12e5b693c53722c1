// Which keys a tile has, and where their rows lie.
#pragma once

#include <type_traits>

#include "outlook.cuh"
#include "ptx.cuh"
#include "quant.cuh"
#include "rows.cuh"

namespace fkv {

// Used is the type that elements of storage type S have in arithmetic with T.
template <class T, class S> using Used = std::conditional_t<std::is_same_v<S, quant>, T, S>;

// Stretch is which keys a tile has: KEYS of the span from number first on.
struct Stretch {
    static constexpr int64_t APART = -1;

    const Pages &pages;
    const Span &span;
    int first;

    __device__ bool any() const { return first < span.count; }
    __device__ bool has(int key) const { return span.has(first + key) && (span.at(first + key) < span.asked || asked(span.at(first + key))); }

    // row and panel are where a key's row lies; those of a key that is not there are not used.
    __device__ int64_t row(int key) const { return has(key) ? pages.row(span.at(first + key)) : 0; }
    __device__ int64_t panel(int key) const { return pages.panel(span.at(first + key)); }

    // block is that of a key, or of any if it is not there.
    __device__ uint32_t block(int key) const { return pages.block(span.at(min(first + key, span.count - 1))); }

    // run is the row from which on keys [key, key+n), the first of them in a block, lie one behind the other, or APART.
    __device__ int64_t run(int key, int n) const { return run(key, n, block(key)); }
    __device__ int64_t run(int key, int n, uint32_t block) const {
        if (first + key + n > span.count) return APART;
        const int at = span.at(first + key);
        if (span.at(first + key + n - 1) != at + n - 1 || !pages.together(at, n) || at + n > span.asked) return APART;
        if (at < span.shut + span.closed && at + n > span.shut && span.closed > 0) return APART;
        return pages.row(at, block);
    }

  private:
    // asked asks the rows, whose lookout is the first thing in shared memory.
    __device__ static bool asked(int key) {
        FKV_SHARED(shared);
        return Lookout{shared}.anybody(key);
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

// Share is how THREADS threads divide the KEYS keys of a tile to copy them: EACH of them, a leaf or
// all there are, are of SIZE threads, so that a thread looks one block up.
template <int THREADS, int KEYS> struct Share {
    static constexpr int LEAVES = KEYS < LEAF ? 1 : KEYS / LEAF, EACH = KEYS / LEAVES, SIZE = THREADS / LEAVES;
    static_assert(SIZE % 32 == 0 && EACH * LEAVES == KEYS, "warps of its own for each leaf");

    // first is the first key of a thread's share.
    __device__ static int first(int lane) { return lane / SIZE * EACH; }
};

} // namespace fkv
