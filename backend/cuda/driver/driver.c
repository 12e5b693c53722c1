//go:build linux && cgo && !nocuda

#include "driver.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "types.h"

/* The functions of a library, under their names, and their numbers in a status. */
#define CALL(name, parameters) CUresult (*name) parameters;
struct library {
#include "calls.h"
};

#define CALL(name, parameters) NUMBER_##name,
enum {
#include "calls.h"
    NUMBERS
};

#define CALL(name, parameters) {#name, offsetof(struct library, name)},
static const struct {
    const char *name;
    size_t offset;
} calls[NUMBERS] = {
#include "calls.h"
};

static const struct library *functions(uintptr_t library) { return (const struct library *)library; }

/* The status of calling one of the library's functions. */
#define STATUS(library, name, ...) ((struct fkv_status){functions(library)->name(__VA_ARGS__), NUMBER_##name})

/* enter makes c current; leave restores what was, and passes a status on. What a
 * call made is not to be lost, so an earlier error that shows at leave does not count:
 * it shows again. */
static int enter(struct fkv_context c, struct fkv_status *s) {
    *s = STATUS(c.library, cuCtxPushCurrent_v2, (CUcontext)c.context);
    return s->code == CUDA_SUCCESS;
}

static struct fkv_status leave(struct fkv_context c, struct fkv_status s) {
    CUcontext ours;
    functions(c.library)->cuCtxPopCurrent_v2(&ours);
    return s;
}

/* The status of one call within its context: the body of most functions below. */
#define WITHIN(c, name, ...)                                                       \
    struct fkv_status entered;                                                     \
    return enter(c, &entered) ? leave(c, STATUS((c).library, name, __VA_ARGS__)) : entered

/* WITHIN for what is no work of a stream. Such calls may be unsafe while somebody captures
 * a stream of his, on this thread or another: the driver then refuses them and ends his
 * capture, although they have nothing to do with it (cuThreadExchangeStreamCaptureMode).
 * Which ones it does not say: even a query of an event is one. */
#define APART(c, name, ...)                                                        \
    struct fkv_status apart;                                                       \
    if (!enter(c, &apart)) return apart;                                           \
    CUstreamCaptureMode mode = relax((c).library);                                 \
    apart = STATUS((c).library, name, __VA_ARGS__);                                \
    restore((c).library, mode);                                                    \
    return leave(c, apart)

#define NO_MODE ((CUstreamCaptureMode)-1)

/* relax has captures not mind the thread's calls, until restore gets what it returns: the mode before,
 * or none where the driver leaves it as it is. */
static CUstreamCaptureMode relax(uintptr_t library) {
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    return functions(library)->cuThreadExchangeStreamCaptureMode(&mode) == CUDA_SUCCESS ? mode : NO_MODE;
}

static void restore(uintptr_t library, CUstreamCaptureMode mode) {
    if (mode != NO_MODE) functions(library)->cuThreadExchangeStreamCaptureMode(&mode);
}

uintptr_t fkv_open(const char *path, char *why, size_t size) {
    struct library *library = calloc(1, sizeof *library);
    if (library == NULL) {
        snprintf(why, size, "out of host memory");
        return 0;
    }
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL) {
        snprintf(why, size, "%s", dlerror());
        free(library);
        return 0;
    }
    for (size_t i = 0; i < NUMBERS; i++) {
        void *symbol = dlsym(handle, calls[i].name);
        if (symbol == NULL) {
            snprintf(why, size, "it has no %s", calls[i].name);
            free(library);
            dlclose(handle);
            return 0;
        }
        memcpy((char *)library + calls[i].offset, &symbol, sizeof symbol);
    }
    return (uintptr_t)library;
}

const char *fkv_call_name(int32_t call) { return calls[call].name; }

void fkv_describe(uintptr_t library, int32_t code, char *name, char *text, size_t size) {
    const char *found = NULL;
    functions(library)->cuGetErrorName(code, &found);
    snprintf(name, size, "%s", found == NULL ? "" : found);
    found = NULL;
    functions(library)->cuGetErrorString(code, &found);
    snprintf(text, size, "%s", found == NULL ? "" : found);
}

