//go:build cgo && !nometal && (darwin || metalsimt)

#import "shim.h"

void mtl_retain(uintptr_t object) {
    @autoreleasepool {
        [(id)object retain];
    }
}

void mtl_release(uintptr_t object) {
    @autoreleasepool {
        [(id)object release];
    }
}

NSString *mtl_string(const char *bytes, size_t size) {
    return [[NSString alloc] initWithBytes:bytes length:size encoding:NSUTF8StringEncoding];
}
