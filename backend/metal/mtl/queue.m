//go:build cgo && !nometal && (darwin || metalsimt)

#import "queue.h"

#include <stdlib.h>

struct mtl_error *mtl_queue_make(uintptr_t device, uintptr_t imported, struct mtl_queue **queue) {
    @autoreleasepool {
        id<MTLDevice> d = (id<MTLDevice>)device;
        struct mtl_queue *q = calloc(1, sizeof *q);
        if (q == NULL) return mtl_refused("calloc", "out of host memory");
        q->queue = imported != 0 ? [(id<MTLCommandQueue>)imported retain] : [d newCommandQueue];
        if (q->queue == nil) {
            free(q);
            return mtl_failed("newCommandQueue", nil);
        }
        q->timeline = mtl_timeline_make(d);
        if (q->timeline == NULL) {
            [q->queue release];
            free(q);
            return mtl_failed("newSharedEvent", nil);
        }
        *queue = q;
        return NULL;
    }
}

uintptr_t mtl_queue_id(struct mtl_queue *q) { return (uintptr_t)q->queue; }

uint64_t mtl_queue_device(uintptr_t imported) {
    @autoreleasepool {
        id<MTLCommandQueue> q = (id<MTLCommandQueue>)imported;
        return [q respondsToSelector:@selector(commandBuffer)] ? [[q device] registryID] : 0;
    }
}

/* note keeps the first command buffer that failed, for later failures mostly come of it. One that says that the
 * system ignores the process from now on says more, and those after it say less. */
static void note(struct mtl_queue *q, id<MTLCommandBuffer> over) {
    if ([over status] != MTLCommandBufferStatusError) return;
    if (q->failed != nil && (mtl_command_revoked(q->failed) || !mtl_command_revoked(over))) return;
    [q->failed release];
    q->failed = [over retain];
}

/* drop lets go of the oldest committed command buffer, which is over. */
static void drop(struct mtl_queue *q) {
    id<MTLCommandBuffer> oldest = q->committed[q->first];
    note(q, oldest);
    [oldest release];
    q->first = (q->first + 1) % UNFINISHED;
    q->count--;
}

/* collect drops what is over, without waiting. */
static void collect(struct mtl_queue *q) {
    while (q->count > 0 && [q->committed[q->first] status] >= MTLCommandBufferStatusCompleted) drop(q);
}

/* drain waits until at most limit command buffers are unfinished. */
static void drain(struct mtl_queue *q, unsigned limit) {
    while (q->count > limit) {
        [q->committed[q->first] waitUntilCompleted];
        drop(q);
    }
}

/* begin makes sure that a command buffer is open. What would follow a failure is refused. */
static struct mtl_error *begin(struct mtl_queue *q) {
    if (q->open != nil) return NULL;
    collect(q);
    drain(q, UNFINISHED - 1);
    if (q->failed != nil) return mtl_command_error(q->failed);
    q->open = [[q->queue commandBuffer] retain];
    if (q->open == nil) return mtl_failed("commandBuffer", nil);
    if (q->ordered && q->value > 0) [q->open encodeWaitForEvent:mtl_timeline_event(q->timeline) value:q->value];
    return NULL;
}

struct mtl_error *mtl_queue_encode(struct mtl_queue *q) {
    if (q->encoder != nil) return NULL;
    struct mtl_error *e = begin(q);
    if (e != NULL) return e;
    q->encoder = [[q->open computeCommandEncoder] retain];
    return q->encoder != nil ? NULL : mtl_failed("computeCommandEncoder", nil);
}

struct mtl_error *mtl_queue_open(struct mtl_queue *q) {
    @autoreleasepool {
        return begin(q);
    }
}

static void end_encoding(struct mtl_queue *q) {
    [q->encoder endEncoding];
    [q->encoder release];
    q->encoder = nil;
    q->pipeline = nil;
}

/* The command buffer that is open was begun without a wait. */
void mtl_queue_order(struct mtl_queue *q) {
    @autoreleasepool {
        if (!q->ordered && q->open != nil && q->value > 0) {
            end_encoding(q);
            [q->open encodeWaitForEvent:mtl_timeline_event(q->timeline) value:q->value];
        }
        q->ordered = 1;
    }
}

/* commit sends the open command buffer, if there is one, to the device. */
static void commit(struct mtl_queue *q) {
    if (q->open == nil) return;
    end_encoding(q);
    q->value = mtl_timeline_signal(q->timeline, q->open);
    [q->open commit];
    q->committed[(q->first + q->count++) % UNFINISHED] = q->open;
    [q->last release];
    q->last = [q->open retain];
    q->open = nil;
}

struct mtl_error *mtl_queue_commit(struct mtl_queue *q, struct mtl_mark *out) {
    @autoreleasepool {
        commit(q);
        if (q->failed != nil) return mtl_command_error(q->failed);
        *out = (struct mtl_mark){0, 0, 0};
        if (q->last != nil)
            *out = (struct mtl_mark){(uintptr_t)[q->last retain], (uintptr_t)[mtl_timeline_event(q->timeline) retain], q->value};
        return NULL;
    }
}

/* Whether a command buffer keeps an event that it waits for is not documented, so it is made to. */
struct mtl_error *mtl_queue_wait(struct mtl_queue *q, struct mtl_mark m) {
    @autoreleasepool {
        struct mtl_error *e = begin(q);
        if (e != NULL) return e;
        end_encoding(q);
        uintptr_t event = m.event;
        mtl_retain(event);
        [q->open encodeWaitForEvent:(id<MTLSharedEvent>)event value:m.value];
        [q->open addCompletedHandler:^(id<MTLCommandBuffer> over) {
            (void)over;
            mtl_release(event);
        }];
        return NULL;
    }
}

struct mtl_error *mtl_queue_sync(struct mtl_queue *q) {
    @autoreleasepool {
        commit(q);
        drain(q, 0);
        struct mtl_error *e = mtl_command_error(q->failed);
        [q->failed release];
        q->failed = nil;
        return e;
    }
}

int32_t mtl_queue_idle(struct mtl_queue *q) {
    @autoreleasepool {
        if (q->open != nil) return 0;
        collect(q);
        return q->count == 0 && q->failed == nil;
    }
}

void mtl_queue_close(struct mtl_queue *q) {
    @autoreleasepool {
        commit(q);
        drain(q, 0);
        [q->last release];
        [q->failed release];
        [q->queue release];
        mtl_timeline_release(q->timeline);
        free(q);
    }
}