struct fkv_status fkv_init(uintptr_t library, int32_t *version, int32_t *devices) {
    struct fkv_status s = STATUS(library, cuDriverGetVersion, version); /* works before cuInit */
    if (s.code == CUDA_SUCCESS) s = STATUS(library, cuInit, 0);
    if (s.code == CUDA_SUCCESS) s = STATUS(library, cuDeviceGetCount, devices);
    return s;
}

struct fkv_status fkv_device_get(uintptr_t library, int32_t ordinal, struct fkv_device *out) {
    const struct {
        CUdevice_attribute attribute;
        int32_t *value;
    } attributes[] = {
        {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &out->major},
        {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &out->minor},
        {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, &out->units},
        {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, &out->shared},
        {CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, &out->pools},
    };
    CUdevice device;
    size_t memory = 0;
    struct fkv_status s = STATUS(library, cuDeviceGet, &device, ordinal);
    if (s.code == CUDA_SUCCESS) s = STATUS(library, cuDeviceGetName, out->name, sizeof out->name, device);
    if (s.code == CUDA_SUCCESS) s = STATUS(library, cuDeviceGetPCIBusId, out->bus, sizeof out->bus, device);
    if (s.code == CUDA_SUCCESS) s = STATUS(library, cuDeviceTotalMem_v2, &memory, device);
    for (size_t i = 0; s.code == CUDA_SUCCESS && i < sizeof attributes / sizeof *attributes; i++)
        s = STATUS(library, cuDeviceGetAttribute, attributes[i].value, attributes[i].attribute, device);
    out->memory = memory;
    return s;
}

struct fkv_status fkv_context_retain(uintptr_t library, int32_t ordinal, struct fkv_context *out) {
    CUdevice device;
    CUcontext context = NULL;
    struct fkv_status s = STATUS(library, cuDeviceGet, &device, ordinal);
    CUstreamCaptureMode mode = relax(library);
    if (s.code == CUDA_SUCCESS) s = STATUS(library, cuDevicePrimaryCtxRetain, &context, device);
    restore(library, mode);
    *out = (struct fkv_context){library, (uintptr_t)context};
    return s;
}

struct fkv_status fkv_context_release(uintptr_t library, int32_t ordinal) {
    CUdevice device;
    struct fkv_status s = STATUS(library, cuDeviceGet, &device, ordinal);
    CUstreamCaptureMode mode = relax(library);
    if (s.code == CUDA_SUCCESS) s = STATUS(library, cuDevicePrimaryCtxRelease_v2, device);
    restore(library, mode);
    return s;
}

struct fkv_status fkv_memory_info(struct fkv_context c, uint64_t *available, uint64_t *total) {
    APART(c, cuMemGetInfo_v2, (size_t *)available, (size_t *)total);
}

struct fkv_status fkv_memory_alloc(struct fkv_context c, uint64_t bytes, uint64_t *ptr) {
    APART(c, cuMemAlloc_v2, (CUdeviceptr *)ptr, bytes);
}

struct fkv_status fkv_memory_free(struct fkv_context c, uint64_t ptr) { APART(c, cuMemFree_v2, ptr); }

struct fkv_status fkv_host_alloc(struct fkv_context c, uint64_t bytes, void **memory) {
    APART(c, cuMemHostAlloc, memory, bytes, 0);
}

struct fkv_status fkv_host_free(struct fkv_context c, void *memory) { APART(c, cuMemFreeHost, memory); }

struct fkv_status fkv_copy_to_device(struct fkv_context c, uint64_t dst, const void *src, uint64_t bytes, uintptr_t stream) {
    WITHIN(c, cuMemcpyHtoDAsync_v2, dst, src, bytes, (CUstream)stream);
}

struct fkv_status fkv_copy_to_host(struct fkv_context c, void *dst, uint64_t src, uint64_t bytes, uintptr_t stream) {
    WITHIN(c, cuMemcpyDtoHAsync_v2, dst, src, bytes, (CUstream)stream);
}

