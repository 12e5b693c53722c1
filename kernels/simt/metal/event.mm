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

- (void)setSignaledValue:(uint64_t)value {
    Call call(_cmd);
    auto event = body_of<Event>(self);
    if (value < event->value)
        misuse(self, _cmd, "from %lu down to %lu: who waits for a value between may miss it", event->value, value);
    call.m.signal(*event, value);
}

@end
