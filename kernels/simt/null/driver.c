/*
 * A driver library for benchmarks of the host's part of a step: every call succeeds at once
 * and does nothing, on one device with the numbers of an H100. Device memory is addresses
 * that nobody may read. A copy moves no bytes, as on a device, where the host only enqueues
 * it. Events are always reached. Results of kernels are not to be looked at.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "types.h"

/* The prototypes, so that the definitions below are those that the backend calls. */
#define CALL(name, parameters) CUresult name parameters;
#include "calls.h"

#define MEMORY (80ull << 30)
#define ALIGN 256

/* Handles and addresses are numbers that are used once. */
static atomic_ullong last = 1ull << 40;

static unsigned long long fresh(size_t bytes) {
    return atomic_fetch_add(&last, (bytes + ALIGN - 1) / ALIGN * ALIGN + ALIGN);
}

#define MADE(out) (*(out) = (void *)fresh(1), CUDA_SUCCESS)

CUresult cuInit(unsigned int flags) { return CUDA_SUCCESS; }
CUresult cuDriverGetVersion(int *version) { return *version = 12040, CUDA_SUCCESS; }
CUresult cuGetErrorName(CUresult error, const char **name) { return *name = "CUDA_ERROR_OF_NULL", CUDA_SUCCESS; }
CUresult cuGetErrorString(CUresult error, const char **text) { return *text = "refused by the null driver", CUDA_SUCCESS; }

CUresult cuDeviceGetCount(int *count) { return *count = 1, CUDA_SUCCESS; }
CUresult cuDeviceGet(CUdevice *device, int ordinal) { return *device = ordinal, CUDA_SUCCESS; }
CUresult cuDeviceGetName(char *name, int size, CUdevice device) {
    snprintf(name, size, "null driver %d", device);
    return CUDA_SUCCESS;
}
CUresult cuDeviceGetPCIBusId(char *bus, int size, CUdevice device) {
    snprintf(bus, size, "0000:%02x:00.0", device);
    return CUDA_SUCCESS;
}
CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device) { return *bytes = MEMORY, CUDA_SUCCESS; }
CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device) {
    switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: *value = 132; break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: *value = 9; break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: *value = 0; break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: *value = 227 << 10; break;
    case CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED: *value = 1; break;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) { return *context = (CUcontext)ALIGN, CUDA_SUCCESS; }
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) { return CUDA_SUCCESS; }
CUresult cuCtxPushCurrent_v2(CUcontext context) { return CUDA_SUCCESS; }
CUresult cuCtxPopCurrent_v2(CUcontext *context) { return *context = (CUcontext)ALIGN, CUDA_SUCCESS; }

CUresult cuMemGetInfo_v2(size_t *available, size_t *total) { return *available = *total = MEMORY, CUDA_SUCCESS; }
CUresult cuMemAlloc_v2(CUdeviceptr *ptr, size_t bytes) { return *ptr = fresh(bytes), CUDA_SUCCESS; }
CUresult cuMemFree_v2(CUdeviceptr ptr) { return CUDA_SUCCESS; }
CUresult cuMemHostAlloc(void **memory, size_t bytes, unsigned int flags) {
    *memory = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    if (*memory == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
    memset(*memory, 0, bytes); /* resident, as page-locked memory is */
    return CUDA_SUCCESS;
}
CUresult cuMemFreeHost(void *memory) { return free(memory), CUDA_SUCCESS; }
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr dst, const void *src, size_t bytes, CUstream stream) {
    return CUDA_SUCCESS;
}
CUresult cuMemcpyDtoHAsync_v2(void *dst, CUdeviceptr src, size_t bytes, CUstream stream) {
    return CUDA_SUCCESS;
}
CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream) {
    return CUDA_SUCCESS;
}
CUresult cuPointerGetAttribute(void *value, CUpointer_attribute attribute, CUdeviceptr ptr) {
    return CUDA_ERROR_INVALID_VALUE; /* nothing is to be imported */
}

CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *props) { return MADE(pool); }
CUresult cuMemPoolDestroy(CUmemoryPool pool) { return CUDA_SUCCESS; }
CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value) {
    return CUDA_SUCCESS;
}
CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value) {
    return *(unsigned long long *)value = 0, CUDA_SUCCESS;
}
CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t bytes) { return CUDA_SUCCESS; }
CUresult cuMemAllocFromPoolAsync(CUdeviceptr *ptr, size_t bytes, CUmemoryPool pool, CUstream stream) {
    return *ptr = fresh(bytes), CUDA_SUCCESS;
}
CUresult cuMemFreeAsync(CUdeviceptr ptr, CUstream stream) { return CUDA_SUCCESS; }

CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned int flags, int priority) { return MADE(stream); }
CUresult cuStreamDestroy_v2(CUstream stream) { return CUDA_SUCCESS; }
CUresult cuStreamSynchronize(CUstream stream) { return CUDA_SUCCESS; }
CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int flags) {
    return CUDA_SUCCESS;
}
CUresult cuStreamGetCtx(CUstream stream, CUcontext *context) { return *context = (CUcontext)ALIGN, CUDA_SUCCESS; }

CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode) { return CUDA_SUCCESS; }
CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph) { return MADE(graph); }
CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status) {
    return *status = CU_STREAM_CAPTURE_STATUS_NONE, CUDA_SUCCESS;
}
CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode) { return CUDA_SUCCESS; }
CUresult cuGraphDestroy(CUgraph graph) { return CUDA_SUCCESS; }
CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags) { return MADE(exec); }
CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream) { return CUDA_SUCCESS; }
CUresult cuGraphExecDestroy(CUgraphExec exec) { return CUDA_SUCCESS; }

CUresult cuEventCreate(CUevent *event, unsigned int flags) { return MADE(event); }
CUresult cuEventDestroy_v2(CUevent event) { return CUDA_SUCCESS; }
CUresult cuEventRecord(CUevent event, CUstream stream) { return CUDA_SUCCESS; }
CUresult cuEventQuery(CUevent event) { return CUDA_SUCCESS; }
CUresult cuEventSynchronize(CUevent event) { return CUDA_SUCCESS; }
CUresult cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end) {
    return *milliseconds = 0, CUDA_SUCCESS;
}

CUresult cuModuleLoadData(CUmodule *module, const void *image) { return MADE(module); }
CUresult cuModuleUnload(CUmodule module) { return CUDA_SUCCESS; }
CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
    return MADE(function);
}
CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value) {
    return CUDA_SUCCESS;
}
/* As many as threads and shared memory let an H100 have: 2048, and 228 KB less 1 KB a block. */
CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction function, int threads, size_t shared) {
    size_t by_shared = (228u << 10) / (shared + 1024), by_threads = 2048u / (threads < 1 ? 1 : threads);
    *blocks = by_shared < by_threads ? by_shared : by_threads;
    return CUDA_SUCCESS;
}
CUresult cuTensorMapEncodeTiled(CUtensorMap *map, CUtensorMapDataType type, unsigned int rank, void *address,
                                const cuuint64_t *dims, const cuuint64_t *strides, const cuuint32_t *box,
                                const cuuint32_t *steps, CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill) {
    return CUDA_SUCCESS;
}
CUresult cuLaunchKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
                        unsigned int block_x, unsigned int block_y, unsigned int block_z, unsigned int shared,
                        CUstream stream, void **params, void **extra) {
    return CUDA_SUCCESS;
}
