// What every kernel file includes: how a kernel and its shared memory are declared.
// The same sources are compiled by nvcc for devices and, with FKV_SIMT, by a C++
// compiler for kernels/simt, which runs them on a CPU; its headers replace CUDA's.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <stdint.h>

#include "../abi.h"
#include "../storage.h"

#ifndef FKV_SIMT

// FKV_KERNEL(name, threads, shared, parameters...) begins the definition of a kernel
// that is launched with blocks of threads threads and shared bytes of dynamic shared
// memory. The host reads both from name_launch, so they are said once. One block a
// multiprocessor is asked for: nvcc spills registers rather than miss a round number.
// FKV_KERNEL_OF asks for more, where registers are few enough that nothing is spilt.
#define FKV_KERNEL(name, threads, shared, ...) FKV_KERNEL_OF(name, threads, shared, 1, __VA_ARGS__)
#define FKV_KERNEL_OF(name, threads, shared, blocks, ...)                           \
    extern "C" { __device__ uint32_t name##_launch[2] = {(threads), (shared)}; }    \
    extern "C" __global__ void __launch_bounds__(threads, blocks) name(__VA_ARGS__)

// FKV_SHARED(p) is the block's dynamic shared memory as unsigned char *p, aligned to
// 128 bytes.
#define FKV_SHARED(p) extern __shared__ __align__(128) unsigned char p[]

#endif

namespace fkv {

constexpr unsigned FULL = 0xffffffffu; // all lanes of a warp

} // namespace fkv
