// Attention of items of up to 128 rows by warpgroups, for 9.0a: one warpgroup brings tiles, two multiply. The algorithm is
// FlashAttention-3's (arXiv:2407.08608).
#pragma once

#include "strip.cuh"
#include "warpgroup.cuh"

namespace fkv {

// BOXES: full leaves come by the device's copy engine, whose tensor maps are there; else, and at the edges of masks, by
// the producers' own copies. PINGPONG: one warpgroup multiplies while the other has exponentials.
template <class T, int KDIM, int VDIM, bool BOXES, bool PINGPONG> struct Wide {
    static constexpr int GROUPS = 2, ROWS = FKV_WIDE_ROWS, KEYS = 128, STAGES = 2, LEAVES = KEYS / LEAF;
    static constexpr int THREADS = 128 * (GROUPS + 1), BLOCKS = 1;
    static constexpr int HALF = 64;                                        // elements of a row of 128 bytes
    static constexpr int KEY_BYTES = KEYS * KDIM * 2, VALUE_BYTES = KEYS * VDIM * 2;
    static constexpr int BARRIERS = Lookout::bytes(ROWS), AFTER = BARRIERS + 128;
    static constexpr int QUERY_BYTES = ROWS * KDIM * 2;
    static constexpr int SHARED = AFTER + 1024 + QUERY_BYTES + STAGES * (KEY_BYTES + VALUE_BYTES);
    static_assert(SHARED <= 227 * 1024, "what a block may have on 9.0");
    static_assert(ROWS == 64 * GROUPS, "a warpgroup has 64");
    static constexpr int S = KEYS / 2, O = VDIM / 2; // registers of an accumulator

    struct Turns { Barrier keys[STAGES], values[STAGES], keys_free[STAGES], values_free[STAGES]; };
    static_assert(sizeof(Turns) <= 128, "beside the lookout");

    __device__ static void run(const Operands &at, const fkv_attend_args &args, const TensorMaps &maps) {
        Task task(at, args);
        if (!task.read(ROWS) || !task.writable()) return;
        FKV_SHARED(shared);
        const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, group = warp / 4;
        unsigned char *queries = aligned_tiles(shared + AFTER), *keys = queries + QUERY_BYTES, *values = keys + STAGES * KEY_BYTES;
        Turns &turns = *reinterpret_cast<Turns *>(shared + BARRIERS);
        load_tile<T, KDIM, ROWS, THREADS>(queries, at.q, task, args);
        const Lookout lookout{shared};
        if (threadIdx.x == 0) {
            lookout.note(task);
            for (int i = 0; i < STAGES; i++) {
                const uint32_t producers = BOXES ? 32 : 128;
                barrier_init(turns.keys[i], producers + BOXES), barrier_init(turns.values[i], producers + BOXES);
                barrier_init(turns.keys_free[i], GROUPS * 128), barrier_init(turns.values_free[i], GROUPS * 128);
            }
            barrier_ready();
        }
        if (group > 0) lookout.look<STRIP_ROWS>(task, (warp - 4) * STRIP_ROWS, true);
        const Span whole = span_of(task, lookout.look<ROWS>(task, 0, false), lookout);
        if (threadIdx.x == 0) {
            lookout.span() = whole;
            lookout.pages() = Pages(at.table, args, task.seq, task.kv_head);
        }
        copy_wait<0>();
        proxy_fence();
        __syncthreads();
        const Span &span = lookout.span();
        if (group == 0) {
            registers_less<40>();
            if (!BOXES || warp == 0) produce(at, lookout.pages(), span, maps, keys, values, turns, warp, lane);
        } else {
            registers_more<232>();
            consume(at, args, lookout, span, queries, keys, values, turns, group - 1, warp - 4, lane);
        }
    }

    // produce brings the tiles of keys and values, each where the consumers have given its place back.
    __device__ static void produce(const Operands &at, const Pages &pages, const Span &span, const TensorMaps &maps, unsigned char *keys,
                                   unsigned char *values, Turns &turns, int warp, int lane) {
        int stage = 0;
        uint32_t turn = 0;
#pragma unroll 1
        for (int begin = 0; begin < span.count; begin += KEYS) {
            const Stretch tile{pages, span, begin};
            int64_t row = Stretch::APART; // of this lane's leaf
            if (lane < LEAVES && begin + lane * LEAF < span.count) row = tile.run(lane * LEAF, LEAF);
            barrier_wait(turns.keys_free[stage], turn ^ 1);
            bring<KDIM>(keys + stage * KEY_BYTES, at.k, &maps.keys, tile, row, turns.keys[stage], warp, lane);
            barrier_wait(turns.values_free[stage], turn ^ 1);
            bring<VDIM>(values + stage * VALUE_BYTES, at.v, &maps.values, tile, row, turns.values[stage], warp, lane);
            if (++stage == STAGES) stage = 0, turn ^= 1;
        }
    }

    template <int DIM> __device__ static void bring(unsigned char *to, const void *plane, const TensorMap *map, const Stretch &tile,
                                                    int64_t row, Barrier &there, int warp, int lane) {
        constexpr int PIECES = DIM / 8, EACH = BOXES ? LEAVES : LEAVES / 4;
        if constexpr (BOXES) {
            const unsigned boxed = __ballot_sync(FULL, lane < LEAVES && row != Stretch::APART);
            if (lane == 0) barrier_arrive_expect(there, __popc(boxed) * LEAF * DIM * 2);
            __syncwarp();
            if (lane < LEAVES && row != Stretch::APART) {
#pragma unroll
                for (int half = 0; half < DIM / HALF; half++) {
                    copy_box(to + half * KEYS * 128 + lane * LEAF * 128, map, half * HALF, int(row), there);
                }
            }
        }
#pragma unroll 1
        for (int leaf = BOXES ? 0 : warp * EACH; leaf < (BOXES ? LEAVES : (warp + 1) * EACH); leaf++) {
            const int64_t from = __shfl_sync(FULL, row, leaf);
            if (from != Stretch::APART && BOXES) continue;
            const unsigned char *of = static_cast<const unsigned char *>(plane);
            if (from != Stretch::APART) {
#pragma unroll
                for (int i = 0; i < LEAF * PIECES; i += 32) {
                    const int r = leaf * LEAF + (i + lane) / PIECES, piece = (i + lane) % PIECES;
                    copy_async<16>(to + swizzled<KEYS>(r, piece), of + (from * DIM + (i + lane) * 8) * 2, true);
                }
            } else {
#pragma unroll 1
                for (int i = lane; i < LEAF * PIECES; i += 32) {
                    const int r = leaf * LEAF + i / PIECES, piece = i % PIECES;
                    copy_async<16>(to + swizzled<KEYS>(r, piece), of + (tile.row(r) * DIM + piece * 8) * 2, tile.has(r));
                }
            }
        }
        if constexpr (BOXES) { // leaves at the edges of masks alone are copied here
            copy_commit();
            copy_wait<0>();
            proxy_fence();
            barrier_arrive(there);
        } else {
            barrier_copies(there);
        }
    }

    __device__ static void multiply(float (&s)[S], const unsigned char *queries, const unsigned char *keys) {
#pragma unroll
        for (int d = 0; d < KDIM / 16; d++) {
            wgmma_keys(s, tile_of(queries + d / 4 * ROWS * 128 + d % 4 * 32, 16, 1024), tile_of(keys + d / 4 * KEYS * 128 + d % 4 * 32, 16, 1024), d > 0, T());
        }
        wgmma_commit();
    }

    __device__ static void mix(float (&o)[O], const uint32_t (&p)[KEYS / 16][4], const unsigned char *values) {
#pragma unroll
        for (int k = 0; k < KEYS / 16; k++) wgmma_values(o, p[k], tile_of(values + k * 16 * 128, KEYS * 128, 1024), T());
        wgmma_commit();
    }

    __device__ static void consume(const Operands &at, const fkv_attend_args &args, const Lookout &lookout, const Span &span,
                                   const unsigned char *queries, const unsigned char *keys, const unsigned char *values, Turns &turns, int group,
                                   int strip, int lane) {
        Scoring scoring(args, at.alibi, 1);
        const int from = strip * STRIP_ROWS, count = span.count;
        const unsigned char *mine = queries + group * 64 * 128;
        float o[O], s[S], top[2] = {NEG_INF, NEG_INF}, sum[2] = {0, 0}, shrink[2];
        uint32_t p[KEYS / 16][4];
#pragma unroll
        for (int i = 0; i < O; i++) o[i] = 0;
        int stage = 0, before = 0;
        uint32_t turn = 0, turn_before = 0;
        if (count > 0) {
            if (PINGPONG && group == 1) some_arrive<256>(1); // group 0 is first
            barrier_wait(turns.keys[0], 0);
            if (!BOXES) proxy_fence();
            if (PINGPONG) some_sync<256>(1 + group);
            hold(s);
            wgmma_fence();
            multiply(s, mine, keys);
            if (PINGPONG) some_arrive<256>(2 - group);
            wgmma_wait<0>();
            hold(s);
            barrier_arrive(turns.keys_free[0]);
            weigh(s, top, sum, shrink, scoring, lookout, from, span, 0, lane);
            pack_weights<T>(p, s);
            if (++stage == STAGES) stage = 0, turn ^= 1;
        }
#pragma unroll 1
        for (int begin = KEYS; begin < count; begin += KEYS) {
            barrier_wait(turns.keys[stage], turn);
            if (!BOXES) proxy_fence();
            if (PINGPONG) some_sync<256>(1 + group);
            hold(s);
            hold(o);
            hold(p);
            wgmma_fence();
            multiply(s, mine, keys + stage * KEY_BYTES);
            barrier_wait(turns.values[before], turn_before);
            if (!BOXES) proxy_fence();
            mix(o, p, values + before * VALUE_BYTES);
            if (PINGPONG) some_arrive<256>(2 - group);
            wgmma_wait<1>();
            hold(s);
            barrier_arrive(turns.keys_free[stage]);
            weigh(s, top, sum, shrink, scoring, lookout, from, span, begin, lane);
            wgmma_wait<0>();
            hold(o);
            barrier_arrive(turns.values_free[before]);
#pragma unroll
            for (int i = 0; i < O; i++) o[i] *= shrink[i / 2 % 2];
            pack_weights<T>(p, s);
            before = stage, turn_before = turn;
            if (++stage == STAGES) stage = 0, turn ^= 1;
        }
        if (count > 0) {
            if (PINGPONG && group == 0) some_sync<256>(1); // takes the last arrival of group 1, so that the barrier ends empty
            barrier_wait(turns.values[before], turn_before);
            if (!BOXES) proxy_fence();
            hold(o);
            hold(p);
            wgmma_fence();
            mix(o, p, values + before * VALUE_BYTES);
            wgmma_wait<0>();
            hold(o);
        }
#pragma unroll
        for (int half = 0; half < 2; half++) {
            sum[half] += __shfl_xor_sync(FULL, sum[half], 1);
            sum[half] += __shfl_xor_sync(FULL, sum[half], 2);
        }
        Task same(at, args); // read again: what it says is not held in registers meanwhile
        if (same.read(ROWS) && same.writable()) finish_rows(o, top, sum, Output<T>{at, args, same}, scoring, from, 0, lane);
    }

    // weigh makes weights of products and says by how much what was added up under a smaller top shrinks.
    __device__ static void weigh(float (&s)[S], float (&top)[2], float (&sum)[2], float (&shrink)[2], const Scoring &scoring,
                                 const Lookout &lookout, int row, const Span &span, int begin, int lane) {
        if (!scoring.plain || begin + KEYS > span.count || !lookout.extent(row).all(span.at(begin), span.at(begin + KEYS - 1))) {
            complete_scores(s, scoring, lookout, row + lane / 4, span, begin, lane);
        }
#pragma unroll
        for (int half = 0; half < 2; half++) shrink[half] = weigh_row(s, half, highest(s, half, top[half]), top[half], sum[half], scoring);
    }
};

} // namespace fkv
