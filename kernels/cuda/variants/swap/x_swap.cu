// Counts only: decode over E4M3 as it is (16 keys a tile), and with swapped operands (32 keys, up to 8 rows).
#include "direct.cuh"
namespace fkv {
__device__ inline void copy_tile(unsigned char *to, const unsigned char *from, int bytes, int lane) {
#pragma unroll
    for (int i = 0; i < bytes; i += 512) copy_async<16>(to + i + lane * 16, from + i + lane * 16, true);
}
struct Today {
    static constexpr int KEYS = 16;
    __device__ static void run(const half *q, const unsigned char *plane, float *out, const fkv_attend_args &args, const Span &span) {
        FKV_SHARED(shared);
        const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
        const Lookout lookout{shared};
        half *queries = reinterpret_cast<half *>(shared + 4096);
        for (int i = threadIdx.x; i < 16 * 136; i += 128) queries[i] = q[i];
        unsigned char *slots = shared + 16384 + warp * 8192;
        __syncthreads();
        Scoring scoring(args, nullptr, 1);
        Direct<128, 128, KEYS> strip(queries, args, lane);
#pragma unroll 1
        for (int begin = warp * KEYS; begin < span.count; begin += 4 * KEYS) {
            copy_tile(slots, plane + begin * 256, KEYS * 256, lane);
            copy_commit(), copy_wait<0>(), __syncwarp();
            float s[KEYS / 8][4];
            if (strip.weigh(s, slots, FKV_STORAGE_FP8E4M3, scoring, lookout, span, begin, lane)) strip.mix(s, slots + KEYS * 128, FKV_STORAGE_FP8E4M3, lane);
            __syncwarp();
        }
        strip.total();
        for (int n = 0; n < 16; n++) for (int e = 0; e < 4; e++) out[threadIdx.x * 64 + n * 4 + e] = strip.o[n][e] / strip.sum[e / 2];
    }
};
#ifdef FKV_SIMT
inline uint32_t turned(uint32_t x) {
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const uint32_t a = __shfl_sync(FULL, x, 2 * t * 4 + g / 2), b = __shfl_sync(FULL, x, (2 * t + 1) * 4 + g / 2);
    return (a >> g % 2 * 16 & 0xffff) | (b >> g % 2 * 16 & 0xffff) << 16;
}
#else
__device__ inline uint32_t turned(uint32_t x) {
    uint32_t r;
    asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;\n" : "=r"(r) : "r"(x));
    return r;
}
#endif
struct Swapped {
    static constexpr int KEYS = 32;
    __device__ static void run(const half *q, const unsigned char *plane, float *out, const fkv_attend_args &args, const Span &span) {
        FKV_SHARED(shared);
        int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
        const Lookout lookout{shared};
        if (threadIdx.x < 16) {
            Outlook &row = lookout.row(threadIdx.x);
            row.low = row.shut = row.begin = row.position = 0, row.end = span.count, row.slope = 0, row.branch = NO_BRANCH;
            if (threadIdx.x == 0) lookout.extent(0) = {0, 0, 0, span.count, 0, span.count, int(MOST_KEYS)};
        }
        __syncthreads();
        Scoring scoring(args, nullptr, 1);
        uint32_t qb[8][2];
#pragma unroll
        for (int d = 0; d < 8; d++) {
            const uint32_t *low = reinterpret_cast<const uint32_t *>(q + g * 136 + t * 16 + d / 4 * 64 + d % 4 * 4);
            qb[d][0] = low[0], qb[d][1] = low[1];
        }
        unsigned char *slots = shared + 16384 + warp * 8192;
        float o[8][4] = {}, top[2] = {NEG_INF, NEG_INF}, sum[2] = {0, 0};
#pragma unroll 1
        for (int begin = warp * KEYS; begin < span.count; begin += 4 * KEYS) {
            copy_tile(slots, plane + begin * 256, KEYS * 256, lane);
            copy_commit(), copy_wait<0>(), __syncwarp();
            const int l = unknown(lane);
            float s[2][4] = {};
#pragma unroll
            for (int chunk = 0; chunk < 2; chunk++) {
#pragma unroll
                for (int k = 0; k < 2; k++) {
                    const unsigned char *mine = slots + (k * 16 + l / 4) * 128 + ((chunk * 4 + l % 4) ^ (l / 4 % 2 * 4)) * 16;
                    const Run<uint32_t, 4> a = *reinterpret_cast<const Run<uint32_t, 4> *>(mine), b = *reinterpret_cast<const Run<uint32_t, 4> *>(mine + 8 * 128);
#pragma unroll
                    for (int w = 0; w < 4; w++) {
                        const uint32_t f[4] = {elements<E4M3, 0>(a.at[w]), elements<E4M3, 0>(b.at[w]), elements<E4M3, 1>(a.at[w]), elements<E4M3, 1>(b.at[w])};
                        mma(s[k], f, qb[chunk * 4 + w][0], qb[chunk * 4 + w][1], half());
                    }
                }
            }
            if (begin + KEYS > span.count || !lookout.extent(0).all(span.at(begin), span.at(begin + KEYS - 1))) {
#pragma unroll 1
                for (int i = 0; i < 2; i++) {
#pragma unroll
                    for (int e = 0; e < 4; e++) { const float x = lookout.score(s[0][e], scoring, t * 2 + e % 2, span, begin + i * 16 + e / 2 * 8 + g); s[0][e] = s[1][e], s[1][e] = x; }
                }
            }
            float shrink[2];
#pragma unroll
            for (int h = 0; h < 2; h++) {
                float m = fmaxf(fmaxf(top[h], fmaxf(s[0][h], s[0][2 + h])), fmaxf(s[1][h], s[1][2 + h]));
#pragma unroll
                for (int apart = 4; apart < 32; apart *= 2) m = fmaxf(m, __shfl_xor_sync(FULL, m, apart));
                shrink[h] = scoring.weight(top[h], m);
                const float less = (m == NEG_INF ? 0 : m) * scoring.binary;
                sum[h] *= shrink[h];
#pragma unroll
                for (int k = 0; k < 2; k++) {
#pragma unroll
                    for (int e = h; e < 4; e += 2) s[k][e] = exp2_fast(fmaf(s[k][e], scoring.binary, -less)), sum[h] += s[k][e];
                }
                top[h] = m;
            }
            if (__any_sync(FULL, shrink[0] != 1 || shrink[1] != 1)) {
#pragma unroll
                for (int n = 0; n < 8; n++) {
#pragma unroll
                    for (int e = 0; e < 4; e++) o[n][e] *= shrink[e % 2];
                }
            }
#pragma unroll
            for (int k = 0; k < 2; k++) {
                const uint32_t p0 = turned(pack<half>(s[k][0], s[k][1])), p1 = turned(pack<half>(s[k][2], s[k][3]));
                Run<uint32_t, 4> codes[4];
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    const int row = k * 16 + l % 4 * 2 + i % 2 + i / 2 * 8;
                    codes[i] = *reinterpret_cast<const Run<uint32_t, 4> *>(slots + KEYS * 128 + row * 128 + ((l / 4) ^ (l % 4 * 2)) * 16);
                }
#pragma unroll
                for (int w = 0; w < 4; w++) {
#pragma unroll
                    for (int u = 0; u < 2; u++) {
                        const uint32_t first = __byte_perm(codes[0].at[w], codes[1].at[w], u ? 0x7362 : 0x5140), second = __byte_perm(codes[2].at[w], codes[3].at[w], u ? 0x7362 : 0x5140);
                        const uint32_t f[4] = {elements<E4M3, 0>(first), elements<E4M3, 1>(first), elements<E4M3, 0>(second), elements<E4M3, 1>(second)};
                        mma(o[w * 2 + u], f, p0, p1, half());
                    }
                }
            }
            __syncwarp();
        }
#pragma unroll
        for (int h = 0; h < 2; h++) for (int apart = 4; apart < 32; apart *= 2) sum[h] += __shfl_xor_sync(FULL, sum[h], apart);
        for (int n = 0; n < 8; n++) for (int e = 0; e < 4; e++) out[threadIdx.x * 32 + n * 4 + e] = o[n][e] / sum[e % 2];
    }
};
} // namespace fkv
FKV_KERNEL(x_today, 128, 65536, const fkv::half *q, const unsigned char *plane, float *out, fkv_attend_args args, fkv::Span span) { fkv::Today::run(q, plane, out, args, span); }
FKV_KERNEL(x_swapped, 128, 65536, const fkv::half *q, const unsigned char *plane, float *out, fkv_attend_args args, fkv::Span span) { fkv::Swapped::run(q, plane, out, args, span); }
