//go:build cgo && !nometal && (darwin || metalsimt)

#import "shim.h"

/* Metal's validation ends a program that asks for more than the largest buffer. */
struct mtl_error *mtl_buffer_make(uintptr_t device, uint64_t length, uintptr_t *buffer) {
    @autoreleasepool {
        id<MTLDevice> d = (id<MTLDevice>)device;
        if (length > [d maxBufferLength]) return mtl_refused(MTL_NEW_BUFFER, "larger than the device's largest buffer");
        *buffer = (uintptr_t)[d newBufferWithLength:length options:MTLResourceStorageModeShared];
        return *buffer != 0 ? NULL : mtl_failed(MTL_NEW_BUFFER, nil);
    }
}

/* The host's copy of managed storage follows the device's only when told to, so only shared
 * storage has contents here. */
void mtl_buffer_describe(uintptr_t buffer, struct mtl_buffer_info *out) {
    @autoreleasepool {
        id<MTLBuffer> b = (id<MTLBuffer>)buffer;
        out->registry = 0;
        if (![b respondsToSelector:@selector(contents)]) return;
        out->untracked = [b hazardTrackingMode] == MTLHazardTrackingModeUntracked;
        out->registry = [[b device] registryID];
        out->length = [b length];
        out->contents = [b storageMode] == MTLStorageModeShared ? [b contents] : NULL;
    }
}
