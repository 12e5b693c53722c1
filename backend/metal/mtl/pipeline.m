//go:build cgo && !nometal && (darwin || metalsimt)

#import "shim.h"

/* specialise returns a function that the caller releases, nil with a reason. Constants that
 * the function does not have are ignored. */
static id<MTLFunction> specialise(id<MTLLibrary> library, NSString *name, uint32_t constants, uint32_t count, NSError **reason) {
    MTLFunctionConstantValues *values = [MTLFunctionConstantValues new];
    for (uint32_t i = 0; i < count; i++) {
        bool value = (constants >> i & 1) != 0;
        [values setConstantValue:&value type:MTLDataTypeBool atIndex:i];
    }
    id<MTLFunction> function = [library newFunctionWithName:name constantValues:values error:reason];
    [values release];
    return function;
}

struct mtl_error *mtl_pipeline_make(uintptr_t device, uintptr_t library, const char *name, size_t size, uint32_t constants,
                                    uint32_t count, struct mtl_pipeline *out) {
    @autoreleasepool {
        if (count > 32) return mtl_refused("newFunctionWithName", "more than 32 function constants");
        NSString *text = mtl_string(name, size);
        if (text == nil) return mtl_refused("newFunctionWithName", "the name is no UTF-8");
        NSError *reason = nil;
        id<MTLFunction> function = specialise((id<MTLLibrary>)library, text, constants, count, &reason);
        [text release];
        if (function == nil) return mtl_failed("newFunctionWithName", reason);

        id<MTLComputePipelineState> p = [(id<MTLDevice>)device newComputePipelineStateWithFunction:function error:&reason];
        [function release];
        if (p == nil) return mtl_failed("newComputePipelineStateWithFunction", reason);
        out->id = (uintptr_t)p;
        out->threads = [p maxTotalThreadsPerThreadgroup];
        out->width = [p threadExecutionWidth];
        out->memory = [p staticThreadgroupMemoryLength];
        return NULL;
    }
}
