// Attention over a latent cache by warpgroups, for 9.0a: items of up to 64 rows, so that keys are read once for 64 heads of a query.
// One warp brings tiles, two warpgroups multiply.
#pragma once

#include "latent_tiles.cuh"

namespace fkv {

// The warpgroups walk pairs of tiles together. Each has the scores of one tile, and half of the columns of the output, for which it
// needs the weights of both: these go through the places of elements that keys have and values do not. Both take the
// same top, so that weights of both are worth the same.
template <class T, int KDIM, int VDIM> struct WideLatent {
    using Tiles = LatentTiles<T, KDIM>;
    using Turns = typename Tiles::Turns;
    static constexpr int ROWS = FKV_WIDE_LATENT_ROWS, KEYS = Tiles::KEYS, STRIP = Lookout::STRIP;
    static constexpr int THREADS = 384, BLOCKS = 1;
    static constexpr int COLUMNS = VDIM / 2, FIRST = COLUMNS / 64; // of a warpgroup's output: elements, and columns of a tile
    static constexpr int S = KEYS / 2, O = COLUMNS / 2;            // registers of an accumulator
    static constexpr int BARRIERS = Lookout::bytes(ROWS), TOPS = BARRIERS + whole_lines(int(sizeof(Turns)));
    static constexpr int AFTER = TOPS + 2 * ROWS * int(sizeof(float)), QUERY_BYTES = ROWS * KDIM * 2;
    static constexpr int SHARED = AFTER + 1024 + QUERY_BYTES + 2 * Tiles::BYTES;
    static_assert(SHARED <= 227 * 1024, "what a block may have on 9.0");
    static_assert(ROWS == 64, "of a warpgroup's products");
    static_assert(KDIM - VDIM >= KEYS, "weights take the place of elements that are no values");

    // Place is what a thread of a consumer knows of itself: its warpgroup, the first row of its warp, and its own first row.
    struct Place {
        int group, strip, row, lane;
        float *tops; // [2][ROWS]

        __device__ float &mine(int half) const { return tops[group * ROWS + row + half * 8]; }
        __device__ float other(int half) const { return tops[(group ^ 1) * ROWS + row + half * 8]; }
    };

    __device__ static void run(const Operands &at, const fkv_attend_args &args, const TensorMaps &maps) {
        Task task(at, args);
        if (!task.read(ROWS) || !task.writable()) return;
        FKV_SHARED(shared);
        const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, group = warp / 4;
        unsigned char *queries = aligned_tiles(shared + AFTER);
        const Tiles tiles{queries + QUERY_BYTES, *reinterpret_cast<Turns *>(shared + BARRIERS)};
        load_tile<T, KDIM, ROWS, THREADS>(queries, at.q, task, args);
        const Lookout lookout{shared};
        if (threadIdx.x == 0) {
            lookout.note(task);
            tiles.begin();
        }
        if (group == 0) lookout.look<STRIP>(task, warp * STRIP, true);
        const Span whole = span_of(task, lookout.look<ROWS>(task, 0, false), lookout);
        if (threadIdx.x == 0) {
            lookout.span() = whole;
            lookout.pages() = Pages(at.table, args, task.seq, task.kv_head);
        }
        copy_wait<0>();
        proxy_fence();
        __syncthreads();
        const Span &span = lookout.span();
        if (group == 2) {
            registers_less<40>();
            if (warp == 8) tiles.produce(at.k, lookout.pages(), span, &maps.keys, lane);
        } else {
            registers_more<232>();
            const int strip = warp % 4 * STRIP;
            consume(at, args, lookout, span, queries, tiles, {group, strip, strip + lane / 4, lane, reinterpret_cast<float *>(shared + TOPS)});
        }
    }

    __device__ static void consume(const Operands &at, const fkv_attend_args &args, const Lookout &lookout, const Span &span,
                                   const unsigned char *queries, const Tiles &tiles, const Place &place) {
        const Scoring scoring(args, at.alibi, 1);
        const int group = place.group;
        float o[O], s[S], top[2] = {NEG_INF, NEG_INF}, sum[2] = {0, 0}, shrink[2];
        uint32_t p[KEYS / 16][4], turn = 0;
#pragma unroll
        for (int i = 0; i < O; i++) o[i] = 0;
#pragma unroll 1
        for (int begin = group * KEYS; begin < span.count + group * KEYS; begin += 2 * KEYS) {
            multiply(s, queries, tiles, group, turn);
            if (!scoring.plain || begin + KEYS > span.count || !lookout.extent(place.strip).all(span.at(begin), span.at(begin + KEYS - 1))) {
                complete_scores(s, scoring, lookout, place.row, span, begin, place.lane);
            }
#pragma unroll
            for (int half = 0; half < 2; half++) {
                shrink[half] = highest(s, half, top[half]);
                if (place.lane % 4 == 0) place.mine(half) = shrink[half];
            }
            some_sync<256>(1); // tops of both are there, and nobody multiplies keys any more
#pragma unroll
            for (int half = 0; half < 2; half++) shrink[half] = weigh_row(s, half, fmaxf(shrink[half], place.other(half)), top[half], sum[half], scoring);
            pack_weights<T>(p, s);
            share(tiles.column(group, Tiles::COLUMNS - 1), p, place);
#pragma unroll
            for (int i = 0; i < O; i++) o[i] *= shrink[i / 2 % 2];
            proxy_fence();
            hold(o);
            hold(p);
            wgmma_fence();
            mix(o, p, tiles.column(group, group * FIRST));
            some_sync<256>(2); // weights of both are there
#pragma unroll
            for (int c = 0; c < FIRST; c++) barrier_observe(tiles.turns.full[group ^ 1][group * FIRST + c], turn);
            mix(o, tiles.column(group ^ 1, Tiles::COLUMNS - 1), tiles.column(group ^ 1, group * FIRST));
            wgmma_wait<0>();
            hold(o);
            barrier_arrive(tiles.turns.free[0]), barrier_arrive(tiles.turns.free[1]);
            turn ^= 1;
        }
        total(sum, place);
        Task same(at, args); // read again: what it says is not held in registers meanwhile
        if (same.read(ROWS) && same.writable()) finish_rows(o, top, sum, Output<T>{at, args, same}, scoring, place.strip, group * COLUMNS, place.lane);
    }

    // multiply makes the products of the queries with a warpgroup's tile.
    __device__ static void multiply(float (&s)[S], const unsigned char *queries, const Tiles &tiles, int group, uint32_t turn) {
        hold(s);
        wgmma_fence();
#pragma unroll
        for (int c = 0; c < Tiles::COLUMNS; c++) {
            barrier_wait(tiles.turns.full[group][c], turn);
#pragma unroll
            for (int d = 0; d < 4; d++) {
                wgmma_keys(s, tile_of(queries + c * ROWS * 128 + d * 32, 16, 1024), tile_of(tiles.column(group, c) + d * 32, 16, 1024), c + d > 0, T());
            }
        }
        wgmma_commit();
        wgmma_wait<0>();
        hold(s);
    }

    // share writes the weights of a lane for the other warpgroup, as the first operand of products.
    __device__ static void share(unsigned char *to, const uint32_t (&p)[KEYS / 16][4], const Place &place) {
#pragma unroll
        for (int k = 0; k < KEYS / 16; k++) {
#pragma unroll
            for (int i = 0; i < 4; i++) *reinterpret_cast<uint32_t *>(to + swizzled<ROWS>(place.row + i % 2 * 8, k * 2 + i / 2) + place.lane % 4 * 4) = p[k][i];
        }
    }

    // mix begins to add values by weights, which are in registers, or in shared memory.
    __device__ static void mix(float (&o)[O], const uint32_t (&p)[KEYS / 16][4], const unsigned char *values) {
#pragma unroll
        for (int k = 0; k < KEYS / 16; k++) wgmma_values(o, p[k], tile_of(values + k * 16 * 128, Tiles::COLUMN_BYTES, 1024), T());
        wgmma_commit();
    }
    __device__ static void mix(float (&o)[O], const unsigned char *weights, const unsigned char *values) {
#pragma unroll
        for (int k = 0; k < KEYS / 16; k++) {
            wgmma_both(o, tile_of(weights + k * 32, 16, 1024), tile_of(values + k * 16 * 128, Tiles::COLUMN_BYTES, 1024), T());
        }
        wgmma_commit();
    }

    // total makes sums those of both warpgroups, which meet where tops were: these were read before the last weights were there.
    __device__ static void total(float (&sum)[2], const Place &place) {
#pragma unroll
        for (int half = 0; half < 2; half++) {
            sum[half] += __shfl_xor_sync(FULL, sum[half], 1);
            sum[half] += __shfl_xor_sync(FULL, sum[half], 2);
            if (place.lane % 4 == 0) place.mine(half) = sum[half];
        }
        some_sync<256>(1);
#pragma unroll
        for (int half = 0; half < 2; half++) sum[half] += place.other(half);
    }
};

} // namespace fkv
