// MTLSharedEvent: a number that command buffers and the host raise and wait for.
#include "call.h"
#include "classes.h"

using namespace metal;

@implementation SimtEvent

- (uint64_t)signaledValue {
    Call call(_cmd);
    call.m.poll();
    auto event = body_of<Event>(self);
    call.m.see(*event);
    return event->value;
}

// A lower value is taken, too: the host may not know what a queue has signalled meanwhile.
- (void)setSignaledValue:(uint64_t)value {
    Call call(_cmd);
    auto event = body_of<Event>(self);
    call.m.raise(*event, value, call.m.known());
    call.m.signal(*event, value);
}

@end
