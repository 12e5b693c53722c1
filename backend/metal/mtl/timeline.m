//go:build cgo && !nometal && (darwin || metalsimt)

#import "timeline.h"

#include <stdatomic.h>
#include <stdlib.h>

/* It belongs to the queue and to the handlers of command buffers that are not over. */
struct mtl_timeline {
    atomic_int references;
    id<MTLSharedEvent> event;
    uint64_t value;           /* that the last command buffer signals; the queue's own */
    _Atomic uint64_t reached; /* by the handlers that ran */
};

struct mtl_timeline *mtl_timeline_make(id<MTLDevice> device) {
    struct mtl_timeline *t = calloc(1, sizeof *t);
    if (t == NULL) return NULL;
    t->event = [device newSharedEvent];
    if (t->event == nil) {
        free(t);
        return NULL;
    }
    atomic_init(&t->references, 1);
    return t;
}

void mtl_timeline_release(struct mtl_timeline *t) {
    if (atomic_fetch_sub(&t->references, 1) > 1) return;
    [t->event release];
    free(t);
}

id<MTLSharedEvent> mtl_timeline_event(const struct mtl_timeline *t) { return t->event; }

/* reach makes the event's value at least that. A handler that sets a value takes back a later
 * one that was signalled meanwhile. If that one's handler had run by then, this one sets it
 * again; otherwise that handler will. */
static void reach(struct mtl_timeline *t, uint64_t value) {
    uint64_t reached = atomic_load(&t->reached);
    while (reached < value && !atomic_compare_exchange_weak(&t->reached, &reached, value)) {
    }
    do {
        value = atomic_load(&t->reached);
        if ([t->event signaledValue] >= value) return;
        [t->event setSignaledValue:value];
    } while (atomic_load(&t->reached) != value);
}

uint64_t mtl_timeline_signal(struct mtl_timeline *t, id<MTLCommandBuffer> command) {
    uint64_t value = ++t->value;
    [command encodeSignalEvent:t->event value:value];
    atomic_fetch_add(&t->references, 1);
    [command addCompletedHandler:^(id<MTLCommandBuffer> over) {
        (void)over;
        @autoreleasepool {
            reach(t, value);
            mtl_timeline_release(t);
        }
    }];
    return value;
}
