// Whether the device reads shared memory as its descriptors are taken to say: each form of product that the kernels of warpgroups
// have, of small integers, whose sums are exact.
#include "hopper.cuh"
#include "run.cuh"

namespace fkv {

template <class T> struct Descriptors {
    static constexpr int THREADS = 128, ROWS = 64, KEYS = 128, DIM = 128;
    static constexpr int SHARED = 2 * 1024 + (ROWS + KEYS) * DIM * 2;

    // store puts rows of DIM elements where copies of boxes put them: halves of 64 elements, pieces of 16 bytes swizzled.
    __device__ static void store(unsigned char *to, const T *from, int rows) {
        for (int i = threadIdx.x; i < rows * DIM / 8; i += THREADS) {
            const int r = i / (DIM / 8), piece = i % (DIM / 8);
            *reinterpret_cast<Run<T, 8> *>(to + piece / 8 * rows * 128 + r * 128 + (piece ^ r) % 8 * 16) = reinterpret_cast<const Run<T, 8> *>(from)[i];
        }
    }

    __device__ static void write(float *out, const float (&d)[64]) {
        const int row = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4;
        for (int i = 0; i < 64; i++) out[(row + i / 2 % 2 * 8) * KEYS + i / 4 * 8 + threadIdx.x % 4 * 2 + i % 2] = d[i];
    }

    __device__ static void end(float (&d)[64]) {
        wgmma_commit();
        wgmma_wait<0>();
        hold(d);
    }

    __device__ static void keys(float (&d)[64], const unsigned char *a, const unsigned char *b) {
        hold(d);
        wgmma_fence();
#pragma unroll
        for (int k = 0; k < DIM / 16; k++) wgmma_keys(d, tile_of(a + k / 4 * ROWS * 128 + k % 4 * 32, 16, 1024), tile_of(b + k / 4 * KEYS * 128 + k % 4 * 32, 16, 1024), k > 0, T());
        end(d);
    }

    // run writes a[64, 128] times the transposed b[128, 128], with b stored by threads and by boxes; then a times b, with a in
    // registers and in shared memory.
    __device__ static void run(const T *a, const T *b, float *out, const TensorMaps &maps) {
        FKV_SHARED(shared);
        Barrier &there = *reinterpret_cast<Barrier *>(shared);
        unsigned char *as = shared + 1024 + (1024 - (shared_address(shared) & 1023)) % 1024, *bs = as + ROWS * DIM * 2;
        store(as, a, ROWS);
        store(bs, b, KEYS);
        if (threadIdx.x == 0) {
            barrier_init(there, 1);
            barrier_ready();
        }
        proxy_fence();
        __syncthreads();
        float d[64];
        keys(d, as, bs);
        write(out, d);
        __syncthreads();
        if (threadIdx.x == 0) {
            barrier_expect(there, KEYS * DIM * 2);
            for (int i = 0; i < 16; i++) copy_box(bs + i / 8 * KEYS * 128 + i % 8 * 16 * 128, &maps.keys, i / 8 * 64, i % 8 * 16, there);
        }
        barrier_wait(there, 0);
        keys(d, as, bs);
        write(out + ROWS * KEYS, d);
        uint32_t rows[KEYS / 16][4];
        const int row = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4;
#pragma unroll
        for (int k = 0; k < KEYS / 16; k++) {
#pragma unroll
            for (int i = 0; i < 4; i++) rows[k][i] = reinterpret_cast<const uint32_t *>(a)[((row + i % 2 * 8) * KEYS + k * 16 + i / 2 * 8 + threadIdx.x % 4 * 2) / 2];
        }
#pragma unroll
        for (int i = 0; i < 64; i++) d[i] = 0;
        hold(d);
        wgmma_fence();
#pragma unroll
        for (int k = 0; k < KEYS / 16; k++) wgmma_values(d, rows[k], tile_of(bs + k * 16 * 128, KEYS * 128, 1024), T());
        end(d);
        write(out + 2 * ROWS * KEYS, d);
#pragma unroll
        for (int i = 0; i < 64; i++) d[i] = 0;
        hold(d);
        wgmma_fence();
#pragma unroll
        for (int k = 0; k < KEYS / 16; k++) wgmma_both(d, tile_of(as + k / 4 * ROWS * 128 + k % 4 * 32, 16, 1024), tile_of(bs + k * 16 * 128, KEYS * 128, 1024), T());
        end(d);
        write(out + 3 * ROWS * KEYS, d);
    }
};

} // namespace fkv

#define FKV_DESCRIPTORS(name, T)                                                                                              \
    FKV_KERNEL(name, fkv::Descriptors<T>::THREADS, fkv::Descriptors<T>::SHARED, const T *a, const T *b, float *out,           \
               const __grid_constant__ fkv::TensorMaps maps) {                                                                \
        fkv::Descriptors<T>::run(a, b, out, maps);                                                                            \
    }
FKV_DESCRIPTORS(x_descriptors_f16, fkv::half)
FKV_DESCRIPTORS(x_descriptors_bf16, fkv::bfloat)
