// MTLCommandBuffer: encodes, commits, and says how it went.
#include <Block.h>

#include "call.h"
#include "classes.h"
#include "control.h"
#include "encoder.h"

using namespace metal;

namespace {

// open is the command buffer's state, which must still take commands.
CommandsRef open(id self, SEL call) {
    auto commands = body_of<Commands>(self);
    if (commands->committed())
        misuse(self, call, "the command buffer was committed before");
    if (commands->encoding)
        misuse(self, call, "an encoder of the command buffer has not ended");
    return commands;
}

std::shared_ptr<Event> event_of(id self, SEL call, id event) {
    auto found = state<Event>(event, [SimtEvent class]);
    if (!found)
        misuse(self, call, "this is no event");
    return found;
}

} // namespace

NSString *const MTLCommandBufferErrorDomain = @"MTLCommandBufferErrorDomain";

Commands::~Commands() {
    if (!ended())
        queue->unfinished--;
    for (MTLCommandBufferHandler handler : handlers)
        Block_release(handler);
    [error release];
}

@implementation SimtCommandBuffer

- (id<MTLComputeCommandEncoder>)computeCommandEncoder {
    Call call(_cmd);
    CommandsRef commands = open(self, _cmd);
    if (call.refused())
        return nil;
    return [make([SimtEncoder class], std::make_shared<Encoder>(commands)) autorelease];
}

- (void)encodeSignalEvent:(id<MTLEvent>)event value:(uint64_t)value {
    Call call(_cmd);
    CommandsRef commands = open(self, _cmd);
    commands->ops.push_back({Op::SIGNAL, event_of(self, _cmd, event), value, nullptr, commands->passes});
}

- (void)encodeWaitForEvent:(id<MTLEvent>)event value:(uint64_t)value {
    Call call(_cmd);
    open(self, _cmd)->ops.push_back({Op::WAIT, event_of(self, _cmd, event), value, nullptr, 0});
}

- (void)addCompletedHandler:(MTLCommandBufferHandler)block {
    Call call(_cmd);
    auto commands = body_of<Commands>(self);
    if (commands->committed())
        misuse(self, _cmd, "the command buffer was committed before");
    commands->handlers.push_back(Block_copy(block));
}

- (void)commit {
    Call call(_cmd);
    CommandsRef commands = open(self, _cmd);
    commands->object = [self retain];
    call.m.commit(commands);
}

- (void)waitUntilCompleted {
    Call call(_cmd);
    auto commands = body_of<Commands>(self);
    if (!commands->committed())
        misuse(self, _cmd, "the command buffer was not committed, so that this call does not return");
    call.m.await(call.lock, commands);
}

- (MTLCommandBufferStatus)status {
    Call call(_cmd);
    auto commands = body_of<Commands>(self);
    if (commands->committed() && !commands->ended())
        call.m.poll();
    return commands->status;
}

- (NSError *)error {
    Call call(_cmd);
    auto commands = body_of<Commands>(self);
    if (commands->status == MTLCommandBufferStatusError && commands->error == nil)
        commands->error = failure(commands->code < FKV_METAL_FOREIGN ? MTLCommandBufferErrorDomain : @"SimtErrorDomain",
                                  NSInteger(commands->code % FKV_METAL_FOREIGN), commands->text);
    return commands->error;
}

@end
