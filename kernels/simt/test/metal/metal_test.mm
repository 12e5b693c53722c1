// The stand-in for Metal: what it shows, what it makes, and when it runs what.
#include <chrono>
#include <thread>

#include <IOKit/IOKitLib.h>

#include "metal_rig.h"

using namespace rig;

static void devices() {
    check("what devices say", [] {
        uint64_t before = counts().others; // the pool
        NSArray<id<MTLDevice>> *all = MTLCopyAllDevices();
        demand(all.count == 2 && [all objectAtIndex:0] == device(0) && device(0) != device(1));
        demand(counts().others == before + 3); // the array, and its references
        [all release];
        id<MTLDevice> d = device(1);
        demand(strstr(d.name.UTF8String, "simt") != nullptr);
        demand(d.recommendedMaxWorkingSetSize == 1 << 20 && d.maxBufferLength == 1 << 19 && d.hasUnifiedMemory);
        demand([d supportsFamily:MTLGPUFamilyApple6] && [d supportsFamily:MTLGPUFamilyApple7]);
        demand(![d supportsFamily:MTLGPUFamilyApple8] && [d supportsFamily:MTLGPUFamilyMetal3]);
        NSOperatingSystemVersion v = [[NSProcessInfo processInfo] operatingSystemVersion];
        demand(v.majorVersion == 14 && v.minorVersion == 5);
    }, {{"FERRUM_SIMT_MEMORY", "1048576"}});
    check("an older system", [] {
        id<MTLDevice> d = device();
        demand([d supportsFamily:MTLGPUFamilyApple6] && ![d supportsFamily:MTLGPUFamilyApple7]);
        demand(![d supportsFamily:MTLGPUFamilyMetal3] && !d.hasUnifiedMemory);
        demand([[NSProcessInfo processInfo] operatingSystemVersion].majorVersion == 13);
        NSError *error = nil;
        demand(library(d, SOURCE, &error, MTLLanguageVersion3_1) == nil && error.code == MTLLibraryErrorUnsupported);
        demand(IOServiceGetMatchingService(kIOMainPortDefault, IOServiceMatching("AGXAccelerator")) == 0);
    }, {{"FERRUM_SIMT_APPLE", "6"}, {"FERRUM_SIMT_MACOS", "13.0"}, {"FERRUM_SIMT_UNIFIED", "0"}});
    check("no device", [] {
        NSArray *none = MTLCopyAllDevices();
        demand(none.count == 0);
        [none release];
    }, {{"FERRUM_SIMT_DEVICES", "0"}});
    check("the registry", [] {
        uint64_t before = counts().others;
        io_service_t gpu = IOServiceGetMatchingService(kIOMainPortDefault, IOServiceMatching("AGXAccelerator"));
        demand(gpu != 0 && counts().others == before + 1);
        demand(IORegistryEntryCreateCFProperty(gpu, CFSTR("colour"), kCFAllocatorDefault, 0) == nullptr);
        CFTypeRef n = IORegistryEntrySearchCFProperty(gpu, kIOServicePlane, CFSTR("gpu-core-count"), kCFAllocatorDefault,
                                                      kIORegistryIterateRecursively);
        int cores = 0;
        demand(CFNumberGetValue(static_cast<CFNumberRef>(n), kCFNumberIntType, &cores) && cores == 8);
        CFRelease(n);
        IOObjectRelease(gpu);
    });
}

static void values() {
    check("strings", [] {
        NSString *s = [[NSString alloc] initWithBytes:"héllo" length:6 encoding:NSUTF8StringEncoding];
        demand(strcmp(s.UTF8String, "héllo") == 0);
        [s release];
        demand([[NSString alloc] initWithBytes:"\xc3" length:1 encoding:NSUTF8StringEncoding] == nil);
        demand([NSString stringWithUTF8String:"\xff"] == nil);
        demand(strcmp(MTLLibraryErrorDomain.UTF8String, "MTLLibraryErrorDomain") == 0);
        [[[MTLLibraryErrorDomain retain] autorelease] release];
    });
    check("pools", [] {
        uint64_t before = counts().others;
        @autoreleasepool {
            [NSString stringWithUTF8String:"outer"];
            @autoreleasepool {
                [NSString stringWithUTF8String:"inner"];
                demand(counts().others == before + 4);
            }
            demand(counts().others == before + 2);
        }
        demand(counts().others == before);
    });
}

