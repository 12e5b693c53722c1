//go:build cgo && !nometal && (darwin || metalsimt)

#import "shim.h"

/* A command buffer that was committed may be asked from any thread. */

struct mtl_error *mtl_mark_done(struct mtl_mark m, int32_t *done) {
    @autoreleasepool {
        id<MTLCommandBuffer> command = (id<MTLCommandBuffer>)m.command;
        *done = [command status] == MTLCommandBufferStatusCompleted;
        return mtl_command_error(command);
    }
}

struct mtl_error *mtl_mark_wait(struct mtl_mark m) {
    @autoreleasepool {
        id<MTLCommandBuffer> command = (id<MTLCommandBuffer>)m.command;
        [command waitUntilCompleted];
        return mtl_command_error(command);
    }
}
