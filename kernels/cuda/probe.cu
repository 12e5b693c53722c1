// Probes: what the device can do at most, for a benchmark to compare with. They
// use no cache.
#include "dtype.cuh"
#include "ptx.cuh"
#include "run.cuh"

namespace {

constexpr unsigned MMA_THREADS = 128;
constexpr int PRODUCTS = 8; // that do not depend on each other, a warp

// multiply keeps all operands in registers. A product of 16x16 by 16x8 is 4096
// floating point operations.
template <class T> __device__ inline void multiply(float *out, const fkv_probe_mma_args &args) {
    float sums[PRODUCTS][4] = {};
    const uint32_t small = fkv::pack<T>(0.001f * threadIdx.x, 0.5f);
    const uint32_t a[4] = {small, small, small, small};
    for (uint32_t i = 0; i < args.iterations; i++) {
#pragma unroll
        for (int p = 0; p < PRODUCTS; p++) {
            fkv::mma(sums[p], a, small, small, T());
        }
    }
    float sum = 0; // of all, so that no product is idle
#pragma unroll
    for (int p = 0; p < PRODUCTS; p++) {
        sum += sums[p][0] + sums[p][1] + sums[p][2] + sums[p][3];
    }
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        *out = sum;
    }
}

} // namespace

// Grid: x over the blocks that the device runs at once. They do iterations * 4 * 8
// products each.
FKV_KERNEL(fkv_probe_mma_f16, MMA_THREADS, 0, float *out, fkv_probe_mma_args args) {
    multiply<fkv::half>(out, args);
}
FKV_KERNEL(fkv_probe_mma_bf16, MMA_THREADS, 0, float *out, fkv_probe_mma_args args) {
    multiply<fkv::bfloat>(out, args);
}

namespace {

using Words = fkv::Run<uint32_t, 4>;

constexpr unsigned READ_THREADS = 256, READ_WARPS = READ_THREADS / 32;
constexpr int HELD = 4; // loads that a thread has on their way

} // namespace

// Grid: x over the words, 16 a thread at a time; as many blocks as the device runs
// at once read fastest, any grid is right. SRC is aligned to 16 bytes.
FKV_KERNEL(fkv_probe_read, READ_THREADS, 0, const Words *src, uint32_t *out, fkv_probe_read_args args) {
    const int64_t runs = args.bytes / 16, step = static_cast<int64_t>(gridDim.x) * READ_THREADS;
    uint32_t sum = 0;
    const int64_t thread = static_cast<int64_t>(blockIdx.x) * READ_THREADS + threadIdx.x;
    for (int64_t first = thread; first < runs; first += HELD * step) {
        Words held[HELD] = {};
#pragma unroll
        for (int i = 0; i < HELD; i++) {
            if (first + i * step < runs) {
                held[i] = src[first + i * step];
            }
        }
#pragma unroll
        for (int i = 0; i < HELD; i++) {
            sum += held[i].at[0] + held[i].at[1] + held[i].at[2] + held[i].at[3];
        }
    }
    // One addition to memory a block: they all go to the same word.
    __shared__ uint32_t of_warp[READ_WARPS];
    for (int distance = 16; distance > 0; distance /= 2) {
        sum += __shfl_xor_sync(fkv::FULL, sum, distance);
    }
    if (threadIdx.x % 32 == 0) {
        of_warp[threadIdx.x / 32] = sum;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        uint32_t total = 0;
        for (unsigned i = 0; i < READ_WARPS; i++) {
            total += of_warp[i];
        }
        atomicAdd(out, total);
    }
}
