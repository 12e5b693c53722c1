//go:build cgo && !nometal && (darwin || metalsimt)

/*
 * Metal as Go calls it: numbers and flat structs only. An object is a uintptr_t, and what a
 * function gives in an out parameter is retained for the caller. A function that can fail
 * returns NULL or an error, after which its out parameters hold nothing to be used or released.
 */
#ifndef FKV_MTL_H
#define FKV_MTL_H

#include <stddef.h>
#include <stdint.h>

/* Why a call failed: the call, and what an NSError said; domain is empty where Metal gave
 * no reason. The caller frees it. */
struct mtl_error {
    const char *call, *domain, *text;
    int64_t code;
};
void mtl_error_free(struct mtl_error *e);

/* The calls of errors that mean more to a caller than that a call failed: a command buffer
 * that did, and a buffer that was not given. */
#define MTL_COMMAND "MTLCommandBuffer"
#define MTL_NEW_BUFFER "newBufferWithLength"

/* The domain and the codes of command buffers, which are MTLCommandBufferError's. */
#define MTL_COMMAND_DOMAIN "MTLCommandBufferErrorDomain"
#define MTL_COMMAND_INTERNAL 1
#define MTL_COMMAND_TIMEOUT 2
#define MTL_COMMAND_PAGE_FAULT 3
#define MTL_COMMAND_ACCESS_REVOKED 4
#define MTL_COMMAND_NOT_PERMITTED 7
#define MTL_COMMAND_OUT_OF_MEMORY 8
#define MTL_COMMAND_INVALID_RESOURCE 9
#define MTL_COMMAND_DEVICE_REMOVED 11
#define MTL_COMMAND_STACK_OVERFLOW 12

void mtl_retain(uintptr_t object);
void mtl_release(uintptr_t object);

struct mtl_device_info {
    char name[128];
    uint64_t registry;                /* the same for every object that stands for the device */
    uint64_t working_set, max_buffer; /* bytes */
    int32_t major, minor;             /* of macOS */
    int32_t cores;                    /* 0: unknown */
    int32_t apple7, metal3, unified;
};
/* mtl_devices writes at most size devices and returns how many it wrote. */
int32_t mtl_devices(uintptr_t *devices, int32_t size);
void mtl_device_describe(uintptr_t device, struct mtl_device_info *out);
uint64_t mtl_device_allocated(uintptr_t device);

struct mtl_buffer_info {
    uint64_t registry; /* of its device; 0: it is no buffer, and the rest is not set */
    int32_t untracked; /* Metal does not order its uses */
    uint64_t length;
    void *contents; /* NULL unless the storage is shared */
};
struct mtl_error *mtl_buffer_make(uintptr_t device, uint64_t length, uintptr_t *buffer);
void mtl_buffer_describe(uintptr_t buffer, struct mtl_buffer_info *out);

struct mtl_error *mtl_library_compile(uintptr_t device, const char *source, size_t size, int32_t bfloat, uintptr_t *library);
struct mtl_error *mtl_library_load(uintptr_t device, const void *data, size_t size, uintptr_t *library);

struct mtl_pipeline {
    uintptr_t id;
    uint64_t threads, width, memory;
};
/* Bit i of constants is the value of function constant i, of count. */
struct mtl_error *mtl_pipeline_make(uintptr_t device, uintptr_t library, const char *name, size_t size, uint32_t constants,
                                    uint32_t count, struct mtl_pipeline *out);

/* A point in a queue's work: the command buffer that ends there, and the value that the
 * queue's event has from then on. */
struct mtl_mark {
    uintptr_t command, event;
    uint64_t value;
};
struct mtl_error *mtl_mark_done(struct mtl_mark m, int32_t *done);
struct mtl_error *mtl_mark_wait(struct mtl_mark m);

/* A queue belongs to one thread at a time. mtl_queue_make takes the command queue given, or
 * makes one where that is 0. */
struct mtl_queue;
struct mtl_error *mtl_queue_make(uintptr_t device, uintptr_t imported, struct mtl_queue **queue);
uintptr_t mtl_queue_id(struct mtl_queue *q);
/* mtl_queue_device is the registry ID of a command queue's device, 0 for what is no queue. */
uint64_t mtl_queue_device(uintptr_t imported);
/* mtl_queue_order has each command buffer from here on wait for the one before: Metal orders the uses of
 * tracked buffers only. */
void mtl_queue_order(struct mtl_queue *q);
struct mtl_error *mtl_queue_open(struct mtl_queue *q);
struct mtl_error *mtl_queue_commit(struct mtl_queue *q, struct mtl_mark *out);
/* mtl_queue_wait lets the passes of the open command buffer that follow wait, not those before. */
struct mtl_error *mtl_queue_wait(struct mtl_queue *q, struct mtl_mark m);
struct mtl_error *mtl_queue_sync(struct mtl_queue *q);
int32_t mtl_queue_idle(struct mtl_queue *q);
void mtl_queue_close(struct mtl_queue *q);

#define MTL_LAUNCH_BUFFERS 24
#define MTL_LAUNCH_ARGS 256

/* One launch: count buffers, 0 for those that the pipeline does not have, then, where size
 * is not 0, a struct of that many bytes. The same layout as Go's Launch. */
struct mtl_launch {
    uintptr_t pipeline;
    uint32_t grid[3];
    uint32_t threads;
    uint32_t count, size;
    uintptr_t buffers[MTL_LAUNCH_BUFFERS];
    uint64_t offsets[MTL_LAUNCH_BUFFERS];
    unsigned char args[MTL_LAUNCH_ARGS];
};
struct mtl_error *mtl_launch(struct mtl_queue *q, const struct mtl_launch *l);

#endif
