//go:build linux && cgo && !nocuda

#include "bind.h"

#include <dlfcn.h>

int standin_open(const char *path, struct standin *s) {
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) return 0;
    /* POSIX's way to turn a symbol into a function. */
    const struct {
        const char *name;
        void **function;
    } symbols[] = {
        {"fkv_standin_fail_alloc", (void **)&s->fail_alloc},
        {"fkv_standin_fail_launch", (void **)&s->fail_launch},
        {"fkv_standin_fail_call", (void **)&s->fail_call},
        {"fkv_standin_fail_function", (void **)&s->fail_function},
        {"fkv_standin_hold", (void **)&s->hold},
        {"fkv_standin_carveout", (void **)&s->carveout},
        {"fkv_standin_join_default", (void **)&s->join_default},
        {"fkv_standin_lose", (void **)&s->lose},
        {"fkv_standin_seed", (void **)&s->seed},
        {"fkv_standin_count", (void **)&s->count},
        {"fkv_standin_calls", (void **)&s->calls},
        {"fkv_standin_runs", (void **)&s->runs},
        {"fkv_standin_kernel", (void **)&s->kernel},
        {"fkv_standin_launch", (void **)&s->launch},
        {"fkv_standin_report", (void **)&s->report},
    };
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        *symbols[i].function = dlsym(library, symbols[i].name);
        if (*symbols[i].function == NULL) {
            dlclose(library);
            return 0;
        }
    }
    struct standin_counts counts;
    return s->count(&counts, sizeof counts) ? 1 : -1;
}

void standin_call(void (*f)(uint64_t), uint64_t n) { f(n); }

void standin_fail_function(const struct standin *s, const char *name, uint64_t n, int code) { s->fail_function(name, n, code); }

void standin_hold(const struct standin *s, const char *name, int hold) { s->hold(name, hold); }

int standin_carveout(const struct standin *s, const char *kernel) { return s->carveout(kernel); }

int standin_join_default(const struct standin *s, uint64_t stream) { return s->join_default(stream); }

int standin_lose(const struct standin *s, int device) { return s->lose(device); }

int standin_count(const struct standin *s, struct standin_counts *c) { return s->count(c, sizeof *c); }

uint64_t standin_calls(const struct standin *s, const char *name) { return s->calls(name); }

uint64_t standin_runs(const struct standin *s, const char *kernel) { return s->runs(kernel); }

const char *standin_kernel(const struct standin *s, size_t i) { return s->kernel(i); }

void standin_launch(const struct standin *s, size_t i, uint32_t *threads, uint32_t *shared) { s->launch(i, threads, shared); }

void standin_report(const struct standin *s, char *text, size_t size) { s->report(text, size); }
