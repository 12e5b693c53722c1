// Tiles of a plane's rows on their way through shared memory.
#pragma once

#include "coded.cuh"

namespace fkv {

// Plain is a plane of elements that are used as they are stored.
template <class S, int DIM, int KEYS, bool MIXED> struct Plain {
    using Place = Rows<DIM, MIXED>;
    static constexpr int BYTES = KEYS * DIM * int(sizeof(S)), DECODED = 0;
    static constexpr int N = Vec<S>::N, VECTORS = DIM / N; // of a row

    const S *elements;

    __device__ Plain(const void *plane, const uint32_t *, uint32_t, uint32_t, uint32_t) : elements(static_cast<const S *>(plane)) {}

    // load begins to copy a tile to a slot of BYTES, a thread's share of it from row on; what is no
    // key reads as 0.
    template <int THREADS> __device__ void load(unsigned char *slot, const Stretch &keys, int64_t row, int lane) const {
        using Mine = Share<THREADS, KEYS>;
        const int first = Mine::first(lane), at = lane % Mine::SIZE;
        S *to = reinterpret_cast<S *>(slot) + first * DIM;
        if (row != Stretch::APART) {
            together_from<Mine::SIZE, Mine::EACH>(to, elements + row * DIM, at);
        } else {
            one_by_one<Mine::SIZE, Mine::EACH>(to, keys, first, at);
        }
    }

    // open is the rows [KEYS, DIM] of a slot that is there.
    template <int THREADS> __device__ const S *open(unsigned char *slot, S *, const Stretch &, int) const {
        return reinterpret_cast<const S *>(slot);
    }

  private:
    // together_from copies rows that lie one behind the other. Where threads fall on the same
    // columns of every row, addresses are a thread's own plus constants.
    template <int THREADS, int ROWS> __device__ static void together_from(S *to, const S *from, int lane) {
        constexpr int COUNT = ROWS * VECTORS;
        if (MIXED) lane = int(unknown(lane)); // places are worked out again: registers for them are none
#pragma unroll
        for (int i = 0; i < COUNT; i += THREADS) {
            int row = (i + lane) / VECTORS, at = (i + lane) % VECTORS;
            if (THREADS % VECTORS == 0) row = lane / VECTORS + i / VECTORS, at = lane % VECTORS;
            if (VECTORS % THREADS == 0) row = i / VECTORS, at = lane + i % VECTORS;
            if (COUNT % THREADS == 0 || i + lane < COUNT) copy_async<16>(to + Place::template at<N>(row, at), from + (i + lane) * N, true);
        }
    }

    // one_by_one finds each row. Its loop is not unrolled: copies run by themselves, and the
    // arithmetic of their addresses, unrolled, made up a third of a kernel.
    template <int THREADS, int ROWS> __device__ void one_by_one(S *to, const Stretch &keys, int first, int lane) const {
#pragma unroll 1
        for (int i = lane; i < ROWS * VECTORS; i += THREADS) {
            const int row = i / VECTORS, at = i % VECTORS;
            copy_async<16>(to + Place::template at<N>(row, at), elements + keys.row(first + row) * DIM + at * N, keys.has(first + row));
        }
    }
};

// Tile is the tile of a plane of storage type S for arithmetic with T.
template <class T, class S, int DIM, int KEYS, bool MIXED>
using Tile = std::conditional_t<std::is_same_v<S, quant>, Coded<T, DIM, KEYS, MIXED>, Plain<S, DIM, KEYS, MIXED>>;

} // namespace fkv
