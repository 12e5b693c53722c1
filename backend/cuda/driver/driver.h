//go:build linux && cgo && !nocuda

/*
 * The driver library as Go calls it: numbers and flat structs only. A function
 * that takes a context makes it current and restores the thread's own before it
 * returns. After a failure an out parameter holds nothing to be used or given back.
 */
#ifndef FKV_CUDA_DRIVER_H
#define FKV_CUDA_DRIVER_H

#include <stddef.h>
#include <stdint.h>

/* What a call came to: a CUresult, and which of the driver's functions returned it. */
struct fkv_status {
    int32_t code;
    int32_t call;
};

/* A library that was opened, and a context of one of its devices. */
struct fkv_context {
    uintptr_t library;
    uintptr_t context;
};

struct fkv_device {
    char name[128];
    char bus[32];
    uint64_t memory;
    int32_t major, minor, units, shared, pools;
};

/* fkv_open loads the library of that path and returns its handle, or 0 with the
 * reason in why. It never unloads. */
uintptr_t fkv_open(const char *path, char *why, size_t size);
const char *fkv_call_name(int32_t call);
/* fkv_describe writes the name and the text that the library has for an error. */
void fkv_describe(uintptr_t library, int32_t code, char *name, char *text, size_t size);

struct fkv_status fkv_init(uintptr_t library, int32_t *version, int32_t *devices);
struct fkv_status fkv_device_get(uintptr_t library, int32_t ordinal, struct fkv_device *out);
struct fkv_status fkv_context_retain(uintptr_t library, int32_t ordinal, struct fkv_context *out);
struct fkv_status fkv_context_release(uintptr_t library, int32_t ordinal);

struct fkv_status fkv_memory_info(struct fkv_context c, uint64_t *available, uint64_t *total);
struct fkv_status fkv_memory_alloc(struct fkv_context c, uint64_t bytes, uint64_t *ptr);
struct fkv_status fkv_memory_free(struct fkv_context c, uint64_t ptr);
struct fkv_status fkv_host_alloc(struct fkv_context c, uint64_t bytes, void **memory);
struct fkv_status fkv_host_free(struct fkv_context c, void *memory);
struct fkv_status fkv_copy_to_device(struct fkv_context c, uint64_t dst, const void *src, uint64_t bytes, uintptr_t stream);
struct fkv_status fkv_copy_to_host(struct fkv_context c, void *dst, uint64_t src, uint64_t bytes, uintptr_t stream);
struct fkv_status fkv_copy(struct fkv_context c, uint64_t dst, uint64_t src, uint64_t bytes, uintptr_t stream);

/* What the driver knows of an address; a field that it does not is 0. */
struct fkv_pointer {
    uintptr_t context;
    int32_t on_device, ordinal;
    uint64_t start, bytes;
};
struct fkv_status fkv_pointer_get(struct fkv_context c, uint64_t ptr, struct fkv_pointer *out);

struct fkv_status fkv_pool_create(struct fkv_context c, int32_t ordinal, uint64_t threshold, uintptr_t *pool);
struct fkv_status fkv_pool_destroy(struct fkv_context c, uintptr_t pool);
struct fkv_status fkv_pool_trim(struct fkv_context c, uintptr_t pool);
struct fkv_status fkv_pool_reserved(struct fkv_context c, uintptr_t pool, uint64_t *bytes);
struct fkv_status fkv_pool_alloc(struct fkv_context c, uintptr_t pool, uint64_t bytes, uintptr_t stream, uint64_t *ptr);
struct fkv_status fkv_pool_free(struct fkv_context c, uint64_t ptr, uintptr_t stream);

struct fkv_status fkv_stream_create(struct fkv_context c, uintptr_t *stream);
struct fkv_status fkv_stream_destroy(struct fkv_context c, uintptr_t stream);
struct fkv_status fkv_stream_sync(struct fkv_context c, uintptr_t stream);
/* fkv_stream_await waits for the stream's work without burning the thread, for which it
 * records the event there. */