struct fkv_status fkv_copy(struct fkv_context c, uint64_t dst, uint64_t src, uint64_t bytes, uintptr_t stream) {
    WITHIN(c, cuMemcpyDtoDAsync_v2, dst, src, bytes, (CUstream)stream);
}

struct fkv_status fkv_pointer_get(struct fkv_context c, uint64_t ptr, struct fkv_pointer *out) {
    struct fkv_status s;
    if (!enter(c, &s)) return s;
    unsigned int type = 0;
    CUcontext context = NULL;
    CUdeviceptr start = 0;
    size_t bytes = 0;
    const struct library *f = functions(c.library);
    CUstreamCaptureMode mode = relax(c.library);
    s = STATUS(c.library, cuPointerGetAttribute, &type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, ptr);
    if (s.code == CUDA_SUCCESS)
        s = STATUS(c.library, cuPointerGetAttribute, &out->ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, ptr);
    /* Memory of a pool belongs to no context, mapped memory may have no range. */
    if (f->cuPointerGetAttribute(&context, CU_POINTER_ATTRIBUTE_CONTEXT, ptr) != CUDA_SUCCESS) context = NULL;
    if (f->cuPointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, ptr) != CUDA_SUCCESS ||
        f->cuPointerGetAttribute(&bytes, CU_POINTER_ATTRIBUTE_RANGE_SIZE, ptr) != CUDA_SUCCESS)
        start = bytes = 0;
    restore(c.library, mode);
    out->on_device = type == CU_MEMORYTYPE_DEVICE;
    out->context = (uintptr_t)context;
    out->start = start;
    out->bytes = bytes;
    return leave(c, s);
}

struct fkv_status fkv_pool_create(struct fkv_context c, int32_t ordinal, uint64_t threshold, uintptr_t *pool) {
    CUmemPoolProps props;
    memset(&props, 0, sizeof props);
    props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    props.location.id = ordinal;

    struct fkv_status s;
    if (!enter(c, &s)) return s;
    CUmemoryPool made = NULL;
    int off = 0; /* an allocation never waits for another stream */
    CUstreamCaptureMode mode = relax(c.library);
    s = STATUS(c.library, cuMemPoolCreate, &made, &props);
    if (s.code == CUDA_SUCCESS)
        s = STATUS(c.library, cuMemPoolSetAttribute, made, CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES, &off);
    if (s.code == CUDA_SUCCESS)
        s = STATUS(c.library, cuMemPoolSetAttribute, made, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold);
    if (s.code == CUDA_SUCCESS)
        *pool = (uintptr_t)made;
    else if (made != NULL)
        functions(c.library)->cuMemPoolDestroy(made);
    restore(c.library, mode);
    return leave(c, s);
}

struct fkv_status fkv_pool_destroy(struct fkv_context c, uintptr_t pool) { APART(c, cuMemPoolDestroy, (CUmemoryPool)pool); }

struct fkv_status fkv_pool_trim(struct fkv_context c, uintptr_t pool) { APART(c, cuMemPoolTrimTo, (CUmemoryPool)pool, 0); }

struct fkv_status fkv_pool_reserved(struct fkv_context c, uintptr_t pool, uint64_t *bytes) {
    APART(c, cuMemPoolGetAttribute, (CUmemoryPool)pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, bytes);
}

struct fkv_status fkv_pool_alloc(struct fkv_context c, uintptr_t pool, uint64_t bytes, uintptr_t stream, uint64_t *ptr) {
    APART(c, cuMemAllocFromPoolAsync, (CUdeviceptr *)ptr, bytes, (CUmemoryPool)pool, (CUstream)stream);
}

struct fkv_status fkv_pool_free(struct fkv_context c, uint64_t ptr, uintptr_t stream) {
    APART(c, cuMemFreeAsync, ptr, (CUstream)stream);
}

struct fkv_status fkv_stream_create(struct fkv_context c, uintptr_t *stream) {
    APART(c, cuStreamCreateWithPriority, (CUstream *)stream, CU_STREAM_NON_BLOCKING, 0);
}

