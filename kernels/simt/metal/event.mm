// MTLSharedEvent: a number that command buffers and the host raise and wait for.
#include "call.h"
#include "classes.h"

using namespace metal;

@implementation SimtEvent

- (uint64_t)signaledValue {
    Call call(_cmd);
    call.m.poll();
    return body_of<Event>(self)->value;
}

// A lower value is taken, too: the host may not know what a queue has signalled meanwhile.
- (void)setSignaledValue:(uint64_t)value {
    Call call(_cmd);
    call.m.signal(*body_of<Event>(self), value);
}

@end
