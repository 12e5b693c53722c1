//go:build cgo && !nometal && (darwin || metalsimt)

#ifndef FKV_MTL_QUEUE_H
#define FKV_MTL_QUEUE_H

#import "timeline.h"

/* The command buffers of one queue that Metal lets be unfinished; one more would block:
 * https://developer.apple.com/documentation/metal/mtldevice/makecommandqueue() */
enum { UNFINISHED = 64 };

struct mtl_queue {
    id<MTLCommandQueue> queue;
    struct mtl_timeline *timeline;
    uint64_t value; /* of the timeline after last */
    int ordered;    /* each command buffer waits for the one before */

    id<MTLCommandBuffer> open; /* not committed yet; nil if there is none */
    id<MTLComputeCommandEncoder> encoder; /* of open, nil between passes */
    id<MTLComputePipelineState> pipeline; /* set last in encoder; open retains it */

    id<MTLCommandBuffer> last;   /* committed last */
    id<MTLCommandBuffer> failed; /* the first that failed since the last sync, or that after which nothing helps */
    id<MTLCommandBuffer> committed[UNFINISHED]; /* not seen to be over: a ring, the oldest at first */
    unsigned first, count;
};

/* mtl_queue_encode makes sure that there is an encoder. */
struct mtl_error *mtl_queue_encode(struct mtl_queue *q);

#endif
