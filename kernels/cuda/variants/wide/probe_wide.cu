// What the device can do at most with the instructions of 9.0a, and with launches that are long: limits beside those of probe.cu.
#include "hopper.cuh"
#include "run.cuh"

namespace fkv {

// Products of two warpgroups a multiprocessor, m64n256k16, with both operands in shared memory. An iteration is 4 products of each
// warpgroup, of 2 * 64 * 256 * 16 operations.
template <class T> struct ProbeWide {
    static constexpr int THREADS = 256, A = 64 * 128, B = 256 * 128, SHARED = 1024 + 2 * A + B;

    __device__ static void run(float *out, const fkv_probe_mma_args &args) {
        FKV_SHARED(raw);
        unsigned char *a = aligned_tiles(raw), *b = a + 2 * A;
        const uint32_t one = pack<T>(1, 1);
        for (int i = threadIdx.x; i < (2 * A + B) / 4; i += THREADS) reinterpret_cast<uint32_t *>(a)[i] = one;
        proxy_fence();
        __syncthreads();
        float d[128];
#pragma unroll
        for (int i = 0; i < 128; i++) d[i] = 0;
        hold(d);
        wgmma_fence();
#pragma unroll 1
        for (uint32_t i = 0; i < args.iterations; i++) {
#pragma unroll
            for (int k = 0; k < 4; k++) wgmma_keys(d, tile_of(a + threadIdx.x / 128 * A + k * 32, 16, 1024), tile_of(b + k * 32, 16, 1024), 1, T());
            wgmma_commit();
            wgmma_wait<1>();
        }
        wgmma_wait<0>();
        hold(d);
        float sum = 0; // of all, so that no product is idle
#pragma unroll
        for (int i = 0; i < 128; i++) sum += d[i];
        if (blockIdx.x == 0 && threadIdx.x == 0) *out = sum;
    }
};

struct ProbeLong {
    uint32_t size, rounds;
    int64_t bytes;
};

} // namespace fkv

#define FKV_PROBE_WIDE(name, T)                                                                                               \
    FKV_KERNEL(name, fkv::ProbeWide<T>::THREADS, fkv::ProbeWide<T>::SHARED, float *out, fkv_probe_mma_args args) {            \
        fkv::ProbeWide<T>::run(out, args);                                                                                    \
    }
FKV_PROBE_WIDE(x_probe_wide_f16, fkv::half)
FKV_PROBE_WIDE(x_probe_wide_bf16, fkv::bfloat)

namespace {

constexpr unsigned READ_THREADS = 256;
constexpr int READ_HELD = 8; // loads of 16 bytes that a thread has on their way

} // namespace

// As fkv_probe_read, but all of memory several times in one launch: its beginning and end, where not all of the device reads, are a
// smaller part of it. Each thread adds what it read to out, an integer.
FKV_KERNEL(x_probe_read, READ_THREADS, 0, const fkv::Run<uint32_t, 4> *src, uint32_t *out, fkv::ProbeLong args) {
    const int64_t runs = args.bytes / 16, step = int64_t(gridDim.x) * READ_THREADS, thread = int64_t(blockIdx.x) * READ_THREADS + threadIdx.x;
    uint32_t sum = 0;
    for (uint32_t round = 0; round < args.rounds; round++) {
        int64_t first = thread;
        for (; first + (READ_HELD - 1) * step < runs; first += READ_HELD * step) {
            fkv::Run<uint32_t, 4> held[READ_HELD];
#pragma unroll
            for (int i = 0; i < READ_HELD; i++) held[i] = src[first + i * step];
#pragma unroll
            for (int i = 0; i < READ_HELD; i++) sum += held[i].at[0] + held[i].at[1] + held[i].at[2] + held[i].at[3];
        }
        for (; first < runs; first += step) sum += src[first].at[0] + src[first].at[1] + src[first].at[2] + src[first].at[3];
    }
    atomicAdd(out, sum);
}
