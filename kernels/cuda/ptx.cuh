// The instructions that C++ has no word for, each behind a function. These are all
// the inline PTX there is; kernels/simt/cuda/ptx.h has their twins for the CPU, but of the last.
#pragma once

#include "kernel.cuh"

#ifdef FKV_SIMT
#include "ptx.h"
#else

namespace fkv {

__device__ inline uint32_t shared_address(const void *p) {
    return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

// unknown is x, which the compiler then cannot know. What follows from an argument it works out in
// front of a loop, and keeps in registers of which attention has none to spare.
__device__ inline uint32_t unknown(uint32_t x) {
    asm volatile("" : "+r"(x));
    return x;
}

// SharedAt is where copies to shared memory go, which is worked out once for all that begin there: for 9.0 the compiler
// does it for every copy, with a special register.
using SharedAt = uint32_t;
__device__ inline SharedAt shared_at(const void *p) { return unknown(shared_address(p)); }
__device__ inline const unsigned char *global_at(const void *p) { // likewise
    asm volatile("" : "+l"(p));
    return static_cast<const unsigned char *>(p);
}

// copy_async begins to copy BYTES bytes, 4, 8 or 16, from global to shared memory, both
// aligned to as many; without valid it begins to write zeros and reads nothing. The bytes are
// there once a copy_wait covers them, for the thread that copied; for others after a barrier.
template <int BYTES> __device__ inline void copy_async(SharedAt shared, const void *global, bool valid) {
    int bytes = valid ? BYTES : 0;
    if constexpr (BYTES == 16) {
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(shared), "l"(global), "r"(bytes) : "memory");
    } else {
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;\n" ::"r"(shared), "l"(global), "n"(BYTES), "r"(bytes) : "memory");
    }
}

template <int BYTES> __device__ inline void copy_async(void *shared, const void *global, bool valid) {
    copy_async<BYTES>(shared_address(shared), global, valid);
}

// copy_commit closes a group of copies, which may be empty.
__device__ inline void copy_commit() { asm volatile("cp.async.commit_group;\n" ::: "memory"); }

// copy_wait waits until at most PENDING of this thread's groups are under way.
template <int PENDING> __device__ inline void copy_wait() {
    asm volatile("cp.async.wait_group %0;\n" ::"n"(PENDING) : "memory");
}

// load_matrices reads four 8x8 matrices of 16-bit elements from shared memory: lane l
// names row l%8 of matrix l/8 (16 bytes, aligned), and register i of lane l gets
// elements (l/4, 2*(l%4)) and the next one of matrix i.
__device__ inline void load_matrices(uint32_t (&r)[4], const void *row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];\n"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(shared_address(row)) : "memory");
}

// load_transposed is load_matrices with each matrix transposed on the way.
__device__ inline void load_transposed(uint32_t (&r)[4], const void *row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];\n"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(shared_address(row)) : "memory");
}

// mma adds the product of a 16x16 matrix and a 16x8 matrix to d, 16x8 in f32, over the
// lanes of a warp. With g = lane/4 and t = lane%4: d[0], d[1] are (g, 2t), (g, 2t+1) and
// d[2], d[3] the same of row g+8; a[0] holds (g, 2t), (g, 2t+1), a[1] the same of row
// g+8, a[2] and a[3] of column +8; b[0] holds (2t, g), (2t+1, g), b[1] of row +8.
__device__ inline void mma(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, __half) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ inline void mma(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, __nv_bfloat16) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// product is that of two pairs of elements, each rounded once.
__device__ inline uint32_t product(uint32_t a, uint32_t b, __half) {
    uint32_t r;
    asm("mul.rn.f16x2 %0, %1, %2;\n" : "=r"(r) : "r"(a), "r"(b));
    return r;
}

__device__ inline uint32_t product(uint32_t a, uint32_t b, __nv_bfloat16) { // there is no mul before 9.0
    uint32_t r;
    asm("fma.rn.bf16x2 %0, %1, %2, %3;\n" : "=r"(r) : "r"(a), "r"(b), "r"(0x80008000));
    return r;
}

// sum is that of two pairs of elements, each rounded once.
__device__ inline uint32_t sum(uint32_t a, uint32_t b, __half) {
    uint32_t r;
    asm("add.rn.f16x2 %0, %1, %2;\n" : "=r"(r) : "r"(a), "r"(b));
    return r;
}

// fused is a*b+c of pairs of elements, each rounded once.
__device__ inline uint32_t fused(uint32_t a, uint32_t b, uint32_t c, __half) {
    uint32_t r;
    asm("fma.rn.f16x2 %0, %1, %2, %3;\n" : "=r"(r) : "r"(a), "r"(b), "r"(c));
    return r;
}

// exp2_fast is 2^x to about 22 bits, 0 for -inf.
__device__ inline float exp2_fast(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;\n" : "=f"(y) : "f"(x));
    return y;
}

} // namespace fkv

#endif

namespace fkv {

// float8_pair is two E4M3, the first in the lowest byte, as halves. It is an instruction of 8.9 and
// later, where FLOAT8 is true.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
constexpr bool FLOAT8 = true;
__device__ inline uint32_t float8_pair(uint32_t codes) {
    uint32_t r;
    asm("{ .reg .b16 low, high; mov.b32 {low, high}, %1; cvt.rn.f16x2.e4m3x2 %0, low; }\n" : "=r"(r) : "r"(codes));
    return r;
}
#else
constexpr bool FLOAT8 = false;
__device__ inline uint32_t float8_pair(uint32_t codes) { return codes; }
#endif

} // namespace fkv
