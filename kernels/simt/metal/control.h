/*
 * What tests may ask of the stand-in beyond Metal's own interface. C, because Go calls it
 * (internal/standin/metalsimt).
 */
#ifndef FKV_METAL_H
#define FKV_METAL_H

#include <stddef.h>
#include <stdint.h>

/* What is alive now and what has happened since the library was loaded. */
struct fkv_metal_counts {
    uint64_t buffers, bytes; /* of memory, also what only work under way holds */
    uint64_t queues, command_buffers, encoders, events, libraries, functions, pipelines;
    uint64_t others;     /* strings, arrays, errors, pools; references to devices and registry entries */
    uint64_t commits;
    uint64_t dispatches; /* encoded */
    uint64_t completed;  /* command buffers, also those that failed */
    uint64_t failed;
    uint64_t injected;   /* failures that were asked for and have happened */
};

#ifdef __cplusplus
extern "C" {
#endif

/* From now on the n-th buffer, library, pipeline or call of any kind that can fail
 * (those and newCommandQueue, newSharedEvent, commandBuffer, computeCommandEncoder and
 * newFunctionWithName) gives nil once, where there is one with an error. The n-th command
 * buffer to run ends with a code of MTLCommandBufferError; those after it run, or end alike where
 * the code is AccessRevoked, until the next fkv_metal_fail_commands; a code of FKV_METAL_FOREIGN more is the
 * same number in another domain. 0: none fails. */
#define FKV_METAL_FOREIGN 1000
void fkv_metal_fail_buffer(uint64_t n);
void fkv_metal_fail_library(uint64_t n);
void fkv_metal_fail_pipeline(uint64_t n);
void fkv_metal_fail_call(uint64_t n);
void fkv_metal_fail_commands(uint64_t n, unsigned code);

/* Removes a device (gone 1): nothing new is made on it, and its command buffers fail. 0: it
 * is there again. Returns 0 when there is no such device. */
int fkv_metal_lose(int device, int gone);

/* Begins every random order anew; 0: in order. */
void fkv_metal_seed(uint64_t seed);

/* Fills counts, after handlers that are due have run. Returns 0 if size is not that of
 * the struct here. */
int fkv_metal_count(struct fkv_metal_counts *counts, size_t size);

/* How often a method was called, by its selector: "newBufferWithLength:options:". */
uint64_t fkv_metal_calls(const char *selector);

/* Copies the last report, of a broken kernel or a deadlock, ended by 0 and cut to size. */
void fkv_metal_report(char *text, size_t size);

#ifdef __cplusplus
}
#endif

#endif
