// The stand-in for Metal: kernels that fail, failures that a test asks for, and misuse, which
// ends the process.
#include <thread>

#include "metal_rig.h"

using namespace rig;

// ended waits and returns the code of the error, 0 when there is none.
static NSInteger ended(id<MTLCommandBuffer> commands) {
    [commands waitUntilCompleted];
    demand((commands.error != nil) == (commands.status == MTLCommandBufferStatusError));
    demand(commands.error == nil || commands.error.domain == MTLCommandBufferErrorDomain);
    return commands.error.code;
}

static bool says(NSError *error, const char *words) {
    return strstr(error.localizedDescription.UTF8String, words) != nullptr && report().find(words) != std::string::npos;
}

// committed is a command buffer with one dispatch, on its way.
static id<MTLCommandBuffer> committed(Rig &r, id<MTLComputePipelineState> pipeline, id<MTLBuffer> data, Args args) {
    id<MTLCommandBuffer> commands = [r.queue commandBuffer];
    encode(commands, pipeline, data, args);
    [commands commit];
    return commands;
}

static void kernels() {
    if (sanitized)
        return; // the process ends with the sanitizer's report
    check("an address outside of memory", [] {
        Rig r;
        id<MTLComputePipelineState> stray = pipeline(r.device, "stray");
        id<MTLBuffer> data = numbers(r.device, 1024);
        id<MTLSharedEvent> event = [r.device newSharedEvent];
        id<MTLCommandBuffer> bad = [r.queue commandBuffer];
        encode(bad, stray, data, {5000, 1});
        [bad encodeSignalEvent:event value:1];
        [bad commit];
        id<MTLCommandBuffer> later = committed(r, r.add, data, {1, 1});
        demand(ended(bad) == MTLCommandBufferErrorPageFault);
        demand(says(bad.error, "kernel stray") && says(bad.error, "kernels/metal/rig.metal:18"));
        demand(says(bad.error, "behind the 4096 bytes") && says(bad.error, "buffer(0)"));
        demand(event.signaledValue == 0); // what a failed command buffer encoded does not happen
        demand(ended(later) == MTLCommandBufferErrorInternal && words(data)[0] == 0);
        Rig other;
        demand(ended(committed(other, other.add, data, {1, 1})) == 0 && words(data)[0] == 1);
        [event release];
        [data release];
        [stray release];
    });
    check("just outside of memory", [] {
        Rig r;
        id<MTLComputePipelineState> stray = pipeline(r.device, "stray");
        id<MTLBuffer> data = numbers(r.device, 10);
        demand(ended(committed(r, stray, data, {10, 1})) == MTLCommandBufferErrorPageFault);
        demand(report() == "kernel stray wrote just outside of buffer(0)");
        [data release];
        [stray release];
    });
    check("divergence", [] {
        Rig r;
        id<MTLComputePipelineState> diverge = pipeline(r.device, "diverge");
        id<MTLBuffer> data = numbers(r.device, 32);
        id<MTLCommandBuffer> bad = committed(r, diverge, data, {0, 0});
        demand(ended(bad) == MTLCommandBufferErrorTimeout);
        demand(says(bad.error, "kernel diverge") && says(bad.error, "kernels/metal/rig.metal:25"));
        [data release];
        [diverge release];
    });
}

