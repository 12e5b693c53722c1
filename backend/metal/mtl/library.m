//go:build cgo && !nometal && (darwin || metalsimt)

#import <dispatch/dispatch.h>

#import "shim.h"

/* Versions of the language by number, because older software development kits do not have
 * the names: https://developer.apple.com/documentation/metal/mtllanguageversion */
enum { MSL_3_0 = 3 << 16, MSL_3_1 = (3 << 16) + 1 };

/* options are the caller's. Fast mathematics would let the compiler take infinities and NaNs
 * for impossible, which the kernels use. Its successor is not in older systems. */
static MTLCompileOptions *options(int32_t bfloat) {
    MTLCompileOptions *o = [MTLCompileOptions new];
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wdeprecated-declarations"
    [o setFastMathEnabled:NO];
#pragma clang diagnostic pop
    [o setLanguageVersion:(MTLLanguageVersion)(bfloat ? MSL_3_1 : MSL_3_0)];
    return o;
}

/* A library with an error beside it is one with warnings. */
struct mtl_error *mtl_library_compile(uintptr_t device, const char *source, size_t size, int32_t bfloat, uintptr_t *library) {
    @autoreleasepool {
        NSString *text = mtl_string(source, size);
        if (text == nil) return mtl_refused("newLibraryWithSource", "the source is no UTF-8");
        MTLCompileOptions *o = options(bfloat);
        NSError *reason = nil;
        *library = (uintptr_t)[(id<MTLDevice>)device newLibraryWithSource:text options:o error:&reason];
        [o release];
        [text release];
        return *library != 0 ? NULL : mtl_failed("newLibraryWithSource", reason);
    }
}

struct mtl_error *mtl_library_load(uintptr_t device, const void *data, size_t size, uintptr_t *library) {
    @autoreleasepool {
        dispatch_data_t copy = dispatch_data_create(data, size, NULL, DISPATCH_DATA_DESTRUCTOR_DEFAULT);
        if (copy == NULL) return mtl_failed("dispatch_data_create", nil);
        NSError *reason = nil;
        *library = (uintptr_t)[(id<MTLDevice>)device newLibraryWithData:copy error:&reason];
        dispatch_release(copy);
        return *library != 0 ? NULL : mtl_failed("newLibraryWithData", reason);
    }
}
