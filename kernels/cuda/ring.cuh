// The stream of keys and values through shared memory.
#pragma once

#include "tile.cuh"

namespace fkv {

// Ring brings the tiles of a walk, KEYS rows of keys and then of values each, into shared
// memory ahead of their use; with VDIM 0 keys alone. Its THREADS threads are a warp
// or the block, and all call the same methods. With MIXED rows are laid out for matrix
// loads. What is no key of the span reads as 0.
//
// Half a tile is a step. Each waits for its own copies, then, when all threads are past
// the step before, begins the copy that takes that one's place: so all slots but one
// are under way or in use, and a step costs one barrier, or two where tiles are decoded.
template <class T, class S, int KDIM, int VDIM, int KEYS, int STAGES, int THREADS, bool MIXED> struct Ring {
    using Keys = Tile<T, S, KDIM, KEYS, MIXED>;
    using Values = Tile<T, S, VDIM ? VDIM : KDIM, KEYS, MIXED>;
    using Element = Used<T, S>;
    static constexpr bool AHEAD = MIXED && !std::is_same_v<S, quant>; // see block: where registers allow it
    static constexpr int PLANES = VDIM ? 2 : 1, SLOTS = PLANES * STAGES;
    static constexpr int STAGE = Keys::BYTES + (VDIM ? Values::BYTES : 0), COPIED = STAGES * STAGE;
    static constexpr int BYTES = COPIED + (Keys::DECODED > Values::DECODED ? Keys::DECODED : Values::DECODED);
    static_assert(SLOTS >= 2, "one slot to fill while one is in use");

    unsigned char *memory;
    Keys key_plane;
    Values value_plane;
    const Pages &pages; // the caller's, as the span is
    const Span &span;
    int lane;         // of the ring's threads
    int tile, stride; // the tile of this step, and from it to the next
    int stage = 0;
    int64_t row = Stretch::APART; // where this thread's share of the keys that were begun last lies
    uint32_t block = 0;           // and the block of its share of those after them: with AHEAD it is looked up a tile ahead, for it takes long

    // A ring walks tiles first, first+stride, … and begins to copy at once.
    __device__ Ring(unsigned char *shared, const Operands &at, const fkv_attend_args &args, const Pages &p, const Span &s,
                    int thread, int first, int step)
        : memory(shared), key_plane(at.k, at.k_scales, args.k_storage, p.head, args.kv_heads),
          value_plane(at.v, at.v_scales, args.v_storage, p.head, args.kv_heads), pages(p), span(s), lane(thread), tile(first), stride(step) {
        if (AHEAD) look(0);
#pragma unroll 1
        for (int ahead = 0; ahead < STAGES; ahead++) {
            if (ahead * PLANES < SLOTS - 1) load<0>(ahead);
            if (PLANES == 2 && ahead * PLANES + 1 < SLOTS - 1) load<PLANES - 1>(ahead);
        }
    }

    // keys is the tile's keys [KEYS, KDIM], good until the next step.
    __device__ const Element *keys() { return next<0>(); }

    // values is its values [KEYS, VDIM], and the end of the tile.
    __device__ const Element *values() { return next<1>(); }

    // key_codes and value_codes are the slots as they were copied, in place of keys and values.
    __device__ const unsigned char *key_codes() { return arrived<0>(true); }
    __device__ const unsigned char *value_codes() { return arrived<1>(true); }

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
        unsigned char *from = arrived<PLANE>(false);
        const Element *here = plane<PLANE>().template open<THREADS>(from, reinterpret_cast<Element *>(memory + COPIED), {pages, span, tile * KEYS}, lane);
        pass<PLANE>();
        return here;
    }

    // arrived waits for the slot of this step, and with done that is all of the step.
    template <int PLANE> __device__ unsigned char *arrived(bool done) {
        constexpr int NEXT = PLANE + SLOTS - 1;
        copy_wait<SLOTS - 2>();
        together<THREADS>();
        load<NEXT % PLANES>(NEXT / PLANES);
        unsigned char *here = slot(PLANE, stage);
        if (done) pass<PLANE>();
        return here;
    }

    template <int PLANE> __device__ void pass() {
        if (PLANE == PLANES - 1) {
            tile += stride;
            stage = wrap(stage + 1);
        }
    }

    using Mine = Share<THREADS, KEYS>;

    __device__ Stretch stretch(int ahead) const { return {pages, span, (tile + ahead * stride) * KEYS}; }

    // look asks for the block of this thread's share of a tile.
    __device__ void look(int ahead) {
        const Stretch keys = stretch(ahead);
        if (keys.any()) block = keys.block(Mine::first(lane));
    }

    // load begins to copy a plane of a tile; one after the last is an empty group. Values are
    // begun next after their keys, and lie in the same row.
    template <int PLANE> __device__ void load(int ahead) {
        const Stretch keys = stretch(ahead);
        if (keys.any()) {
            const int first = Mine::first(lane);
            if (PLANE == 0) row = keys.run(first, Mine::EACH, AHEAD ? block : keys.block(first));
            plane<PLANE>().template load<THREADS>(slot(PLANE, wrap(stage + ahead)), keys, row, lane);
        }
        copy_commit();
        if (AHEAD && PLANE == 0) look(ahead + 1);
    }
};

} // namespace fkv
