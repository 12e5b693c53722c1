/*
 * Whether the calls of driver.c leave a thread's current context alone: a context
 * of the second device is current while those of the first are used. Arguments: the
 * driver library.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "../driver.h"

typedef struct CUctx_st *CUcontext;

static void want(int ok, const char *what) {
    if (ok) return;
    fprintf(stderr, "%s\n", what);
    exit(1);
}

int main(int count, char **args) {
    char why[256];
    int32_t version, devices;
    struct fkv_context first, second;
    want(count == 2, "need the path of the driver library");
    uintptr_t library = fkv_open(args[1], why, sizeof why);
    want(library != 0, why);
    want(fkv_init(library, &version, &devices).code == 0 && devices >= 2, "need two devices");
    want(fkv_context_retain(library, 0, &first).code == 0, "no context of the first device");
    want(fkv_context_retain(library, 1, &second).code == 0, "no context of the second device");

    void *handle = dlopen(args[1], RTLD_NOW);
    int (*set)(CUcontext);
    int (*get)(CUcontext *);
    *(void **)&set = dlsym(handle, "cuCtxSetCurrent");
    *(void **)&get = dlsym(handle, "cuCtxGetCurrent");
    CUcontext runners[] = {(CUcontext)second.context, NULL};
    for (int i = 0; i < 2; i++) {
        CUcontext now = (CUcontext)first.context;
        uint64_t ptr = 0, available, total;
        uintptr_t event = 0;
        want(set(runners[i]) == 0, "cannot make a context current");
        want(fkv_memory_info(first, &available, &total).code == 0, "memory info");
        want(fkv_memory_alloc(first, 64, &ptr).code == 0, "alloc");
        want(fkv_event_create(first, 0, &event).code == 0, "event");
        want(fkv_memory_alloc(first, UINT64_C(1) << 60, &total).code != 0, "an impossible allocation");
        want(fkv_memory_free(first, 1).code != 0, "a free of nothing");
        want(fkv_event_destroy(first, event).code == 0 && fkv_memory_free(first, ptr).code == 0, "give back");
        want(get(&now) == 0 && now == runners[i], "another context is current than before");
    }
    want(fkv_context_release(library, 0).code == 0 && fkv_context_release(library, 1).code == 0, "release");
    return 0;
}
