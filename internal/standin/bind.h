//go:build linux && cgo && !nocuda

#ifndef STANDIN_BIND_H
#define STANDIN_BIND_H

#include <stddef.h>
#include <stdint.h>

/* As kernels/simt/driver/control.h has it; the stand-in compares the size. */
struct standin_counts {
    uint64_t device_allocations, device_bytes;
    uint64_t host_allocations, host_bytes;
    uint64_t contexts, streams, events, modules, pools, graphs, execs;
    uint64_t launches, injected, misuse, abandoned, spins, interrupts, remembered;
};

/* The control functions of an open library. */
struct standin {
    void (*fail_alloc)(uint64_t), (*fail_launch)(uint64_t), (*fail_call)(uint64_t);
    void (*fail_function)(const char *, uint64_t, int);
    void (*hold)(const char *, int);
    int (*carveout)(const char *);
    int (*join_default)(uint64_t);
    int (*lose)(int);
    void (*seed)(uint64_t);
    int (*count)(struct standin_counts *, size_t);
    uint64_t (*calls)(const char *);
    uint64_t (*runs)(const char *);
    const char *(*kernel)(size_t);
    void (*launch)(size_t, uint32_t *, uint32_t *);
    void (*report)(char *, size_t);
};

/* Opens the library and finds its control functions: 1; 0 when it has none, -1 when
 * its counts are others than those above. */
int standin_open(const char *path, struct standin *s);

void standin_call(void (*f)(uint64_t), uint64_t n);
void standin_fail_function(const struct standin *s, const char *name, uint64_t n, int code);
void standin_hold(const struct standin *s, const char *name, int hold);
int standin_carveout(const struct standin *s, const char *kernel);
int standin_join_default(const struct standin *s, uint64_t stream);
int standin_lose(const struct standin *s, int device);
int standin_count(const struct standin *s, struct standin_counts *c);
uint64_t standin_calls(const struct standin *s, const char *name);
uint64_t standin_runs(const struct standin *s, const char *kernel);
const char *standin_kernel(const struct standin *s, size_t i);
void standin_launch(const struct standin *s, size_t i, uint32_t *threads, uint32_t *shared);
void standin_report(const struct standin *s, char *text, size_t size);

#endif