struct fkv_status fkv_stream_await(struct fkv_context c, uintptr_t stream, uintptr_t event);
struct fkv_status fkv_stream_wait(struct fkv_context c, uintptr_t stream, uintptr_t event);
struct fkv_status fkv_stream_context(struct fkv_context c, uintptr_t stream, uintptr_t *context);

struct fkv_status fkv_capture_begin(struct fkv_context c, uintptr_t stream, int32_t mode);
/* fkv_capture_end takes the stream out of its capture, whatever it returns. */
struct fkv_status fkv_capture_end(struct fkv_context c, uintptr_t stream, uintptr_t *graph);
struct fkv_status fkv_capture_get(struct fkv_context c, uintptr_t stream, int32_t *capturing);
struct fkv_status fkv_graph_destroy(struct fkv_context c, uintptr_t graph);
struct fkv_status fkv_graph_instantiate(struct fkv_context c, uintptr_t graph, uintptr_t *exec);
struct fkv_status fkv_graph_launch(struct fkv_context c, uintptr_t exec, uintptr_t stream);
struct fkv_status fkv_exec_destroy(struct fkv_context c, uintptr_t exec);

enum { FKV_EVENT_ORDERING, FKV_EVENT_WAITING, FKV_EVENT_TIMING };
struct fkv_status fkv_event_create(struct fkv_context c, int32_t use, uintptr_t *event);
struct fkv_status fkv_event_destroy(struct fkv_context c, uintptr_t event);
struct fkv_status fkv_event_record(struct fkv_context c, uintptr_t event, uintptr_t stream);
struct fkv_status fkv_event_query(struct fkv_context c, uintptr_t event, int32_t *done);
struct fkv_status fkv_event_sync(struct fkv_context c, uintptr_t event);
struct fkv_status fkv_event_elapsed(struct fkv_context c, uintptr_t start, uintptr_t end, float *milliseconds);

struct fkv_status fkv_module_load(struct fkv_context c, const void *image, uintptr_t *module);
struct fkv_status fkv_module_unload(struct fkv_context c, uintptr_t module);
struct fkv_status fkv_module_function(struct fkv_context c, uintptr_t module, const char *name, uintptr_t *function);
/* fkv_function_shared lets a launch have that much, and has as many blocks as possible
 * share a multiprocessor's memory: the rest of it is a cache that such kernels need less. */
struct fkv_status fkv_function_shared(struct fkv_context c, uintptr_t function, int32_t bytes);
struct fkv_status fkv_function_occupancy(struct fkv_context c, uintptr_t function, int32_t threads, uint64_t shared, int32_t *blocks);

/* fkv_map_encode describes rows of width elements of 16 bits, f16 or bf16, to the device's copy engine, in the boxes of
 * kernels/cuda/hopper.cuh: 64 elements of 16 rows, swizzled by 128 bytes. */
#define FKV_MAP_BYTES 128
struct fkv_status fkv_map_encode(struct fkv_context c, uint64_t address, uint64_t rows, uint32_t width, int32_t bf16, unsigned char *map);

#define FKV_LAUNCH_BUFFERS 24
#define FKV_LAUNCH_ARGS 256
#define FKV_LAUNCH_MAPS 2

/* One launch: count addresses of device memory, then, where size is not 0, a struct of that many bytes, and where mapped
 * is not 0 one of that many maps. The same layout as Go's Launch. */
struct fkv_launch {
    uintptr_t function, stream;
    uint32_t grid[3];
    uint32_t block;
    uint32_t shared;
    uint32_t count, size;
    uint32_t mapped;
    uint64_t buffers[FKV_LAUNCH_BUFFERS];
    unsigned char args[FKV_LAUNCH_ARGS];
    unsigned char maps[FKV_LAUNCH_MAPS][FKV_MAP_BYTES];
};
/* fkv_launch makes n launches in their order, up to the first that is refused. */
struct fkv_status fkv_launch(struct fkv_context c, const struct fkv_launch *launches, size_t n);

#endif
