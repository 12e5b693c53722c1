// The rate of matrix products of warpgroups, as probe_mma is that of warps: two warpgroups a multiprocessor, m64n256k16, both
// operands in shared memory. 2 * 64 * 256 * 16 operations a product and warpgroup.
#include "hopper.cuh"

namespace fkv {

struct ProbeWgmma {
    static constexpr int THREADS = 256, SHARED = 1024 + 2 * 64 * 128 + 256 * 128;

    __device__ static void run(float *out, uint32_t iterations) {
        FKV_SHARED(raw);
        unsigned char *a = raw + (1024 - (shared_address(raw) & 1023)), *b = a + 2 * 64 * 128;
        for (int i = threadIdx.x; i < (2 * 64 * 128 + 256 * 128) / 4; i += THREADS) reinterpret_cast<uint32_t *>(a)[i] = (i * 2654435761u & 0x3fff3fffu) | 0x20002000u; // no zeros: power
        proxy_fence();
        __syncthreads();
        float d[128];
#pragma unroll
        for (int i = 0; i < 128; i++) d[i] = 0;
        hold(d);
        wgmma_fence();
#pragma unroll 1
        for (uint32_t i = 0; i < iterations; i++) {
#pragma unroll
            for (int k = 0; k < 4; k++) wgmma_keys(d, tile_of(a + threadIdx.x / 128 * 64 * 128 + k * 32, 16, 1024), tile_of(b + k * 32, 16, 1024), 1, __nv_bfloat16());
            wgmma_commit();
            wgmma_wait<1>();
        }
        wgmma_wait<0>();
        hold(d);
        float sum = 0;
#pragma unroll
        for (int i = 0; i < 128; i++) sum += d[i];
        if (sum == 12345.f) *out = sum;
    }
};

} // namespace fkv

FKV_KERNEL(x_probe_wgmma, fkv::ProbeWgmma::THREADS, fkv::ProbeWgmma::SHARED, float *out, uint32_t iterations) { fkv::ProbeWgmma::run(out, iterations); }