static void memory() {
    check("buffers", [] {
        id<MTLDevice> d = device();
        id<MTLBuffer> a = [d newBufferWithLength:100 options:MTLResourceStorageModeShared];
        demand(words(a)[0] == 0xffffffff && words(a)[24] == 0xffffffff); // not zeros, which nobody promised
        demand(a.length == 100 && a.device == d && a.storageMode == MTLStorageModeShared);
        demand(d.currentAllocatedSize == 16384 && device(1).currentAllocatedSize == 0 && counts().bytes == 100);
        id<MTLBuffer> b = [d newBufferWithLength:100 options:MTLResourceStorageModePrivate];
        demand([b contents] == nullptr && b.storageMode == MTLStorageModePrivate);
        [b release];
        demand([d newBufferWithLength:(1 << 19) + 1 options:MTLResourceStorageModeShared] == nil);
        [a release];
        demand(d.currentAllocatedSize == 0);
    }, {{"FERRUM_SIMT_MEMORY", "1048576"}});
    check("a command buffer holds what it uses", [] {
        Rig r;
        id<MTLCommandBuffer> commands = [r.queue commandBuffer];
        id<MTLBuffer> data = numbers(r.device, 4);
        encode(commands, r.add, data, {4, 1});
        [data release];
        demand(counts().buffers == 1 && r.device.currentAllocatedSize == 16384);
        [commands commit];
        demand(counts().buffers == 1);
        [commands waitUntilCompleted];
        demand(counts().buffers == 0 && r.device.currentAllocatedSize == 0);
    });
}

static void programs() {
    check("libraries", [] {
        id<MTLDevice> d = device();
        NSError *error = nil;
        demand(library(d, "#include <metal_stdlib>\n#line 7 \"kernels/metal/bad.metal\"\nnonsense;\n", &error) == nil);
        demand(error.code == MTLLibraryErrorCompileFailure && error.domain == MTLLibraryErrorDomain);
        demand(strstr(error.localizedDescription.UTF8String, "kernels/metal/bad.metal:7") != nullptr);
        id<MTLLibrary> l = library(d);
        demand(function(l, "absent", false, &error) == nil && error.code == MTLLibraryErrorFunctionNotFound);
        [l release];
        id<MTLComputePipelineState> p = pipeline(d, "hold");
        demand(p.maxTotalThreadsPerThreadgroup == 32 && p.threadExecutionWidth == 32 && p.staticThreadgroupMemoryLength == 1024);
        [p release];

        std::string packed = std::string("MTLB") + SOURCE;
        dispatch_data_t data = dispatch_data_create(packed.data(), packed.size(), nullptr, DISPATCH_DATA_DESTRUCTOR_DEFAULT);
        l = [d newLibraryWithData:data error:nullptr];
        demand(l != nil);
        dispatch_release(data);
        [l release];
        data = dispatch_data_create("junk", 4, nullptr, DISPATCH_DATA_DESTRUCTOR_DEFAULT);
        demand([d newLibraryWithData:data error:&error] == nil && error.code == MTLLibraryErrorUnsupported);
        dispatch_release(data);
    });
    check("function constants and optional buffers", [] {
        Rig r;
        id<MTLComputePipelineState> more = pipeline(r.device, "add", true);
        id<MTLBuffer> data = numbers(r.device, 8), extra = numbers(r.device, 8);
        for (uint32_t i = 0; i < 8; i++)
            words(extra)[i] = 100 * i;
        id<MTLCommandBuffer> commands = [r.queue commandBuffer];
        id<MTLComputeCommandEncoder> encoder = [commands computeCommandEncoder];
        Args args = {7, 1};
        [encoder setComputePipelineState:more];
        [encoder setBuffer:data offset:4 atIndex:0];
        [encoder setBuffer:extra offset:0 atIndex:3];
        [encoder setBytes:&args length:sizeof args atIndex:1];
        [encoder dispatchThreadgroups:MTLSizeMake(1, 1, 1) threadsPerThreadgroup:MTLSizeMake(32, 1, 1)];
        [encoder setBuffer:nil offset:0 atIndex:3]; // what is bound stays, unless it is taken away
        [encoder setComputePipelineState:r.add];
        [encoder dispatchThreadgroups:MTLSizeMake(1, 1, 1) threadsPerThreadgroup:MTLSizeMake(32, 1, 1)];
        [encoder endEncoding];
        [commands commit];
        demand(words(data)[1] == 0); // nobody has waited
        [commands waitUntilCompleted];
        demand(commands.status == MTLCommandBufferStatusCompleted && commands.error == nil);
        demand(words(data)[0] == 0 && words(data)[1] == 2 && words(data)[3] == 202);
        [data release];
        [extra release];
        [more release];
    });
}

