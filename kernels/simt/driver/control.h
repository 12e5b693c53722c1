/*
 * What tests may ask of the stand-in beyond the driver's own interface. C, because
 * internal/standin calls it through dlsym.
 */
#ifndef FKV_STANDIN_H
#define FKV_STANDIN_H

#include <stddef.h>
#include <stdint.h>

/* What exists now and what has happened since the library was loaded. */
struct fkv_standin_counts {
    uint64_t device_allocations, device_bytes;
    uint64_t host_allocations, host_bytes;
    uint64_t contexts, streams, events, modules, pools, graphs, execs;
    uint64_t launches; /* accepted */
    uint64_t injected; /* failures that were asked for and have happened */
    uint64_t misuse;   /* calls that hardware would let pass and suffer from later */
    uint64_t abandoned; /* objects that were alive when their healthy context ended */
    uint64_t spins; /* waits by cuStreamSynchronize, cuCtxSynchronize, or for an event without CU_EVENT_BLOCKING_SYNC */
    uint64_t interrupts; /* records, outside of captures, of events with CU_EVENT_BLOCKING_SYNC */
    uint64_t remembered; /* streams, also ones that are gone, whose work the host is known to have seen end */
};

#pragma GCC visibility push(default)
#ifdef __cplusplus
extern "C" {
#endif

/* From now on the n-th allocation (of device or pinned memory), launch (of a kernel or a
 * graph), or call of any kind but those that give something back fails once: with
 * CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, CUDA_ERROR_UNKNOWN. A
 * failed call has done nothing, but for the end of a capture. 0: none fails. */
void fkv_standin_fail_alloc(uint64_t n);
void fkv_standin_fail_launch(uint64_t n);
void fkv_standin_fail_call(uint64_t n);

/* From now on the n-th call of a function fails once with that CUresult, before it has done
 * anything; in addition to what was asked for before. 0: no call of that function fails. */
void fkv_standin_fail_function(const char *name, uint64_t n, int code);

/* Calls of a function wait, before they do anything, until it is called with 0. They count
 * as calls at once. */
void fkv_standin_hold(const char *name, int hold);

/* The preferred shared memory carveout of a kernel, in percent; -1 where nobody has set it,
 * -2 where nobody has looked the kernel up. */
int fkv_standin_carveout(const char *kernel);

/* Makes a stream one that waits for the default stream and that the default stream waits for, as
 * those are that others make without CU_STREAM_NON_BLOCKING. Returns 0 where there is no such stream. */
int fkv_standin_join_default(uint64_t stream);

/* The device's primary context ends in CUDA_ERROR_ECC_UNCORRECTABLE as soon as somebody
 * waits for its work. Returns 0 when the device has no context. */
int fkv_standin_lose(int device);

/* Begins every random order anew; 0: in order. */
void fkv_standin_seed(uint64_t seed);

/* Fills counts, if size is that of the struct here; returns 0 otherwise. */
int fkv_standin_count(struct fkv_standin_counts *counts, size_t size);

/* How often a function was called, by its symbol's name. */
uint64_t fkv_standin_calls(const char *name);

/* How often a kernel ran, by the name that it is registered with. */
uint64_t fkv_standin_runs(const char *kernel);

/* The symbol of the i-th kernel that is linked in, null behind the last. */
const char *fkv_standin_kernel(size_t i);

/* The threads of a block of that kernel, and its bytes of dynamic shared memory. */
void fkv_standin_launch(size_t i, uint32_t *threads, uint32_t *shared);

/* Copies the last report, of a broken kernel or a misuse, ended by 0 and cut to size. */
void fkv_standin_report(char *text, size_t size);

#ifdef __cplusplus
}
#endif
#pragma GCC visibility pop

#endif
