// Tiles of a latent cache as products of warpgroups take them, and how they come.
#pragma once

#include "warpgroup.cuh"

namespace fkv {

// LatentTiles is a pair of tiles of 64 keys. A tile lies in columns of 64 elements, each with a barrier of its own, so that
// products begin with the first.
template <class T, int KDIM> struct LatentTiles {
    static constexpr int KEYS = 64, LEAVES = KEYS / LEAF, COLUMNS = KDIM / 64;
    static constexpr int COLUMN_BYTES = KEYS * 128, BYTES = COLUMNS * COLUMN_BYTES;
    static constexpr int BEYOND = -LEAF; // a row before the plane: its box is out of bounds, so the copy engine writes zeros
    static_assert(KDIM % 64 == 0, "whole columns");

    // Turns are barriers of tiles: a column is full, and both warpgroups have freed the tile.
    struct Turns { Barrier full[2][COLUMNS], free[2]; };

    unsigned char *memory;
    Turns &turns;

    __device__ unsigned char *column(int tile, int c) const { return memory + tile * BYTES + c * COLUMN_BYTES; }

    // begin is for one thread of the block, before a barrier.
    __device__ void begin() const {
#pragma unroll 1
        for (int tile = 0; tile < 2; tile++) {
#pragma unroll 1
            for (int c = 0; c < COLUMNS; c++) barrier_init(turns.full[tile][c], 1);
            barrier_init(turns.free[tile], 256);
        }
        barrier_ready();
    }

    // produce brings the keys of a span, tile after tile: a warp's work.
    __device__ void produce(const void *plane, const Pages &pages, const Span &span, const TensorMap *map, int lane) const {
        uint32_t turn = 0;
#pragma unroll 1
        for (int begin = 0, tile = 0; begin < span.count || tile == 1; begin += KEYS) {
            const Stretch keys{pages, span, begin};
            int64_t row = BEYOND; // of this lane's leaf
            if (lane < LEAVES && begin + lane * LEAF < span.count) row = keys.run(lane * LEAF, LEAF);
            barrier_wait(turns.free[tile], turn ^ 1);
            bring(plane, keys, map, tile, row, lane);
            turn ^= tile, tile ^= 1;
        }
    }

  private:
    // bring copies whole leaves as boxes. A leaf at the edge of a mask, which may hold NaN where no row sees a key, is copied key
    // by key, while boxes are under way.
    __device__ void bring(const void *plane, const Stretch &keys, const TensorMap *map, int tile, int64_t row, int lane) const {
        const unsigned apart = __ballot_sync(FULL, row == Stretch::APART);
        const bool boxed = lane < LEAVES && row != Stretch::APART;
        const int bytes = (LEAVES - __popc(apart)) * LEAF * 128;
#pragma unroll 1
        for (int c = 0; c < COLUMNS; c++) {
            if (lane == 0 && apart == 0) barrier_arrive_expect(turns.full[tile][c], bytes);
            __syncwarp();
            if (boxed) copy_box(column(tile, c) + lane * LEAF * 128, map, c * 64, int(row), turns.full[tile][c]);
        }
        if (apart == 0) return;
#pragma unroll 1
        for (int leaf = 0; leaf < LEAVES; leaf++) {
            if (apart >> leaf & 1) copy_leaf(column(tile, 0), plane, keys, leaf * LEAF, lane);
        }
        copy_commit();
        copy_wait<0>();
        proxy_fence();
        __syncwarp();
#pragma unroll 1
        for (int c = 0; lane == 0 && c < COLUMNS; c++) barrier_arrive_expect(turns.full[tile][c], bytes);
    }

    // copy_leaf begins to copy 16 keys, each of which a lane has found; what is no key reads as 0.
    __device__ static void copy_leaf(unsigned char *to, const void *plane, const Stretch &keys, int first, int lane) {
        constexpr int PIECES = KDIM / 8;
        const int key = first + lane % LEAF;
        const bool has = keys.has(key);
        const int64_t row = has ? keys.row(key) : 0;
#pragma unroll 1
        for (int k = 0; k < LEAF; k++) {
            const bool there = __shfl_sync(FULL, has, k);
            const T *from = static_cast<const T *>(plane) + __shfl_sync(FULL, row, k) * KDIM;
            for (int piece = lane; piece < PIECES; piece += 32) copy_async<16>(to + swizzled<KEYS>(first + k, piece), from + piece * 8, there);
        }
    }
};

} // namespace fkv
