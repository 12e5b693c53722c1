//go:build linux && cgo && metalsimt && !nometal

#import <Metal/Metal.h>

#include "private.h"

uintptr_t fkv_metal_private_buffer(uintptr_t device, size_t size) {
    @autoreleasepool {
        return (uintptr_t)[(id<MTLDevice>)device newBufferWithLength:size options:MTLResourceStorageModePrivate];
    }
}

uintptr_t fkv_metal_untracked_buffer(uintptr_t device, size_t size) {
    @autoreleasepool {
        return (uintptr_t)[(id<MTLDevice>)device newBufferWithLength:size options:MTLResourceHazardTrackingModeUntracked];
    }
}
