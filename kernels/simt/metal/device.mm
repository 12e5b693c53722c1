// MTLDevice: what a device says about itself, and what is made on it. What compiles lies in
// library.mm.
#include "call.h"
#include "classes.h"
#include "library.h"

using namespace metal;

@implementation SimtDevice

// A device lives as long as the process, so that it is the same object whoever asks.
- (oneway void)release {
    if (references(self) == 1)
        misuse(self, _cmd, "nobody holds a reference to the device");
    [super release];
}

- (NSString *)name {
    Call call(_cmd);
    return text_of("simt device " + std::to_string(body_of<Device>(self)->ordinal) + " (emulated on the CPU)");
}

- (uint64_t)registryID {
    Call call(_cmd);
    return 0x100000000 + uint64_t(body_of<Device>(self)->ordinal);
}

- (uint64_t)recommendedMaxWorkingSetSize {
    return Call(_cmd).m.settings.memory;
}

- (NSUInteger)maxBufferLength {
    return Call(_cmd).m.settings.largest;
}

- (NSUInteger)currentAllocatedSize {
    Call call(_cmd);
    return body_of<Device>(self)->allocated;
}

- (BOOL)hasUnifiedMemory {
    return Call(_cmd).m.settings.unified;
}

- (BOOL)supportsFamily:(MTLGPUFamily)family {
    Call call(_cmd);
    const Settings &settings = call.m.settings;
    if (family == MTLGPUFamilyMetal3)
        return settings.metal3() && settings.family >= 7;
    return family > 1000 && family <= 1000 + settings.family;
}

- (id<MTLCommandQueue>)newCommandQueue {
    Call call(_cmd);
    auto device = body_of<Device>(self);
    if (call.refused() || device->lost)
        return nil;
    return make([SimtQueue class], std::make_shared<Queue>(*device));
}

- (id<MTLSharedEvent>)newSharedEvent {
    Call call(_cmd);
    if (call.refused() || body_of<Device>(self)->lost)
        return nil;
    return make([SimtEvent class], std::make_shared<Event>());
}

// More than the working set is given, as Metal does: it fails when it is used.
- (id<MTLBuffer>)newBufferWithLength:(NSUInteger)length options:(MTLResourceOptions)options {
    Call call(_cmd);
    auto device = body_of<Device>(self);
    const Settings &settings = call.m.settings;
    if (length == 0)
        misuse(self, _cmd, "a buffer of no bytes");
    bool tracked = !(options & MTLResourceHazardTrackingModeUntracked);
    NSUInteger storage = options & ~NSUInteger(MTLResourceHazardTrackingModeUntracked);
    if (storage != MTLResourceStorageModeShared && storage != MTLResourceStorageModePrivate)
        misuse(self, _cmd, "options %#lx, of which the stand-in knows shared, private and untracked alone", options);
    if (call.refused(&call.m.fail_buffer) || device->lost || length > settings.largest)
        return nil;
    try {
        bool shared = storage == MTLResourceStorageModeShared;
        return make([SimtBuffer class], std::make_shared<Buffer>(*device, length, shared, tracked, settings.memory));
    } catch (const std::bad_alloc &) {
        return nil;
    }
}

- (id<MTLLibrary>)newLibraryWithSource:(NSString *)source options:(MTLCompileOptions *)options error:(NSError **)error {
    Call call(_cmd);
    if (source == nil)
        misuse(self, _cmd, "there is no source");
    if (options.fastMathEnabled || options == nil)
        misuse(self, _cmd, "with fast math, Metal's default, infinities and NaNs mean nothing, which cannot be shown here");
    return library(call, *body_of<Device>(self), source.UTF8String, options.languageVersion, error);
}

- (id<MTLLibrary>)newLibraryWithData:(dispatch_data_t)data error:(NSError **)error {
    Call call(_cmd);
    auto bytes = state<std::string>(data, [SimtData class]);
    if (!bytes)
        misuse(self, _cmd, "this is no dispatch data");
    return packed_library(call, *body_of<Device>(self), *bytes, error);
}

- (id<MTLComputePipelineState>)newComputePipelineStateWithFunction:(id<MTLFunction>)function error:(NSError **)error {
    Call call(_cmd);
    auto f = state<Function>(function, [SimtFunction class]);
    if (!f)
        misuse(self, _cmd, "this is no function");
    if (&f->device != body_of<Device>(self).get())
        misuse(self, _cmd, "the function is another device's");
    return pipeline(call, f, error);
}

@end

NSArray<id<MTLDevice>> *MTLCopyAllDevices(void) {
    std::vector<id> objects;
    for (const auto &device : machine().devices)
        if (machine().settings.listed)
            objects.push_back(device->object);
    return array(objects);
}

id<MTLDevice> MTLCreateSystemDefaultDevice(void) {
    const auto &devices = machine().devices;
    return devices.empty() ? nil : [devices.front()->object retain];
}