struct fkv_status fkv_stream_destroy(struct fkv_context c, uintptr_t stream) { APART(c, cuStreamDestroy_v2, (CUstream)stream); }

struct fkv_status fkv_stream_sync(struct fkv_context c, uintptr_t stream) { APART(c, cuStreamSynchronize, (CUstream)stream); }

struct fkv_status fkv_stream_await(struct fkv_context c, uintptr_t stream, uintptr_t event) {
    struct fkv_status s;
    if (!enter(c, &s)) return s;
    s = STATUS(c.library, cuEventRecord, (CUevent)event, (CUstream)stream);
    CUstreamCaptureMode mode = relax(c.library);
    if (s.code == CUDA_SUCCESS) s = STATUS(c.library, cuEventSynchronize, (CUevent)event);
    restore(c.library, mode);
    return leave(c, s);
}

struct fkv_status fkv_stream_wait(struct fkv_context c, uintptr_t stream, uintptr_t event) {
    WITHIN(c, cuStreamWaitEvent, (CUstream)stream, (CUevent)event, 0);
}

struct fkv_status fkv_stream_context(struct fkv_context c, uintptr_t stream, uintptr_t *context) {
    APART(c, cuStreamGetCtx, (CUstream)stream, (CUcontext *)context);
}

struct fkv_status fkv_capture_begin(struct fkv_context c, uintptr_t stream, int32_t mode) {
    WITHIN(c, cuStreamBeginCapture_v2, (CUstream)stream, mode);
}

struct fkv_status fkv_capture_end(struct fkv_context c, uintptr_t stream, uintptr_t *graph) {
    struct fkv_status s;
    if (!enter(c, &s) && !enter(c, &s)) return s; /* again: nothing else can end it */
    return leave(c, STATUS(c.library, cuStreamEndCapture, (CUstream)stream, (CUgraph *)graph));
}

struct fkv_status fkv_capture_get(struct fkv_context c, uintptr_t stream, int32_t *capturing) {
    struct fkv_status s;
    if (!enter(c, &s)) return s;
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    s = STATUS(c.library, cuStreamIsCapturing, (CUstream)stream, &status);
    *capturing = status != CU_STREAM_CAPTURE_STATUS_NONE;
    return leave(c, s);
}

struct fkv_status fkv_graph_destroy(struct fkv_context c, uintptr_t graph) { APART(c, cuGraphDestroy, (CUgraph)graph); }

struct fkv_status fkv_graph_instantiate(struct fkv_context c, uintptr_t graph, uintptr_t *exec) {
    APART(c, cuGraphInstantiateWithFlags, (CUgraphExec *)exec, (CUgraph)graph, 0);
}

struct fkv_status fkv_graph_launch(struct fkv_context c, uintptr_t exec, uintptr_t stream) {
    WITHIN(c, cuGraphLaunch, (CUgraphExec)exec, (CUstream)stream);
}

struct fkv_status fkv_exec_destroy(struct fkv_context c, uintptr_t exec) { APART(c, cuGraphExecDestroy, (CUgraphExec)exec); }

struct fkv_status fkv_event_create(struct fkv_context c, int32_t use, uintptr_t *event) {
    static const unsigned int flags[] = {
        [FKV_EVENT_ORDERING] = CU_EVENT_DISABLE_TIMING,
        [FKV_EVENT_WAITING] = CU_EVENT_DISABLE_TIMING | CU_EVENT_BLOCKING_SYNC,
        [FKV_EVENT_TIMING] = CU_EVENT_BLOCKING_SYNC,
    };
    APART(c, cuEventCreate, (CUevent *)event, flags[use]);
}

struct fkv_status fkv_event_destroy(struct fkv_context c, uintptr_t event) { APART(c, cuEventDestroy_v2, (CUevent)event); }

struct fkv_status fkv_event_record(struct fkv_context c, uintptr_t event, uintptr_t stream) {
    WITHIN(c, cuEventRecord, (CUevent)event, (CUstream)stream);
}

