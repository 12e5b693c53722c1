//go:build cgo && !nometal && (darwin || metalsimt)

/*
 * A queue's timeline: a shared event whose value grows by one with each command buffer. A
 * command buffer that fails never signals, so the host does it then: who waits for it in
 * another queue goes on, and learns of the failure from its mark.
 */
#ifndef FKV_MTL_TIMELINE_H
#define FKV_MTL_TIMELINE_H

#import "shim.h"

struct mtl_timeline;

/* mtl_timeline_make returns NULL where there is no memory or no event. */
struct mtl_timeline *mtl_timeline_make(id<MTLDevice> device);
void mtl_timeline_release(struct mtl_timeline *t);
id<MTLSharedEvent> mtl_timeline_event(const struct mtl_timeline *t);
/* mtl_timeline_signal ends a command buffer that is about to be committed with the next value,
 * and returns that. */
uint64_t mtl_timeline_signal(struct mtl_timeline *t, id<MTLCommandBuffer> command);

#endif
