// The tiles of keys and values that the simdgroups of a threadgroup share.
#pragma once

#include "run.h"
#include "sight.h"

namespace fkv {

// Stream brings the tiles of a walk, KEYS rows of keys and then of values each, through
// threadgroup memory, so that each row of the cache is read once; with VDIM 0 keys alone.
// All threads of the threadgroup call the same methods. Rows have PAD elements behind
// them, so that matrix loads of 8 rows hit all banks. What is no key of the span reads
// as 0.
//
// Half a tile is a step. Apple's GPUs have no copy that runs by itself, so a step's loads
// go to registers while the one before is computed, and from there to a slot. With two
// slots the one to fill is never in use, and a step costs one barrier.
template <class S, int KDIM, int VDIM, int KEYS, int THREADS, int PAD> struct Stream {
    enum : int {
        N = 16 / sizeof(S), // elements of a load
        MOST_DIM = KDIM > VDIM ? KDIM : VDIM,
        SLOT = KEYS * (MOST_DIM + PAD),
        SLOTS = 2 * SLOT * sizeof(S) <= 20 << 10 ? 2 : 1, // more would leave a core one threadgroup
        BYTES = SLOTS * SLOT * sizeof(S),
        KEY_STRIDE = KDIM + PAD,
        VALUE_STRIDE = VDIM + PAD,
        LOADS = (KEYS * (MOST_DIM / N) + THREADS - 1) / THREADS, // of a thread for a step
        AHEAD = LOADS < 4 ? LOADS : 4,                           // as registers allow
    };

    threadgroup S *memory;
    const device S *keys_from, *values_from;
    Pages pages;
    Span span;
    int thread_index;
    int tile = 0; // number in the span of the first key of the step that is under way
    int slot = 0; // that it goes to
    uint4 held[AHEAD];

    // A stream begins to load at once.
    Stream(threadgroup void *shared, const device void *k, const device void *v, Pages p, Span s, int thread_at)
        : memory(static_cast<threadgroup S *>(shared)), keys_from(static_cast<const device S *>(k)),
          values_from(static_cast<const device S *>(v)), pages(p), span(s), thread_index(thread_at) {
        fetch<KDIM>(keys_from);
    }

    // keys is the tile's keys [KEYS, KEY_STRIDE], good until the next step.
    const threadgroup S *keys() {
        const threadgroup S *here = place<KDIM>(keys_from);
        if (VDIM == 0) tile += KEYS;
        fetch<VDIM ? VDIM : KDIM>(VDIM ? values_from : keys_from);
        return here;
    }

    // values is its values [KEYS, VALUE_STRIDE], and the end of the tile.
    const threadgroup S *values() {
        const threadgroup S *here = place<VDIM>(values_from);
        tile += KEYS;
        fetch<KDIM>(keys_from);
        return here;
    }

  private:
    // load is 16 bytes of the step: load number i of its KEYS rows.
    template <int DIM> uint4 load(const device S *plane, int i) const {
        const int n = tile + i / (DIM / N);
        if (n >= span.count) return uint4(0);
        return *reinterpret_cast<const device uint4 *>(plane + pages.row(span.at(n)) * DIM + i % (DIM / N) * N);
    }

    template <int DIM> void fetch(const device S *plane) {
#pragma unroll
        for (int j = 0; j < AHEAD; j++) {
            const int i = j * THREADS + thread_index;
            if (i < KEYS * (DIM / N)) held[j] = load<DIM>(plane, i);
        }
    }

    // place ends the loads of a step; what registers had no room for is loaded now.
    template <int DIM> const threadgroup S *place(const device S *plane) {
        if (SLOTS == 1) threadgroup_barrier(mem_flags::mem_threadgroup); // the step before is over
        threadgroup S *to = memory + slot * SLOT;
#pragma unroll
        for (int j = 0; j < LOADS; j++) {
            const int i = j * THREADS + thread_index;
            if (i >= KEYS * (DIM / N)) continue;
            const uint4 bits = j < AHEAD ? held[j < AHEAD ? j : 0] : load<DIM>(plane, i);
            *reinterpret_cast<threadgroup uint4 *>(to + i / (DIM / N) * (DIM + PAD) + i % (DIM / N) * N) = bits;
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
        slot = SLOTS - 1 - slot;
        return to;
    }
};

} // namespace fkv
