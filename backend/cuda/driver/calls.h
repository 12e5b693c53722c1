//go:build linux && cgo && !nocuda

/*
 * Every function of the driver library that this package calls: CALL(name,
 * parameters). Each returns a CUresult. Included wherever something is made of the
 * list, with the macro defined; not guarded for that reason.
 */
CALL(cuInit, (unsigned int flags))
CALL(cuDriverGetVersion, (int *version))
CALL(cuGetErrorName, (CUresult error, const char **name))
CALL(cuGetErrorString, (CUresult error, const char **text))

CALL(cuDeviceGetCount, (int *count))
CALL(cuDeviceGet, (CUdevice *device, int ordinal))
CALL(cuDeviceGetName, (char *name, int size, CUdevice device))
CALL(cuDeviceGetPCIBusId, (char *bus, int size, CUdevice device))
CALL(cuDeviceTotalMem_v2, (size_t *bytes, CUdevice device))
CALL(cuDeviceGetAttribute, (int *value, CUdevice_attribute attribute, CUdevice device))
CALL(cuDevicePrimaryCtxRetain, (CUcontext *context, CUdevice device))
CALL(cuDevicePrimaryCtxRelease_v2, (CUdevice device))
CALL(cuCtxPushCurrent_v2, (CUcontext context))
CALL(cuCtxPopCurrent_v2, (CUcontext *context))

CALL(cuMemGetInfo_v2, (size_t *available, size_t *total))
CALL(cuMemAlloc_v2, (CUdeviceptr *ptr, size_t bytes))
CALL(cuMemFree_v2, (CUdeviceptr ptr))
CALL(cuMemHostAlloc, (void **memory, size_t bytes, unsigned int flags))
CALL(cuMemFreeHost, (void *memory))
CALL(cuMemcpyHtoDAsync_v2, (CUdeviceptr dst, const void *src, size_t bytes, CUstream stream))
CALL(cuMemcpyDtoHAsync_v2, (void *dst, CUdeviceptr src, size_t bytes, CUstream stream))
CALL(cuMemcpyDtoDAsync_v2, (CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream))
CALL(cuPointerGetAttribute, (void *value, CUpointer_attribute attribute, CUdeviceptr ptr))

CALL(cuMemPoolCreate, (CUmemoryPool *pool, const CUmemPoolProps *props))
CALL(cuMemPoolDestroy, (CUmemoryPool pool))
CALL(cuMemPoolSetAttribute, (CUmemoryPool pool, CUmemPool_attribute attribute, void *value))
CALL(cuMemPoolGetAttribute, (CUmemoryPool pool, CUmemPool_attribute attribute, void *value))
CALL(cuMemPoolTrimTo, (CUmemoryPool pool, size_t bytes))
CALL(cuMemAllocFromPoolAsync, (CUdeviceptr *ptr, size_t bytes, CUmemoryPool pool, CUstream stream))
CALL(cuMemFreeAsync, (CUdeviceptr ptr, CUstream stream))

CALL(cuStreamCreateWithPriority, (CUstream *stream, unsigned int flags, int priority))
CALL(cuStreamDestroy_v2, (CUstream stream))
CALL(cuStreamSynchronize, (CUstream stream))
CALL(cuStreamWaitEvent, (CUstream stream, CUevent event, unsigned int flags))
CALL(cuStreamGetCtx, (CUstream stream, CUcontext *context))

CALL(cuStreamBeginCapture_v2, (CUstream stream, CUstreamCaptureMode mode))
CALL(cuStreamEndCapture, (CUstream stream, CUgraph *graph))
CALL(cuStreamIsCapturing, (CUstream stream, CUstreamCaptureStatus *status))
CALL(cuThreadExchangeStreamCaptureMode, (CUstreamCaptureMode *mode))
CALL(cuGraphDestroy, (CUgraph graph))
CALL(cuGraphInstantiateWithFlags, (CUgraphExec *exec, CUgraph graph, unsigned long long flags))
CALL(cuGraphLaunch, (CUgraphExec exec, CUstream stream))
CALL(cuGraphExecDestroy, (CUgraphExec exec))

CALL(cuEventCreate, (CUevent *event, unsigned int flags))
CALL(cuEventDestroy_v2, (CUevent event))
CALL(cuEventRecord, (CUevent event, CUstream stream))
CALL(cuEventQuery, (CUevent event))
CALL(cuEventSynchronize, (CUevent event))
CALL(cuEventElapsedTime, (float *milliseconds, CUevent start, CUevent end))

CALL(cuModuleLoadData, (CUmodule *module, const void *image))
CALL(cuModuleUnload, (CUmodule module))
CALL(cuModuleGetFunction, (CUfunction *function, CUmodule module, const char *name))
CALL(cuFuncSetAttribute, (CUfunction function, CUfunction_attribute attribute, int value))
CALL(cuOccupancyMaxActiveBlocksPerMultiprocessor, (int *blocks, CUfunction function, int threads, size_t shared))
CALL(cuTensorMapEncodeTiled, (CUtensorMap *map, CUtensorMapDataType type, unsigned int rank, void *address,
                              const cuuint64_t *dims, const cuuint64_t *strides, const cuuint32_t *box,
                              const cuuint32_t *element_strides, CUtensorMapInterleave interleave,
                              CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill))
CALL(cuLaunchKernel, (CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
                      unsigned int block_x, unsigned int block_y, unsigned int block_z, unsigned int shared,
                      CUstream stream, void **params, void **extra))

#undef CALL
