// What the tests of the stand-in for Metal share: small kernels, and a device with a queue.
#pragma once

#include <cstring>
#include <string>
#include <vector>

#import <Metal/Metal.h>

#include "../../metal/control.h"
#include "../child.h"

namespace rig {

#ifdef __SANITIZE_ADDRESS__
// The runtime's tables of classes end with the process.
extern "C" inline __attribute__((used, visibility("default"))) const char *__lsan_default_suppressions() {
    return "leak:libobjc.so";
}
extern "C" inline __attribute__((used, visibility("default"))) const char *__lsan_default_options() {
    return "print_suppressions=0";
}
#endif

// dies runs a case that must end its process by a misuse with these words in its report.
template <class Body> void dies(const char *name, const char *words, Body body, Environment environment = {}) {
    int ends[2];
    demand(pipe(ends) == 0);
    int status = child(environment, [&] {
        dup2(ends[1], STDERR_FILENO);
        @autoreleasepool {
            body();
        }
    });
    close(ends[1]);
    std::string text;
    char part[4096];
    for (ssize_t n; (n = read(ends[0], part, sizeof part)) > 0;)
        text.append(part, size_t(n));
    close(ends[0]);
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT && text.find("misuse: ") != std::string::npos &&
        text.find(words) != std::string::npos)
        return;
    fprintf(stderr, "FAIL %s: status %#x, want \"%s\" in: %s\n", name, unsigned(status), words, text.c_str());
    failures++;
}

inline fkv_metal_counts counts() {
    fkv_metal_counts c;
    demand(fkv_metal_count(&c, sizeof c) == 1);
    return c;
}

// alive is how many objects there are.
inline uint64_t alive(const fkv_metal_counts &c) {
    return c.buffers + c.queues + c.command_buffers + c.encoders + c.events + c.libraries + c.functions + c.pipelines +
           c.others;
}

inline std::string report() {
    char text[1024];
    fkv_metal_report(text, sizeof text);
    return text;
}

// The kernels: add adds by to n numbers, and what more has where there is more; stray writes
// far; diverge has a barrier that one thread does not come to; hold has threadgroup memory.
constexpr const char *SOURCE = R"(#include <metal_stdlib>
using namespace metal;
#line 1 "kernels/metal/rig.metal"
struct Args { uint n; uint by; };
constant bool with_more [[function_constant(2)]];

[[max_total_threads_per_threadgroup(32)]]
kernel void add(device uint *data [[buffer(0)]],
                device const uint *more [[buffer(3), function_constant(with_more)]],
                constant Args &args [[buffer(1)]],
                uint me [[thread_index_in_threadgroup]]) {
    for (uint i = me; i < args.n; i += 32)
        data[i] += args.by + (with_more ? more[i] : 0);
}

[[max_total_threads_per_threadgroup(32)]]
kernel void stray(device uint *data [[buffer(0)]],
                  constant Args &args [[buffer(1)]],
                  uint me [[thread_index_in_threadgroup]]) {
    if (me == 0)
        data[args.n] = args.by;
}

[[max_total_threads_per_threadgroup(32)]]
kernel void diverge(device uint *data [[buffer(0)]],
                    uint me [[thread_index_in_threadgroup]]) {
    if (me != 3)
        threadgroup_barrier(mem_flags::mem_threadgroup);
    data[me] = me;
}

[[max_total_threads_per_threadgroup(32)]]
kernel void hold(device float *data [[buffer(0)]],
                 uint me [[thread_index_in_threadgroup]]) {
    threadgroup float4 shared[64];
    data[me] = shared[me].x;
}
)";

struct Args {
    uint32_t n, by;
};

// device borrows a device, which lives as long as the process.
inline id<MTLDevice> device(NSUInteger i = 0) {
    NSArray<id<MTLDevice>> *all = MTLCopyAllDevices();
    demand(all.count > i);
    id<MTLDevice> found = [all objectAtIndex:i];
    [all release];
    return found;
}

inline id<MTLLibrary> library(id<MTLDevice> device, const char *source = SOURCE, NSError **error = nullptr,
                              MTLLanguageVersion version = MTLLanguageVersion3_0) {
    MTLCompileOptions *options = [MTLCompileOptions new];
    options.fastMathEnabled = NO;
    options.languageVersion = version;
    id<MTLLibrary> made = [device newLibraryWithSource:[NSString stringWithUTF8String:source] options:options error:error];
    [options release];
    return made;
}

inline id<MTLFunction> function(id<MTLLibrary> library, const char *name, bool more = false, NSError **error = nullptr) {
    MTLFunctionConstantValues *values = [MTLFunctionConstantValues new];
    [values setConstantValue:&more type:MTLDataTypeBool atIndex:2];
    id<MTLFunction> made = [library newFunctionWithName:[NSString stringWithUTF8String:name]
                                         constantValues:values
                                                  error:error];
    [values release];
    return made;
}

inline id<MTLComputePipelineState> pipeline(id<MTLDevice> device, const char *name, bool more = false) {
    id<MTLLibrary> l = library(device);
    demand(l != nil);
    id<MTLFunction> f = function(l, name, more);
    demand(f != nil);
    id<MTLComputePipelineState> made = [device newComputePipelineStateWithFunction:f error:nullptr];
    demand(made != nil);
    [f release];
    [l release];
    return made;
}

// numbers is a shared buffer of n zeros.
inline id<MTLBuffer> numbers(id<MTLDevice> device, size_t n) {
    id<MTLBuffer> made = [device newBufferWithLength:4 * n options:MTLResourceStorageModeShared];
    demand(made != nil);
    memset([made contents], 0, 4 * n);
    return made;
}

inline uint32_t *words(id<MTLBuffer> buffer) { return static_cast<uint32_t *>([buffer contents]); }

// Rig is a queue, and pipelines for add and stray.
struct Rig {
    id<MTLDevice> device;
    id<MTLCommandQueue> queue;
    id<MTLComputePipelineState> add;

    explicit Rig(NSUInteger i = 0)
        : device(rig::device(i)), queue([device newCommandQueue]), add(pipeline(device, "add")) {}
    ~Rig() {
        [add release];
        [queue release];
    }
    Rig(const Rig &) = delete;
    Rig &operator=(const Rig &) = delete;
};

// encode adds one dispatch of a kernel that takes Args, in an encoder of its own.
inline void encode(id<MTLCommandBuffer> commands, id<MTLComputePipelineState> pipeline, id<MTLBuffer> data, Args args) {
    id<MTLComputeCommandEncoder> encoder = [commands computeCommandEncoder];
    [encoder setComputePipelineState:pipeline];
    [encoder setBuffer:data offset:0 atIndex:0];
    [encoder setBytes:&args length:sizeof args atIndex:1];
    [encoder dispatchThreadgroups:MTLSizeMake(1, 1, 1) threadsPerThreadgroup:MTLSizeMake(32, 1, 1)];
    [encoder endEncoding];
}

// check runs a case in a process of its own, with a pool, after which nothing may be alive.
template <class Body> void check(const char *name, Body body, Environment environment = {}) {
    run(name, environment, [&] {
        @autoreleasepool {
            body();
        }
        fkv_metal_counts left = counts();
        if (alive(left) != 0)
            fprintf(stderr, "left: buffers %lu, queues %lu, command buffers %lu, encoders %lu, events %lu, libraries %lu, "
                            "functions %lu, pipelines %lu, others %lu\n",
                    left.buffers, left.queues, left.command_buffers, left.encoders, left.events, left.libraries,
                    left.functions, left.pipelines, left.others);
        demand(alive(left) == 0);
    });
}

} // namespace rig
