//go:build cgo && !nometal && (darwin || metalsimt)

#import "queue.h"

/* refusal says what is wrong with a launch that Metal would not check: it takes such for a
 * mistake of the program, and ends that or does anything. */
static const char *refusal(const struct mtl_launch *l) {
    if (l->pipeline == 0) return "no pipeline";
    if (l->count > MTL_LAUNCH_BUFFERS) return "too many buffers";
    if (l->size > MTL_LAUNCH_ARGS) return "too many bytes of arguments";
    if (l->grid[0] == 0 || l->grid[1] == 0 || l->grid[2] == 0) return "a grid without threadgroups";
    if (l->threads == 0) return "a threadgroup without threads";
    if (l->threads > [(id<MTLComputePipelineState>)l->pipeline maxTotalThreadsPerThreadgroup])
        return "more threads in a threadgroup than the pipeline can have";
    return NULL;
}

struct mtl_error *mtl_launch(struct mtl_queue *q, const struct mtl_launch *l) {
    @autoreleasepool {
        const char *why = refusal(l);
        if (why != NULL) return mtl_refused("dispatchThreadgroups", why);
        struct mtl_error *e = mtl_queue_encode(q);
        if (e != NULL) return e;

        id<MTLComputePipelineState> pipeline = (id<MTLComputePipelineState>)l->pipeline;
        if (q->pipeline != pipeline) {
            [q->encoder setComputePipelineState:pipeline];
            q->pipeline = pipeline;
        }
        for (uint32_t i = 0; i < l->count; i++)
            if (l->buffers[i] != 0) [q->encoder setBuffer:(id<MTLBuffer>)l->buffers[i] offset:l->offsets[i] atIndex:i];
        if (l->size > 0) [q->encoder setBytes:l->args length:l->size atIndex:l->count];
        [q->encoder dispatchThreadgroups:MTLSizeMake(l->grid[0], l->grid[1], l->grid[2])
                   threadsPerThreadgroup:MTLSizeMake(l->threads, 1, 1)];
        return NULL;
    }
}