static void failures_on_request() {
    check("what is asked for fails once", [] {
        Rig r;
        id<MTLBuffer> data = numbers(r.device, 1);
        NSError *error = nil;
        fkv_metal_fail_buffer(2);
        id<MTLBuffer> first = [r.device newBufferWithLength:1 options:MTLResourceStorageModeShared];
        demand(first != nil && [r.device newBufferWithLength:1 options:MTLResourceStorageModeShared] == nil);
        [first release];
        fkv_metal_fail_library(1);
        demand(library(r.device, SOURCE, &error) == nil && error.code == MTLLibraryErrorCompileFailure);
        fkv_metal_fail_pipeline(1);
        id<MTLLibrary> l = library(r.device);
        id<MTLFunction> f = function(l, "add");
        error = nil;
        demand([r.device newComputePipelineStateWithFunction:f error:&error] == nil && error != nil);
        fkv_metal_fail_call(2);
        demand([r.queue commandBuffer] != nil && [r.queue commandBuffer] == nil && [r.queue commandBuffer] != nil);
        for (int i = 0; i < 3; i++) {
            fkv_metal_fail_call(1);
            id made[] = {i == 0 ? [r.device newCommandQueue] : nil, i == 1 ? [r.device newSharedEvent] : nil,
                         i == 2 ? function(l, "add") : nil};
            demand(made[0] == nil && made[1] == nil && made[2] == nil);
        }
        [f release];
        [l release];
        fkv_metal_fail_commands(2, MTLCommandBufferErrorOutOfMemory);
        demand(ended(committed(r, r.add, data, {1, 1})) == 0);
        demand(ended(committed(r, r.add, data, {1, 1})) == MTLCommandBufferErrorOutOfMemory);
        demand(ended(committed(r, r.add, data, {1, 1})) == 0 && words(data)[0] == 2);
        demand(counts().injected == 8 && counts().failed == 1);
        fkv_metal_fail_commands(1, MTLCommandBufferErrorAccessRevoked);
        demand(ended(committed(r, r.add, data, {1, 1})) == MTLCommandBufferErrorAccessRevoked);
        Rig later;
        demand(ended(committed(later, later.add, data, {1, 1})) == MTLCommandBufferErrorAccessRevoked && words(data)[0] == 2);
        fkv_metal_fail_commands(0, 0);
        demand(ended(committed(r, r.add, data, {1, 1})) == 0 && words(data)[0] == 3);
        [data release];
    });
    check("a device is lost", [] {
        Rig r, other(1);
        id<MTLBuffer> data = numbers(r.device, 1);
        id<MTLCommandBuffer> commands = committed(r, r.add, data, {1, 1});
        demand(fkv_metal_lose(0, 1) == 1 && fkv_metal_lose(2, 1) == 0);
        demand(ended(commands) == MTLCommandBufferErrorDeviceRemoved && words(data)[0] == 0);
        demand([r.device newBufferWithLength:1 options:MTLResourceStorageModeShared] == nil);
        demand([r.device newCommandQueue] == nil && [r.device newSharedEvent] == nil);
        id<MTLBuffer> elsewhere = numbers(other.device, 1);
        demand(ended(committed(other, other.add, elsewhere, {1, 1})) == 0);
        fkv_metal_lose(0, 0);
        demand(ended(committed(r, r.add, data, {1, 1})) == 0 && words(data)[0] == 1);
        [elsewhere release];
        [data release];
    });
    check("a deadlock times out", [] {
        Rig r;
        id<MTLSharedEvent> event = [r.device newSharedEvent];
        id<MTLCommandBuffer> bad = [r.queue commandBuffer], later = [r.queue commandBuffer];
        [bad encodeWaitForEvent:event value:7];
        [bad commit];
        [later commit];
        demand(ended(later) == MTLCommandBufferErrorInternal);
        demand(ended(bad) == MTLCommandBufferErrorTimeout && says(bad.error, "value 7 of an event that stands at 0"));
        [event release];
    }, {{"FERRUM_SIMT_TIMEOUT", "30"}});
    check("a handler signals what a failed command buffer could not", [] {
        Rig a, b;
        id<MTLSharedEvent> event = [a.device newSharedEvent];
        id<MTLCommandBuffer> bad = [a.queue commandBuffer], waits = [b.queue commandBuffer];
        [bad encodeSignalEvent:event value:1];
        [bad addCompletedHandler:^(id<MTLCommandBuffer>) { event.signaledValue = 1; }];
        [waits encodeWaitForEvent:event value:1];
        fkv_metal_fail_commands(1, MTLCommandBufferErrorInternal);
        [bad commit];
        [waits commit];
        demand(ended(waits) == 0 && ended(bad) == MTLCommandBufferErrorInternal);
        [event release];
    });
}

// Encoding is an open encoder with everything bound for add.
struct Encoding {
    Rig r;
    id<MTLBuffer> data;
    id<MTLCommandBuffer> commands;
    id<MTLComputeCommandEncoder> encoder;
    Args args{1, 1};

    Encoding() : data(numbers(r.device, 4)), commands([r.queue commandBuffer]), encoder([commands computeCommandEncoder]) {
        [encoder setComputePipelineState:r.add];
        [encoder setBuffer:data offset:0 atIndex:0];
        [encoder setBytes:&args length:sizeof args atIndex:1];
    }
    void dispatch(NSUInteger groups = 1, NSUInteger threads = 32) {
        [encoder dispatchThreadgroups:MTLSizeMake(groups, 1, 1) threadsPerThreadgroup:MTLSizeMake(threads, 1, 1)];
    }
};