static void order() {
    check("nothing runs before somebody waits, and polling ends", [] {
        Rig r;
        id<MTLBuffer> data = numbers(r.device, 1);
        id<MTLSharedEvent> event = [r.device newSharedEvent];
        id<MTLCommandBuffer> commands = [r.queue commandBuffer];
        demand(commands.status == MTLCommandBufferStatusNotEnqueued);
        encode(commands, r.add, data, {1, 5});
        [commands encodeSignalEvent:event value:1];
        [commands commit];
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        demand(words(data)[0] == 0);
        int questions = 0;
        while (event.signaledValue == 0)
            questions++;
        demand(questions > 0 && words(data)[0] == 5);
        while (commands.status != MTLCommandBufferStatusCompleted) {
        }
        [commands waitUntilCompleted];
        [event release];
        [data release];
    }, {{"FERRUM_SIMT_SEED", "5"}});
    for (const char *seed : {"0", "1", "2", "3"})
        check("waits between queues", [] {
            Rig a, b;
            id<MTLBuffer> data = numbers(a.device, 1);
            id<MTLSharedEvent> event = [a.device newSharedEvent];
            id<MTLCommandBuffer> second = [b.queue commandBuffer], first = [a.queue commandBuffer];
            [second encodeWaitForEvent:event value:1];
            encode(second, b.add, data, {1, words(data)[0] + 1});
            [second commit];
            encode(first, a.add, data, {1, 10});
            [first encodeSignalEvent:event value:1];
            [first commit];
            [second waitUntilCompleted];
            demand(words(data)[0] == 11 && first.status == MTLCommandBufferStatusCompleted);
            [event release];
            [data release];
        }, {{"FERRUM_SIMT_SEED", seed}});
    check("the order of queues is drawn", [] {
        bool seen[2] = {};
        Rig a, b;
        for (uint64_t seed = 1; seed <= 20; seed++) {
            fkv_metal_seed(seed);
            id<MTLCommandBuffer> first = [a.queue commandBuffer], second = [b.queue commandBuffer];
            [first commit];
            [second commit];
            [first waitUntilCompleted];
            seen[second.status == MTLCommandBufferStatusCompleted] = true;
            [second waitUntilCompleted];
        }
        demand(seen[0] && seen[1]);
    });
    check("the host signals", [] {
        Rig r;
        id<MTLSharedEvent> event = [r.device newSharedEvent];
        id<MTLCommandBuffer> commands = [r.queue commandBuffer];
        [commands encodeWaitForEvent:event value:3];
        [commands commit];
        std::thread late([event] {
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
            event.signaledValue = 3;
        });
        [commands waitUntilCompleted];
        late.join();
        demand(commands.error == nil);
        [event release];
    });
    check("handlers run once, on another thread, before the wait ends", [] {
        Rig r;
        id<MTLCommandBuffer> commands = [r.queue commandBuffer];
        static int calls;
        static bool elsewhere;
        std::thread::id here = std::this_thread::get_id();
        [commands addCompletedHandler:^(id<MTLCommandBuffer> done) {
            calls++;
            elsewhere = std::this_thread::get_id() != here && [done status] == MTLCommandBufferStatusCompleted;
        }];
        [commands commit];
        demand(calls == 0);
        [commands waitUntilCompleted];
        [commands waitUntilCompleted];
        demand(calls == 1 && elsewhere);
    });
    check("a queue has 64 command buffers", [] {
        Rig r;
        for (int i = 0; i < 200; i++)
            @autoreleasepool {
                [[r.queue commandBuffer] commit];
            }
        fkv_metal_counts c = counts();
        demand(c.commits == 200 && c.completed == 200 - 64 && c.command_buffers == 64);
        id<MTLCommandBuffer> last = [r.queue commandBuffer];
        [last commit];
        [last waitUntilCompleted];
    });
    check("10000 steps leave nothing alive", [] {
        Rig r;
        id<MTLBuffer> data = numbers(r.device, 1);
        fkv_metal_counts before = counts();
        for (int i = 0; i < 10000; i++)
            @autoreleasepool {
                id<MTLCommandBuffer> commands = [r.queue commandBuffer];
                encode(commands, r.add, data, {1, 1});
                [commands addCompletedHandler:^(id<MTLCommandBuffer>) {}];
                [commands commit];
                if (i % 32 == 0)
                    [commands waitUntilCompleted];
            }
        id<MTLCommandBuffer> last = [r.queue commandBuffer];
        [last commit];
        [last waitUntilCompleted];
        demand(words(data)[0] == 10000 && alive(counts()) == alive(before) + 1);
        demand(fkv_metal_calls("commit") == 10001);
        [data release];
    });
}

int main() {
    devices();
    values();
    memory();
    programs();
    order();
    return failures != 0;
}
