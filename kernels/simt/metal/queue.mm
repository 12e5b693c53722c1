// MTLCommandQueue.
#include "call.h"
#include "classes.h"

using namespace metal;

@implementation SimtQueue

- (id<MTLDevice>)device {
    Call call(_cmd);
    return body_of<Queue>(self)->device.object;
}

// As Metal, it waits while the queue has as many unfinished command buffers as it may have.
- (id<MTLCommandBuffer>)commandBuffer {
    Call call(_cmd);
    auto queue = body_of<Queue>(self);
    if (call.refused())
        return nil;
    if (!call.m.slot(call.lock, queue))
        misuse(self, _cmd, "%zu command buffers were never committed, so that this call does not return", Queue::MOST);
    return [make([SimtCommandBuffer class], std::make_shared<Commands>(queue)) autorelease];
}

@end
