// A draft of decode over latents for 9.0a: 64 heads of a query, keys of 576 elements whose first 512 are the values, blocks of 16.
// Without masks, sinks, parts and codes. Two warpgroups have scores of every other tile of 64 keys and half of the columns each; both take the
// same top, and weights go to the other through the places of the 64 elements of keys that values do not have.
#include "dtype.cuh"
#include "hopper.cuh"

namespace fkv {

template <class T> struct Mla {
    static constexpr int K = 576, V = 512, TILE = 64, BOX = TILE * 128, BOXES = K / 64, TILE_BYTES = BOXES * BOX;
    static constexpr int THREADS = 384, QUERY_BYTES = BOXES * 64 * 128;
    static constexpr int SHARED = 1024 + QUERY_BYTES + 2 * TILE_BYTES + 1024 + 256;
    static_assert(SHARED <= 227 * 1024, "what a block may have on 9.0");

    struct Turns { Barrier full[2][BOXES], free[2]; };

    __device__ static int place(int r, int piece) { return piece / 8 * 64 * 128 + r * 128 + (piece ^ r) % 8 * 16; }

    __device__ static void run(const T *q, const TensorMap *map, const uint32_t *table, T *out, float *lse, int count, int rows, float scale) {
        FKV_SHARED(raw);
        unsigned char *queries = raw + (1024 - (shared_address(raw) & 1023)), *tiles = queries + QUERY_BYTES;
        Turns &turns = *reinterpret_cast<Turns *>(tiles + 2 * TILE_BYTES);
        float *tops = reinterpret_cast<float *>(tiles + 2 * TILE_BYTES + 256); // [2][64], of the tiles of a pair
        const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, group = warp / 4;
        for (int i = threadIdx.x; i < 64 * K / 8; i += THREADS) {
            const int r = i / (K / 8), piece = i % (K / 8);
            copy_async<16>(queries + place(r, piece), q + r * K + piece * 8, true);
        }
        copy_commit();
        if (threadIdx.x == 0) {
            for (int s = 0; s < 2; s++) {
                for (int b = 0; b < BOXES; b++) barrier_init(turns.full[s][b], 1);
                barrier_init(turns.free[s], 256);
            }
            barrier_ready();
        }
        copy_wait<0>();
        proxy_fence();
        __syncthreads();
        if (group == 2) {
            registers_less<24>();
            if (warp == 8) produce(map, table, tiles, turns, count, rows, lane);
        } else {
            registers_more<240>();
            consume(queries, tiles, turns, tops, out, lse, count, scale, group, warp % 4, lane);
        }
    }

    __device__ static void produce(const TensorMap *map, const uint32_t *table, unsigned char *tiles, Turns &turns, int count, int rows, int lane) {
#pragma unroll 1
        for (int pair = 0; pair * 2 * TILE < count; pair++) {
#pragma unroll 1
            for (int s = 0; s < 2; s++) {
                const int first = (pair * 2 + s) * TILE + lane * 16;
                const int row = lane < 4 && first < count ? int(table[first / 16]) * 16 : rows; // behind the last row are zeros
                barrier_wait(turns.free[s], (pair & 1) ^ 1);
#pragma unroll 1
                for (int b = 0; b < BOXES; b++) {
                    if (lane == 0) barrier_expect(turns.full[s][b], BOX);
                    __syncwarp();
                    if (lane < 4) copy_box(tiles + s * TILE_BYTES + b * BOX + lane * 16 * 128, map, b * 64, row, turns.full[s][b]);
                }
            }
        }
    }

    __device__ static void consume(const unsigned char *queries, unsigned char *tiles, Turns &turns, float *tops, T *out, float *lse, int count,
                                   float scale, int group, int strip, int lane) {
        float o[V / 4], s[TILE / 2], top[2] = {-1e30f, -1e30f}, sum[2] = {0, 0};
        uint32_t p[TILE / 16][4];
#pragma unroll
        for (int i = 0; i < V / 4; i++) o[i] = 0;
        const int row = strip * 16 + lane / 4;
        unsigned char *mine = tiles + group * TILE_BYTES, *others = tiles + (group ^ 1) * TILE_BYTES;
        unsigned char *own_weights = mine + (BOXES - 1) * BOX, *other_weights = others + (BOXES - 1) * BOX;
#pragma unroll 1
        for (int pair = 0; pair * 2 * TILE < count; pair++) {
            hold(s);
            wgmma_fence();
#pragma unroll
            for (int b = 0; b < BOXES; b++) {
                barrier_wait(turns.full[group][b], pair & 1);
#pragma unroll
                for (int d = 0; d < 4; d++) wgmma_keys(s, tile_of(queries + b * 64 * 128 + d * 32, 16, 1024), tile_of(mine + b * BOX + d * 32, 16, 1024), b + d > 0, T());
            }
            wgmma_commit();
            wgmma_wait<0>();
            hold(s);
            const int begin = (pair * 2 + group) * TILE;
            if (begin + TILE > count) {
#pragma unroll
                for (int i = 0; i < TILE / 2; i++) {
                    if (begin + i / 4 * 8 + lane % 4 * 2 + i % 2 >= count) s[i] = -1e30f;
                }
            }
            float shrink[2];
#pragma unroll
            for (int half = 0; half < 2; half++) {
                float m = top[half];
#pragma unroll
                for (int n = 0; n < TILE / 8; n++) m = fmaxf(m, fmaxf(s[n * 4 + 2 * half], s[n * 4 + 2 * half + 1]));
                m = fmaxf(m, __shfl_xor_sync(FULL, m, 1));
                m = fmaxf(m, __shfl_xor_sync(FULL, m, 2));
                if (lane % 4 == 0) tops[group * 64 + row + half * 8] = m;
                shrink[half] = m;
            }
            some_sync<256>(1); // tops are there, and nobody multiplies keys any more
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const float m = fmaxf(shrink[half], tops[(group ^ 1) * 64 + row + half * 8]);
                shrink[half] = exp2_fast((top[half] - m) * scale);
                float total = sum[half] * shrink[half];
#pragma unroll
                for (int n = 0; n < TILE / 8; n++) {
#pragma unroll
                    for (int e = 0; e < 2; e++) {
                        float &x = s[n * 4 + 2 * half + e];
                        x = exp2_fast((x - m) * scale);
                        total += x;
                    }
                }
                sum[half] = total, top[half] = m;
            }
#pragma unroll
            for (int k = 0; k < TILE / 16; k++) {
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    p[k][i] = pack<T>(s[k * 8 + 2 * i], s[k * 8 + 2 * i + 1]);
                    const int r = row + i % 2 * 8, piece = k * 2 + i / 2;
                    *reinterpret_cast<uint32_t *>(own_weights + r * 128 + (piece ^ r) % 8 * 16 + lane % 4 * 4) = p[k][i];
                }
            }
#pragma unroll
            for (int i = 0; i < V / 4; i++) o[i] *= shrink[i / 2 % 2];
            proxy_fence();
            hold(o);
            wgmma_fence();
#pragma unroll
            for (int k = 0; k < TILE / 16; k++) wgmma_values(o, p[k], tile_of(mine + group * 4 * BOX + k * 16 * 128, BOX, 1024), T());
            wgmma_commit();
            some_sync<256>(2); // weights of both are there
#pragma unroll
            for (int b = 0; b < BOXES; b++) barrier_wait(turns.full[group ^ 1][b], pair & 1);
#pragma unroll
            for (int k = 0; k < TILE / 16; k++) wgmma_both(o, tile_of(other_weights + k * 32, 16, 1024), tile_of(others + group * 4 * BOX + k * 16 * 128, BOX, 1024), T());
            wgmma_commit();
            wgmma_wait<0>();
            hold(o);
            barrier_arrive(turns.free[0]), barrier_arrive(turns.free[1]);
        }
        some_sync<256>(1); // sums meet where tops were
#pragma unroll
        for (int half = 0; half < 2; half++) {
            sum[half] += __shfl_xor_sync(FULL, sum[half], 1);
            sum[half] += __shfl_xor_sync(FULL, sum[half], 2);
            if (lane % 4 == 0) tops[group * 64 + row + half * 8] = sum[half];
        }
        some_sync<256>(2);
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const float total = sum[half] + tops[(group ^ 1) * 64 + row + half * 8], factor = 1 / total;
            if (group == 0 && lane % 4 == 0) lse[row + half * 8] = (top[half] * scale + log2f(total)) / 1.4426950408889634f;
#pragma unroll
            for (int n = 0; n < V / 16; n++) {
                const uint32_t both = pack<T>(o[n * 4 + 2 * half] * factor, o[n * 4 + 2 * half + 1] * factor);
                *reinterpret_cast<uint32_t *>(out + (row + half * 8) * V + group * 256 + n * 8 + lane % 4 * 2) = both;
            }
        }
    }
};

} // namespace fkv

// q [blocks, 64, 576]; scale is of logarithms of 2; rows are those of the plane.
FKV_KERNEL(x_mla, (fkv::Mla<fkv::bfloat>::THREADS), (fkv::Mla<fkv::bfloat>::SHARED), const fkv::bfloat *q, const fkv::TensorMap *map, const uint32_t *table,
           fkv::bfloat *out, float *lse, int count, int rows, float scale) {
    fkv::Mla<fkv::bfloat>::run(q + blockIdx.x * 64 * 576, map, table, out + blockIdx.x * 64 * 512, lse + blockIdx.x * 64, count, rows, scale);
}
