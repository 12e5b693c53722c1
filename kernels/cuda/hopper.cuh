// The instructions of 9.0a: matrix products of warpgroups (wgmma), barriers in shared memory (mbarrier), copies of boxes by
// tensor maps (TMA). Their twins for the CPU are in kernels/simt/cuda/hopper.h.
#pragma once

#include "ptx.cuh"
#include "dtype.cuh"

#ifdef FKV_SIMT
#include "hopper.h"
#else

namespace fkv {

// TensorMap is what cuTensorMapEncodeTiled makes: rows [width] of 16-bit elements, in boxes of 64 by 16, swizzled by 128 bytes.
struct alignas(64) TensorMap { uint64_t words[16]; };

// TensorMaps are those of a cache's planes.
struct TensorMaps { TensorMap keys, values; };

// Barrier counts arrivals and bytes, and completes its phase when all that it expects have come.
struct alignas(8) Barrier { uint64_t word; };

__device__ inline void barrier_init(Barrier &b, uint32_t count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;\n" ::"r"(shared_address(&b)), "r"(count) : "memory");
}
__device__ inline void barrier_ready() { asm volatile("fence.mbarrier_init.release.cluster;\n" ::: "memory"); }
__device__ inline void barrier_arrive(Barrier &b) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];\n" ::"r"(shared_address(&b)) : "memory");
}
__device__ inline void barrier_arrive_expect(Barrier &b, uint32_t bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;\n" ::"r"(shared_address(&b)), "r"(bytes) : "memory");
}
// barrier_copies arrives when the copies that this thread began are there.
__device__ inline void barrier_copies(Barrier &b) {
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];\n" ::"r"(shared_address(&b)) : "memory");
}
// barrier_wait waits until the phase of that parity is complete.
__device__ inline void barrier_wait(Barrier &b, uint32_t parity) {
    asm volatile("{\n .reg .pred p;\nagain:\n mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n @p bra done;\n bra again;\ndone:\n}\n"
                 ::"r"(shared_address(&b)), "r"(parity) : "memory");
}
// barrier_observe is barrier_wait for a phase that threads which this one met have seen complete: so that it has seen it by itself.
__device__ inline void barrier_observe(Barrier &b, uint32_t parity) { barrier_wait(b, parity); }
__device__ inline void proxy_fence() { asm volatile("fence.proxy.async.shared::cta;\n" ::: "memory"); }
__device__ inline void copy_box(void *to, const TensorMap *map, int column, int row, Barrier &b) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];\n"
                 ::"r"(shared_address(to)), "l"(map), "r"(column), "r"(row), "r"(shared_address(&b)) : "memory");
}
// some_sync waits for THREADS threads of the block, whole warps, at named barrier id, 1 to 15; some_arrive only counts as one.
template <int THREADS> __device__ inline void some_sync(int id) { asm volatile("bar.sync %0, %1;\n" ::"r"(id), "n"(THREADS) : "memory"); }
template <int THREADS> __device__ inline void some_arrive(int id) { asm volatile("bar.arrive %0, %1;\n" ::"r"(id), "n"(THREADS) : "memory"); }
template <int N> __device__ inline void registers_less() { asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;\n" ::"n"(N)); }
template <int N> __device__ inline void registers_more() { asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;\n" ::"n"(N)); }

__device__ inline void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;\n" ::: "memory"); }
__device__ inline void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;\n" ::: "memory"); }
template <int PENDING> __device__ inline void wgmma_wait() { asm volatile("wgmma.wait_group.sync.aligned %0;\n" ::"n"(PENDING) : "memory"); }

// hold keeps registers that a wgmma has until a wait from being written before or read after.
template <int N> __device__ inline void hold(float (&x)[N]) {
#pragma unroll
    for (int i = 0; i < N; i++) asm volatile("" : "+f"(x[i])::"memory");
}
template <int N> __device__ inline void hold(uint32_t (&x)[N][4]) {
#pragma unroll
    for (int i = 0; i < N; i++) asm volatile("" : "+r"(x[i][0]), "+r"(x[i][1]), "+r"(x[i][2]), "+r"(x[i][3])::"memory");
}

// Operands of a product: D accumulators of a thread, and their places in the text of an instruction.
#define FKV_D16(i)                                                                                                   \
    "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]),       \
        "+f"(d[i + 7]), "+f"(d[i + 8]), "+f"(d[i + 9]), "+f"(d[i + 10]), "+f"(d[i + 11]), "+f"(d[i + 12]),            \
        "+f"(d[i + 13]), "+f"(d[i + 14]), "+f"(d[i + 15])
#define FKV_D32 FKV_D16(0), FKV_D16(16)
#define FKV_D64 FKV_D32, FKV_D16(32), FKV_D16(48)
#define FKV_D128 FKV_D64, FKV_D16(64), FKV_D16(80), FKV_D16(96), FKV_D16(112)
#define FKV_P32 \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15" \
    ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define FKV_P64 FKV_P32 \
    ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47" \
    ", %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define FKV_P128 FKV_P64 \
    ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79" \
    ", %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95" \
    ", %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111" \
    ", %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"

// With a and b in shared memory, wgmma_keys adds the product of a matrix [64, 16] and the transposed one of b [n, 16] to d, or
// without more sets d to it; wgmma_both adds that of a and b [16, n]; wgmma_values takes a from registers. x0 to x4 are the
// places of the operands after the D accumulators.
#define FKV_WGMMA(D, n, T, name, x0, x1, x2, x3, x4)                                                                  \
    __device__ inline void wgmma_keys(float (&d)[D], uint64_t a, uint64_t b, int more, T) {                           \
        asm volatile("{ .reg .pred p; setp.ne.b32 p, " x2 ", 0; wgmma.mma_async.sync.aligned.m64n" n "k16.f32." name  \
                     "." name " {" FKV_P##D "}, " x0 ", " x1 ", p, 1, 1, 0, 0; }\n"                                    \
                     : FKV_D##D : "l"(a), "l"(b), "r"(more));                                                         \
    }                                                                                                                 \
    __device__ inline void wgmma_both(float (&d)[D], uint64_t a, uint64_t b, T) {                                     \
        asm volatile("wgmma.mma_async.sync.aligned.m64n" n "k16.f32." name "." name " {" FKV_P##D "}, " x0 ", " x1    \
                     ", 1, 1, 1, 0, 1;\n"                                                                             \
                     : FKV_D##D : "l"(a), "l"(b));                                                                    \
    }                                                                                                                 \
    __device__ inline void wgmma_values(float (&d)[D], const uint32_t (&a)[4], uint64_t b, T) {                       \
        asm volatile("wgmma.mma_async.sync.aligned.m64n" n "k16.f32." name "." name " {" FKV_P##D "}, {" x0 ", " x1   \
                     ", " x2 ", " x3 "}, " x4 ", 1, 1, 1, 1;\n"                                                       \
                     : FKV_D##D : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));                                \
    }
#define FKV_WGMMA_OF(T, name)                                                                                         \
    FKV_WGMMA(32, "64", T, name, "%32", "%33", "%34", "%35", "%36")                                                   \
    FKV_WGMMA(64, "128", T, name, "%64", "%65", "%66", "%67", "%68")                                                  \
    FKV_WGMMA(128, "256", T, name, "%128", "%129", "%130", "%131", "%132")

FKV_WGMMA_OF(__half, "f16")
FKV_WGMMA_OF(__nv_bfloat16, "bf16")

} // namespace fkv

#endif

namespace fkv {

// aligned_tiles is the first place from p on where swizzled tiles may begin.
__device__ inline unsigned char *aligned_tiles(unsigned char *p) { return p + (-shared_address(p) & 1023); }

// tile_of describes a matrix in shared memory, in rows of 128 bytes that are swizzled: leading and stride are bytes between its
// halves of 64 elements and groups of 8 rows.
__device__ inline uint64_t tile_of(const void *p, uint32_t leading, uint32_t stride) {
    return uint64_t(shared_address(p) >> 4 & 0x3fff) | uint64_t(leading >> 4) << 16 | uint64_t(stride >> 4) << 32 | uint64_t(1) << 62;
}

} // namespace fkv
