/*
 * What a launch costs without Go: prints nanoseconds a call. Arguments: the driver
 * library, the fat binary with fkv_fill, and how often.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../driver.h"

static void want(int ok, const char *what) {
    if (ok) return;
    fprintf(stderr, "%s\n", what);
    exit(1);
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

int main(int count, char **args) {
    static char image[16 << 20];
    struct fill { /* fkv_fill_args: nothing to set */
        uint32_t size, mask;
        uint64_t pattern;
        int64_t bytes;
        uint32_t elem, pad;
    } fill = {sizeof fill, 0xff, 0, 0, 1, 0};
    struct fkv_context context;
    struct fkv_launch launch = {.grid = {1, 1, 1}, .block = 256, .count = 1, .size = sizeof fill};
    int32_t version, devices;
    uintptr_t module;
    char why[256];

    want(count == 4, "need a library, an image and a number");
    uintptr_t library = fkv_open(args[1], why, sizeof why);
    want(library != 0, why);
    FILE *file = fopen(args[2], "rb");
    want(file != NULL && fread(image, 1, sizeof image, file) > 0, "no image");
    want(fkv_init(library, &version, &devices).code == 0, "init");
    want(fkv_context_retain(library, 0, &context).code == 0, "context");
    want(fkv_stream_create(context, &launch.stream).code == 0, "stream");
    want(fkv_module_load(context, image, &module).code == 0, "module");
    want(fkv_module_function(context, module, "fkv_fill", &launch.function).code == 0, "function");
    want(fkv_memory_alloc(context, 256, &launch.buffers[0]).code == 0, "memory");
    memcpy(launch.args, &fill, sizeof fill);

    long n = atol(args[3]);
    double spent = 0;
    for (long done = 0; done < n;) { /* the queue is not endless */
        double start = now();
        for (int i = 0; i < 1000 && done < n; i++, done++) want(fkv_launch(context, &launch, 1).code == 0, "launch");
        spent += now() - start;
        want(fkv_stream_sync(context, launch.stream).code == 0, "sync");
    }
    printf("%f\n", spent / (double)n);
    return 0;
}
