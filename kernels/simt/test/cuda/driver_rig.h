// What the tests of the stand-in driver share: a device to begin with, and small kernels.
#pragma once

#include <cstdio>
#include <cstring>
#include <vector>

#include "../../driver/api.h"
#include "../../driver/control.h"
#include "../../simt.h"
#include "../child.h"

namespace rig {

// want ends the process when a call did not give the result.
inline void want(CUresult got, CUresult expected, int line = __builtin_LINE()) {
    if (got == expected)
        return;
    const char *name = "?", *expected_name = "?";
    cuGetErrorName(got, &name);
    cuGetErrorName(expected, &expected_name);
    fprintf(stderr, "line %d: got %s, want %s\n", line, name, expected_name);
    _exit(1);
}

inline void good(CUresult got, int line = __builtin_LINE()) { want(got, CUDA_SUCCESS, line); }

inline fkv_standin_counts counts() {
    fkv_standin_counts c;
    fkv_standin_count(&c, sizeof c);
    return c;
}

// Primary is a device's context, current as long as it lives. Nothing may be left in it, and
// no misuse may have been seen.
struct Primary {
    CUcontext context;
    CUdevice device;

    explicit Primary(CUdevice device = 0) : device(device) {
        good(cuInit(0));
        good(cuDevicePrimaryCtxRetain(&context, device));
        good(cuCtxPushCurrent_v2(context));
    }
    ~Primary() {
        good(cuCtxPopCurrent_v2(nullptr));
        good(cuDevicePrimaryCtxRelease_v2(device));
        demand(counts().abandoned == 0 && counts().misuse == 0);
    }
};

inline CUstream stream(unsigned flags = CU_STREAM_NON_BLOCKING) {
    CUstream s;
    good(cuStreamCreateWithPriority(&s, flags, 0));
    return s;
}

inline CUevent event(unsigned flags = CU_EVENT_DISABLE_TIMING) {
    CUevent e;
    good(cuEventCreate(&e, flags));
    return e;
}

inline CUdeviceptr memory(size_t bytes) {
    CUdeviceptr p;
    good(cuMemAlloc_v2(&p, bytes));
    return p;
}

template <class T> T *pinned(size_t n) {
    void *p;
    good(cuMemHostAlloc(&p, n * sizeof(T), 0));
    return static_cast<T *>(p);
}

// Image is a fat binary whose one entry claims machine code for an architecture, with the kernels
// that are named in it.
struct Image {
    uint32_t magic = 0xba55ed50;
    uint16_t version = 1, header_size = 16;
    uint64_t size = 64 + sizeof names;
    uint16_t kind = 2, entry_version = 0x101;
    uint32_t entry_header_size = 64;
    uint64_t data_size = sizeof names;
    uint32_t packed = 0, options = 0;
    uint16_t minor = 7, major = 1;
    uint32_t arch;
    uint64_t rest[4] = {};
    char names[64] = ".entry test_add(\n.entry test_stray(\n.entry test_wide(\n";

    explicit Image(uint32_t arch) : arch(arch) {}
};

// The kernels: test_add adds to n numbers, test_stray writes one number anywhere, and
// test_wide has too many parameters.
struct Registered {
    Registered();
};

inline void add(void *const *params) {
    int *p = *static_cast<int **>(params[0]), n = *static_cast<int *>(params[1]), by = *static_cast<int *>(params[2]);
    for (int i = 0; i < n; i++)
        p[i] += by;
}

inline void stray(void *const *params) {
    volatile int *p = *static_cast<int **>(params[0]);
    p[*static_cast<int64_t *>(params[1])] = 1;
}

inline Registered::Registered() {
    static const size_t add_sizes[] = {8, 4, 4}, stray_sizes[] = {8, 8}, wide_sizes[] = {4096, 8};
    simt::add({"test_add", 64, 0, add_sizes, 3, add});
    simt::add({"test_stray", 1, 0, stray_sizes, 2, stray});
    simt::add({"test_wide", 1, 0, wide_sizes, 2, [](void *const *) {}});
}

inline CUfunction function(CUmodule module, const char *name) {
    CUfunction f;
    good(cuModuleGetFunction(&f, module, name));
    return f;
}

inline CUmodule module() {
    Image image(80);
    image.kind = 1; // PTX, which every newer device takes
    CUmodule m;
    good(cuModuleLoadData(&m, &image));
    return m;
}

inline CUresult launch_add(CUfunction f, CUstream s, CUdeviceptr p, int n, int by) {
    void *params[] = {&p, &n, &by};
    return cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, s, params, nullptr);
}

} // namespace rig
