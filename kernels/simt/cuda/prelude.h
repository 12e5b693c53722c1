// The words of CUDA C++ for a C++ compiler that runs kernels on a CPU: those that our kernels
// use. nvcc knows them without an include, so the compiler is given this file with -include.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "../core/thread.h"
#include "arithmetic.h"
#include "atomic.h"
#include "kernel.h"
#include "warp.h"

#define __global__
#define __device__
#define __forceinline__ inline __attribute__((always_inline))
#define __align__(n) __attribute__((aligned(n)))
#define __launch_bounds__(...)
#define __grid_constant__

// A block has an OS thread to itself while it runs. The arrays keep what the block before
// left in them: poison is for dynamic shared memory only. AddressSanitizer guards static
// arrays, but none that belong to a thread; its build runs everything on one OS thread.
#ifdef __SANITIZE_ADDRESS__
#define __shared__ static
#else
#define __shared__ static thread_local
#endif

#define threadIdx (::simt::current->index)
#define blockIdx (::simt::current->around->block)
#define blockDim (::simt::current->around->size)
#define gridDim (::simt::current->around->grid)

inline void __syncthreads(simt::Site site = {}) { simt::barrier(true, site); }

using std::isinf;
using std::isnan;
using std::max;
using std::min;

inline int __ffs(int x) { return __builtin_ffs(x); }
inline float __fdividef(float x, float y) { return x / y; }
