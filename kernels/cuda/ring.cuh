// The stream of keys and values through shared memory.
#pragma once

#include "tile.cuh"

namespace fkv {

// Ring brings the tiles of a walk, KEYS rows of keys and then of values each, into shared
// memory ahead of their use; with VDIM 0 keys alone. Its THREADS threads are a warp
// or the block, and all call the same methods. Rows have PAD elements behind them, so
// that matrix loads of 8 rows hit all banks. What is no key of the span reads as 0.
//
// Half a tile is a step. Each waits for its own copies, then, when all threads are past
// the step before, begins the copy that takes that one's place: so all slots but one
// are under way or in use, and a step costs one barrier, or two where tiles are decoded.
template <class T, class S, int KDIM, int VDIM, int KEYS, int STAGES, int THREADS, int PAD> struct Ring {
    using Keys = Tile<T, S, KDIM, KEYS, PAD>;
    using Values = Tile<T, S, VDIM ? VDIM : KDIM, KEYS, PAD>;
    using Element = Used<T, S>;
    static constexpr int PLANES = VDIM ? 2 : 1, SLOTS = PLANES * STAGES;
    static constexpr int KEY_STRIDE = Keys::STRIDE;
    static constexpr int STAGE = Keys::BYTES + (VDIM ? Values::BYTES : 0), COPIED = STAGES * STAGE;
    static constexpr int BYTES = COPIED + (Keys::DECODED > Values::DECODED ? Keys::DECODED : Values::DECODED);
    static_assert(SLOTS >= 2, "one slot to fill while one is in use");

    unsigned char *memory;
    Keys key_plane;
    Values value_plane;
    Pages pages;
    Span span;
    int lane;         // of the ring's threads
    int tile, stride; // the tile of this step, and from it to the next
    int stage = 0;
    int64_t row = Stretch::APART; // where this thread's share of the keys that were begun last lies

    // A ring walks tiles first, first+stride, … and begins to copy at once.
    __device__ Ring(unsigned char *shared, const Operands &at, const fkv_attend_args &args, const Pages &p, const Span &s,
                    int thread, int first, int step)
        : memory(shared), key_plane(at.k, at.k_scales, args.k_storage, p.head, args.kv_heads),
          value_plane(at.v, at.v_scales, args.v_storage, p.head, args.kv_heads), pages(p), span(s), lane(thread), tile(first), stride(step) {
#pragma unroll 1
        for (int ahead = 0; ahead < STAGES; ahead++) {
            if (ahead * PLANES < SLOTS - 1) load<0>(ahead);
            if (PLANES == 2 && ahead * PLANES + 1 < SLOTS - 1) load<PLANES - 1>(ahead);
        }
    }

    // keys is the tile's keys [KEYS, KEY_STRIDE], good until the next step.
    __device__ const Element *keys() { return next<0>(); }

    // values is its values, with a stride of their own, and the end of the tile.
    __device__ const Element *values() { return next<1>(); }

  private:
    __device__ unsigned char *slot(int plane, int of) const { return memory + of * STAGE + plane * Keys::BYTES; }

    __device__ static int wrap(int of) { return of < STAGES ? of : of - STAGES; }

    template <int PLANE> __device__ const auto &plane() const {
        if constexpr (PLANE == 0) {
            return key_plane;
        } else {
            return value_plane;
        }
    }

    template <int PLANE> __device__ const Element *next() {
        constexpr int AHEAD = PLANE + SLOTS - 1;
        copy_wait<SLOTS - 2>();
        together<THREADS>();
        load<AHEAD % PLANES>(AHEAD / PLANES);
        const Element *here = plane<PLANE>().template open<THREADS>(slot(PLANE, stage), reinterpret_cast<Element *>(memory + COPIED),
                                                                   {pages, span, tile * KEYS}, lane);
        if (PLANE == PLANES - 1) {
            tile += stride;
            stage = wrap(stage + 1);
        }
        return here;
    }

    // load begins to copy a plane of a tile; one after the last is an empty group. Values are
    // begun next after their keys, and lie in the same row.
    template <int PLANE> __device__ void load(int ahead) {
        using Mine = Share<THREADS, KEYS>;
        const Stretch keys{pages, span, (tile + ahead * stride) * KEYS};
        if (keys.any()) {
            if (PLANE == 0) row = keys.run(Mine::first(lane), Mine::EACH);
            plane<PLANE>().template load<THREADS>(slot(PLANE, wrap(stage + ahead)), keys, row, lane);
        }
        copy_commit();
    }
};

} // namespace fkv
