// Whether the device reads shared memory as its descriptors are taken to say: each form of product that the kernels of warpgroups
// have, of small integers, whose sums are exact. TestDescriptors (backend/cuda) names the forms.
#include "hopper.cuh"
#include "run.cuh"

namespace fkv {

template <class T> struct Descriptors {
    static constexpr int THREADS = 128, ROWS = 64, KEYS = 128, DIM = 128;
    static constexpr int SHARED = 2 * 1024 + (ROWS + KEYS) * DIM * 2;

    // store puts rows of COLUMNS elements where copies of boxes put them: columns of 64 elements, pieces of 16 bytes swizzled.
    template <int COLUMNS> __device__ static void store(unsigned char *to, const T *from, int rows) {
        for (int i = threadIdx.x; i < rows * COLUMNS / 8; i += THREADS) {
            const int r = i / (COLUMNS / 8), piece = i % (COLUMNS / 8);
            *reinterpret_cast<Run<T, 8> *>(to + piece / 8 * rows * 128 + r * 128 + (piece ^ r) % 8 * 16) = reinterpret_cast<const Run<T, 8> *>(from)[i];
        }
    }

    // begin makes accumulators of n columns zero, and end writes them to out, [ROWS, n], and moves it on.
    template <int D> __device__ static void begin(float (&d)[D]) {
#pragma unroll
        for (int i = 0; i < D; i++) d[i] = 0;
        hold(d);
        wgmma_fence();
    }

    template <int D> __device__ static void end(float (&d)[D], float *&out) {
        wgmma_commit();
        wgmma_wait<0>();
        hold(d);
        const int row = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4;
#pragma unroll
        for (int i = 0; i < D; i++) out[(row + i / 2 % 2 * 8) * 2 * D + i / 4 * 8 + threadIdx.x % 4 * 2 + i % 2] = d[i];
        out += ROWS * 2 * D;
        __syncthreads();
    }

    template <int D> __device__ static void keys(float (&d)[D], const unsigned char *a, const unsigned char *b, float *&out) {
        hold(d);
        wgmma_fence();
#pragma unroll
        for (int k = 0; k < DIM / 16; k++) wgmma_keys(d, tile_of(a + k / 4 * ROWS * 128 + k % 4 * 32, 16, 1024), tile_of(b + k / 4 * KEYS * 128 + k % 4 * 32, 16, 1024), k > 0, T());
        end(d, out);
    }

    // values adds the first DEPTH columns of a times b[DEPTH, 2 * D], whose columns of 64 elements are DEPTH rows: with a in registers,
    // and in shared memory.
    template <int DEPTH, int D> __device__ static void values(float (&d)[D], uint32_t (&rows)[DIM / 16][4], const unsigned char *a, const unsigned char *b, float *&out) {
        hold(rows);
        begin(d);
#pragma unroll
        for (int k = 0; k < DEPTH / 16; k++) wgmma_values(d, rows[k], tile_of(b + k * 16 * 128, DEPTH * 128, 1024), T());
        end(d, out);
        begin(d);
#pragma unroll
        for (int k = 0; k < DEPTH / 16; k++) wgmma_both(d, tile_of(a + k / 4 * ROWS * 128 + k % 4 * 32, 16, 1024), tile_of(b + k * 16 * 128, DEPTH * 128, 1024), T());
        end(d, out);
    }

    // run writes a[64, 128] times the transposed b[128, 128], with b stored by threads and by boxes, and times that of its first 64 rows;
    // then a times b, with a in registers and in shared memory; then both of a[64, 64] times b as [64, 256].
    __device__ static void run(const T *a, const T *b, float *out, const TensorMaps &maps) {
        FKV_SHARED(shared);
        Barrier &there = *reinterpret_cast<Barrier *>(shared);
        unsigned char *as = aligned_tiles(shared + sizeof there), *bs = as + ROWS * DIM * 2;
        store<DIM>(as, a, ROWS);
        store<DIM>(bs, b, KEYS);
        if (threadIdx.x == 0) {
            barrier_init(there, 1);
            barrier_ready();
        }
        proxy_fence();
        __syncthreads();
        float few[32], some[64], many[128];
        keys(some, as, bs, out);
        if (threadIdx.x == 0) {
            barrier_arrive_expect(there, KEYS * DIM * 2);
            for (int i = 0; i < 16; i++) copy_box(bs + i / 8 * KEYS * 128 + i % 8 * 16 * 128, &maps.keys, i / 8 * 64, i % 8 * 16, there);
        }
        barrier_wait(there, 0);
        keys(some, as, bs, out);
        keys(few, as, bs, out);
        uint32_t rows[DIM / 16][4];
        const int row = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4;
#pragma unroll
        for (int k = 0; k < DIM / 16; k++) {
#pragma unroll
            for (int i = 0; i < 4; i++) rows[k][i] = reinterpret_cast<const uint32_t *>(a)[((row + i % 2 * 8) * DIM + k * 16 + i / 2 * 8 + threadIdx.x % 4 * 2) / 2];
        }
        values<KEYS>(some, rows, as, bs, out);
        store<256>(bs, b, 64);
        proxy_fence();
        __syncthreads();
        values<64>(many, rows, as, bs, out);
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