struct fkv_status fkv_event_query(struct fkv_context c, uintptr_t event, int32_t *done) {
    struct fkv_status s;
    if (!enter(c, &s)) return s;
    CUstreamCaptureMode mode = relax(c.library);
    s = STATUS(c.library, cuEventQuery, (CUevent)event);
    restore(c.library, mode);
    *done = s.code == CUDA_SUCCESS;
    if (s.code == CUDA_ERROR_NOT_READY) s.code = CUDA_SUCCESS;
    return leave(c, s);
}

struct fkv_status fkv_event_sync(struct fkv_context c, uintptr_t event) { APART(c, cuEventSynchronize, (CUevent)event); }

struct fkv_status fkv_event_elapsed(struct fkv_context c, uintptr_t start, uintptr_t end, float *milliseconds) {
    APART(c, cuEventElapsedTime, milliseconds, (CUevent)start, (CUevent)end);
}

struct fkv_status fkv_module_load(struct fkv_context c, const void *image, uintptr_t *module) {
    APART(c, cuModuleLoadData, (CUmodule *)module, image);
}

struct fkv_status fkv_module_unload(struct fkv_context c, uintptr_t module) { APART(c, cuModuleUnload, (CUmodule)module); }

struct fkv_status fkv_module_function(struct fkv_context c, uintptr_t module, const char *name, uintptr_t *function) {
    APART(c, cuModuleGetFunction, (CUfunction *)function, (CUmodule)module, name);
}

struct fkv_status fkv_function_shared(struct fkv_context c, uintptr_t function, int32_t bytes) {
    struct fkv_status s;
    if (!enter(c, &s)) return s;
    CUfunction f = (CUfunction)function;
    CUstreamCaptureMode mode = relax(c.library);
    s = STATUS(c.library, cuFuncSetAttribute, f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, bytes);
    if (s.code == CUDA_SUCCESS)
        s = STATUS(c.library, cuFuncSetAttribute, f, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, 100);
    restore(c.library, mode);
    return leave(c, s);
}

struct fkv_status fkv_function_occupancy(struct fkv_context c, uintptr_t function, int32_t threads, uint64_t shared, int32_t *blocks) {
    APART(c, cuOccupancyMaxActiveBlocksPerMultiprocessor, blocks, (CUfunction)function, threads, shared);
}

struct fkv_status fkv_map_encode(struct fkv_context c, uint64_t address, uint64_t rows, uint32_t width, int32_t bf16, unsigned char *map) {
    const cuuint64_t dims[2] = {width, rows}, strides[1] = {2 * (cuuint64_t)width};
    const cuuint32_t box[2] = {64, 16}, steps[2] = {1, 1};
    CUtensorMap made;
    struct fkv_status s = STATUS(c.library, cuTensorMapEncodeTiled, &made, bf16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 : CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 2,
                                 (void *)(uintptr_t)address, dims, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                                 CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (s.code == CUDA_SUCCESS) memcpy(map, &made, sizeof made);
    return s;
}

static struct fkv_status launch(struct fkv_context c, const struct fkv_launch *l) {
    void *params[FKV_LAUNCH_BUFFERS + 2] = {NULL};
    uint32_t n = l->count;
    if (n > FKV_LAUNCH_BUFFERS || l->size > FKV_LAUNCH_ARGS || l->mapped > FKV_LAUNCH_MAPS)
        return (struct fkv_status){CUDA_ERROR_INVALID_VALUE, NUMBER_cuLaunchKernel};
    for (uint32_t i = 0; i < n; i++) params[i] = (void *)&l->buffers[i];
    if (l->size != 0) params[n++] = (void *)l->args;
    if (l->mapped != 0) params[n++] = (void *)l->maps;
    return STATUS(c.library, cuLaunchKernel, (CUfunction)l->function, l->grid[0], l->grid[1], l->grid[2], l->block, 1, 1, l->shared,
                  (CUstream)l->stream, params, NULL);
}

struct fkv_status fkv_launch(struct fkv_context c, const struct fkv_launch *launches, size_t n) {
    struct fkv_status s;
    if (!enter(c, &s)) return s;
    for (size_t i = 0; i < n && s.code == CUDA_SUCCESS; i++) s = launch(c, &launches[i]);
    return leave(c, s);
}