static void misuse_of_encoders() {
    dies("commit with an open encoder", "encoder of the command buffer has not ended", [] { [Encoding().commands commit]; });
    dies("two encoders", "encoder of the command buffer has not ended", [] { [Encoding().commands computeCommandEncoder]; });
    dies("signal between dispatches", "has not ended", [] {
        Encoding e;
        [e.commands encodeSignalEvent:[e.r.device newSharedEvent] value:1];
    });
    dies("encoder released", "released without endEncoding", [] { @autoreleasepool { Encoding(); } });
    dies("encoding after the end", "the encoder has ended", [] {
        Encoding e;
        [e.encoder endEncoding];
        e.dispatch();
    });
    dies("no pipeline", "no pipeline is set", [] {
        Rig r;
        id<MTLComputeCommandEncoder> encoder = [[r.queue commandBuffer] computeCommandEncoder];
        [encoder dispatchThreadgroups:MTLSizeMake(1, 1, 1) threadsPerThreadgroup:MTLSizeMake(32, 1, 1)];
    });
    dies("missing buffer", "add takes buffer(0), which nothing is bound to", [] {
        Encoding e;
        [e.encoder setBuffer:nil offset:0 atIndex:0];
        e.dispatch();
    });
    dies("missing optional buffer", "add takes buffer(3), which nothing is bound to", [] {
        Encoding e;
        [e.encoder setComputePipelineState:pipeline(e.r.device, "add", true)];
        e.dispatch();
    });
    dies("bytes for memory", "bytes are bound to buffer(0)", [] {
        Encoding e;
        [e.encoder setBytes:&e.args length:sizeof e.args atIndex:0];
        e.dispatch();
    });
    dies("offset outside", "is outside of a buffer of 16 bytes", [] {
        Encoding e;
        [e.encoder setBuffer:e.data offset:16 atIndex:0];
    });
    dies("long bytes", "from 1 to 4096 can be set", [] {
        char bytes[4097] = {};
        [Encoding().encoder setBytes:bytes length:sizeof bytes atIndex:1];
    });
    dies("short bytes", "takes 8 bytes at buffer(1), and 4 are bound", [] {
        Encoding e;
        [e.encoder setBytes:&e.args length:4 atIndex:1];
        e.dispatch();
    });
    dies("other threads", "64 threads, and it is made for 32", [] { Encoding().dispatch(1, 64); });
    dies("fewer threads", "16 threads, and it is made for 32", [] { Encoding().dispatch(1, 16); });
    dies("empty grid", "a grid or a threadgroup of size 0", [] { Encoding().dispatch(0); });
    dies("wrong index", "index 31: there are 31", [] {
        Encoding e;
        [e.encoder setBuffer:e.data offset:0 atIndex:31];
    });
    dies("buffer of another device", "another device's", [] {
        Encoding e;
        [e.encoder setBuffer:numbers(device(1), 1) offset:0 atIndex:0];
    });
    dies("pipeline of another device", "another device's", [] {
        Encoding e;
        [e.encoder setComputePipelineState:pipeline(device(1), "add")];
    });
    dies("beyond the working set", "beyond the working set", [] {
        Encoding e;
        id<MTLBuffer> large = numbers(e.r.device, 48 << 10);
        for (int i = 0; i < 5; i++)
            large = numbers(e.r.device, 48 << 10); // Metal gives it, and it does not work
        [e.encoder setBuffer:large offset:0 atIndex:0];
        e.dispatch();
    }, {{"FERRUM_SIMT_MEMORY", "1048576"}});
}

static void misuse_of_command_buffers() {
    dies("committed twice", "was committed before", [] {
        Rig r;
        id<MTLCommandBuffer> commands = [r.queue commandBuffer];
        [commands commit];
        [commands commit];
    });
    dies("encoding after commit", "was committed before", [] {
        Rig r;
        id<MTLCommandBuffer> commands = [r.queue commandBuffer];
        [commands commit];
        [commands computeCommandEncoder];
    });
    dies("handler after commit", "was committed before", [] {
        Rig r;
        id<MTLCommandBuffer> commands = [r.queue commandBuffer];
        [commands commit];
        [commands addCompletedHandler:^(id<MTLCommandBuffer>) {}];
    });
    dies("waiting without commit", "was not committed", [] {
        Rig r;
        [[r.queue commandBuffer] waitUntilCompleted];
    });
    dies("too many open command buffers", "64 command buffers were never committed", [] {
        Rig r;
        for (int i = 0; i < 65; i++)
            [r.queue commandBuffer];
    }, {{"FERRUM_SIMT_TIMEOUT", "30"}});
}

static void misuse_of_objects() {
    dies("no pool", "there is no pool on this thread", [] {
        std::thread([] { [NSString stringWithUTF8String:"x"]; }).join();
    });
    dies("message to a freed object", "sent to an object that was freed", [] {
        id<MTLBuffer> data = numbers(device(), 1);
        [data release];
        [data length];
    });
    dies("over-release", "sent to an object that was freed", [] {
        id<MTLBuffer> data = numbers(device(), 1);
        [data release];
        [data release];
    });
    dies("over-release of a device", "nobody holds a reference", [] { [device() release]; });
    dies("a method that is not there", "no such method", [] { 
        id object = device();
        [object processInfo];
     });
    dies("a buffer of no bytes", "a buffer of no bytes", [] {
        [device() newBufferWithLength:0 options:MTLResourceStorageModeShared];
    });
    dies("an unset constant", "constant 2, which the library declares, has no value", [] {
        MTLFunctionConstantValues *values = [MTLFunctionConstantValues new];
        [library(device()) newFunctionWithName:[NSString stringWithUTF8String:"add"] constantValues:values error:nullptr];
    });
    dies("a constant of another type", "constants of type bool alone", [] {
        [[MTLFunctionConstantValues new] setConstantValue:"" type:MTLDataType(33) atIndex:0];
    });
    dies("fast math", "with fast math", [] {
        [device() newLibraryWithSource:[NSString stringWithUTF8String:""] options:[MTLCompileOptions new] error:nullptr];
    });
}

int main() {
    kernels();
    failures_on_request();
    misuse_of_encoders();
    misuse_of_command_buffers();
    misuse_of_objects();
    return failures != 0;
}
