// The stream of keys and values through shared memory.
#pragma once

#include "dtype.cuh"
#include "ptx.cuh"
#include "sight.cuh"

namespace fkv {

// Ring brings the tiles of a walk, KEYS rows of keys and then of values each, into shared
// memory ahead of their use; with VDIM 0 keys alone. Its THREADS threads are a warp
// or the block, and all call the same methods. Rows have PAD elements behind them, so
// that matrix loads of 8 rows hit all banks. What is no key of the span reads as 0.
//
// Half a tile is a step. Each waits for its own copies, then, when all threads are past
// the step before, begins the copy that takes that one's place: so all slots but one
// are under way or in use, and a step costs one barrier.
//
// Its loops are not unrolled: copies run by themselves, and the arithmetic of their
// addresses, unrolled, made up a third of a kernel.
template <class S, int KDIM, int VDIM, int KEYS, int STAGES, int THREADS, int PAD> struct Ring {
    static constexpr int PLANES = VDIM ? 2 : 1, SLOTS = PLANES * STAGES;
    static constexpr int KEY_STRIDE = KDIM + PAD, VALUE_STRIDE = VDIM + PAD;
    static constexpr int STAGE = KEYS * (KEY_STRIDE + (VDIM ? VALUE_STRIDE : 0));
    static constexpr int BYTES = STAGES * STAGE * int(sizeof(S));
    static_assert(SLOTS >= 2, "one slot to fill while one is in use");

    S *memory;
    const S *keys_from, *values_from;
    Pages pages;
    Span span;
    int lane;         // of the ring's threads
    int tile, stride; // the tile of this step, and from it to the next
    int stage = 0;

    // A ring walks tiles first, first+stride, … and begins to copy at once.
    __device__ Ring(void *shared, const void *k, const void *v, const Pages &p, const Span &s, int thread, int first, int step)
        : memory(static_cast<S *>(shared)), keys_from(static_cast<const S *>(k)), values_from(static_cast<const S *>(v)),
          pages(p), span(s), lane(thread), tile(first), stride(step) {
#pragma unroll 1
        for (int ahead = 0; ahead < STAGES; ahead++) {
            if (ahead * PLANES < SLOTS - 1) load<0>(ahead);
            if (PLANES == 2 && ahead * PLANES + 1 < SLOTS - 1) load<PLANES - 1>(ahead);
        }
    }

    // keys is the tile's keys [KEYS, KEY_STRIDE], good until the next step.
    __device__ const S *keys() { return next<0>(); }

    // values is its values [KEYS, VALUE_STRIDE], and the end of the tile.
    __device__ const S *values() { return next<1>(); }

  private:
    __device__ S *slot(int plane, int of) const { return memory + of * STAGE + plane * KEYS * KEY_STRIDE; }

    __device__ static int wrap(int of) { return of < STAGES ? of : of - STAGES; }

    template <int PLANE> __device__ const S *next() {
        constexpr int AHEAD = PLANE + SLOTS - 1;
        copy_wait<SLOTS - 2>();
        if (THREADS == 32) {
            __syncwarp();
        } else {
            __syncthreads();
        }
        load<AHEAD % PLANES>(AHEAD / PLANES);
        const S *here = slot(PLANE, stage);
        if (PLANE == PLANES - 1) {
            tile += stride;
            stage = wrap(stage + 1);
        }
        return here;
    }

    // load begins to copy a plane of a tile; one after the last is an empty group.
    template <int PLANE> __device__ void load(int ahead) {
        constexpr int DIM = PLANE ? VDIM : KDIM, STRIDE = PLANE ? VALUE_STRIDE : KEY_STRIDE;
        constexpr int VECTORS = DIM / Vec<S>::N;
        int first = (tile + ahead * stride) * KEYS;
        if (first < span.count) {
            S *to = slot(PLANE, wrap(stage + ahead));
            const S *from = PLANE ? values_from : keys_from;
#pragma unroll 1
            for (int i = lane; i < KEYS * VECTORS; i += THREADS) {
                int key = i / VECTORS, at = i % VECTORS * Vec<S>::N;
                bool valid = first + key < span.count;
                int64_t row = valid ? pages.row(span.at(first + key)) : 0;
                copy_async(to + key * STRIDE + at, from + row * DIM + at, valid);
            }
        }
        copy_commit();
    }
};

} // namespace fkv
