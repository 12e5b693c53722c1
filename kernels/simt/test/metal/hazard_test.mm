// The stand-in for Metal: uses of an untracked buffer that something orders, and those that nothing does, which
// end the process.
#include <malloc.h>

#include "metal_rig.h"

using namespace rig;

// Shared is an untracked buffer of two queues, and events.
struct Shared {
    Rig a, b;
    id<MTLBuffer> data = [a.device newBufferWithLength:4 options:MTLResourceHazardTrackingModeUntracked];
    id<MTLSharedEvent> event = [a.device newSharedEvent], other = [a.device newSharedEvent];
    Shared() { words(data)[0] = 0; }
    ~Shared() {
        [other release];
        [event release];
        [data release];
    }
};

// use adds to the buffer in a pass, twice: dispatches of a pass are in order.
static void use(id<MTLCommandBuffer> commands, Rig &r, id<MTLBuffer> data) {
    id<MTLComputeCommandEncoder> encoder = [commands computeCommandEncoder];
    Args args{1, 1};
    [encoder setComputePipelineState:r.add];
    [encoder setBuffer:data offset:0 atIndex:0];
    [encoder setBytes:&args length:sizeof args atIndex:1];
    for (int twice = 0; twice < 2; twice++)
        [encoder dispatchThreadgroups:MTLSizeMake(1, 1, 1) threadsPerThreadgroup:MTLSizeMake(32, 1, 1)];
    [encoder endEncoding];
}

// add_to is a command buffer that uses a buffer after a value of an event and before another; 0: none.
static id<MTLCommandBuffer> add_to(Rig &r, id<MTLBuffer> data, id<MTLSharedEvent> event, uint64_t after, uint64_t before) {
    id<MTLCommandBuffer> commands = [r.queue commandBuffer];
    if (after != 0)
        [commands encodeWaitForEvent:event value:after];
    use(commands, r, data);
    if (before != 0)
        [commands encodeSignalEvent:event value:before];
    [commands commit];
    return commands;
}

// step is a command buffer of a wait and a signal.
static id<MTLCommandBuffer> step(Rig &r, id<MTLSharedEvent> after, uint64_t value, id<MTLSharedEvent> before, uint64_t next) {
    id<MTLCommandBuffer> commands = [r.queue commandBuffer];
    if (after != nil)
        [commands encodeWaitForEvent:after value:value];
    if (before != nil)
        [commands encodeSignalEvent:before value:next];
    [commands commit];
    return commands;
}

// over says whether command buffers end without an error.
static bool over(std::initializer_list<id<MTLCommandBuffer>> all) {
    for (id<MTLCommandBuffer> commands : all) {
        [commands waitUntilCompleted];
        if (commands.status != MTLCommandBufferStatusCompleted)
            return false;
    }
    return true;
}

// grown is how many bytes more are in use after many rounds.
template <class Round> static int64_t grown(Round round) {
    constexpr uint64_t ROUNDS = 5000;
    int64_t before = 0;
    for (uint64_t i = 0; i < 2 * ROUNDS; i++) {
        @autoreleasepool {
            round(i);
        }
        if (i == ROUNDS)
            before = int64_t(mallinfo2().uordblks);
    }
    return int64_t(mallinfo2().uordblks) - before;
}

static void ordered() {
    check("by events and by the host", [] {
        Shared s;
        add_to(s.a, s.data, s.event, 0, 1);
        add_to(s.a, s.data, s.event, 1, 2);
        add_to(s.b, s.data, s.event, 2, 4);
        demand(over({add_to(s.a, s.data, s.event, 3, 5)})); // 4 is more, and comes after 1 and 2
        demand(over({add_to(s.b, s.data, s.event, 0, 0)}) && words(s.data)[0] == 10);
    });
    check("by a signal, after all of its queue", [] {
        Shared s;
        add_to(s.a, s.data, s.event, 0, 0);
        step(s.a, nil, 0, s.event, 1);
        add_to(s.b, s.data, s.event, 1, 2);
        step(s.a, s.event, 2, nil, 0); // and after what the queue waited for
        step(s.a, nil, 0, s.other, 1);
        demand(over({add_to(s.b, s.data, s.other, 1, 0)}));
    });
    check("by a signal of the runner's own after a wait of another command buffer", [] {
        Shared s;
        add_to(s.a, s.data, s.event, 0, 1);
        step(s.b, s.event, 1, nil, 0);
        id<MTLCommandBuffer> runner = [s.b.queue commandBuffer];
        [runner encodeSignalEvent:s.other value:1];
        [runner encodeWaitForEvent:s.other value:1];
        use(runner, s.b, s.data);
        [runner commit];
        demand(over({runner}));
    });
    check("by a wait that is committed before its signal", [] {
        Shared s;
        id<MTLCommandBuffer> later = add_to(s.b, s.data, s.event, 1, 0);
        add_to(s.a, s.data, s.event, 0, 1);
        demand(over({later}));
    });
    check("passes of one command buffer", [] {
        Shared s;
        id<MTLCommandBuffer> commands = [s.a.queue commandBuffer];
        for (uint64_t i = 1; i <= 3; i++) {
            use(commands, s.a, s.data);
            [commands encodeSignalEvent:s.event value:i];
            [commands encodeWaitForEvent:s.event value:i];
        }
        [commands commit];
        demand(over({commands}) && words(s.data)[0] == 6);
    });
    check("by the host, which saw a signal within a command buffer", [] {
        Shared s;
        id<MTLCommandBuffer> commands = [s.a.queue commandBuffer];
        use(commands, s.a, s.data);
        [commands encodeSignalEvent:s.event value:1];
        [commands encodeWaitForEvent:s.other value:1]; // so that it is not over
        [commands commit];
        while (s.event.signaledValue < 1) {
        }
        id<MTLCommandBuffer> later = add_to(s.b, s.data, nil, 0, 0);
        demand(over({later}));
        s.other.signaledValue = 1;
        demand(over({commands}));
    });
    check("by a signal of the host", [] {
        Shared s;
        id<MTLCommandBuffer> later = add_to(s.b, s.data, s.event, 1, 0);
        demand(over({add_to(s.a, s.data, nil, 0, 0)}));
        s.event.signaledValue = 1;
        demand(over({later}));
    });
    check("what every queue has passed is forgotten", [] {
        if (sanitized)
            return; // it keeps memory for a while
        Shared s;
        int64_t plain = grown([&](uint64_t) { over({step(s.a, nil, 0, nil, 0), step(s.b, nil, 0, nil, 0)}); });
        int64_t events = grown([&](uint64_t i) {
            add_to(s.a, s.data, s.event, 2 * i, 2 * i + 1);
            step(s.b, s.event, 2 * i + 1, s.event, 2 * i + 2);
        });
        demand(events < plain + (256 << 10));
        demand(over({add_to(s.a, s.data, s.event, 20000, 0)}));
    });
}

static void unordered() {
    const char *words = "add uses an untracked buffer, and nothing orders that after an earlier use";
    dies("one queue", words, [] {
        Shared s;
        add_to(s.a, s.data, s.event, 0, 1);
        over({add_to(s.a, s.data, s.event, 0, 0)});
    });
    dies("two queues", words, [] {
        Shared s;
        over({add_to(s.a, s.data, s.event, 0, 1), add_to(s.b, s.data, s.event, 0, 0)});
    });
    dies("an earlier value", words, [] {
        Shared s;
        add_to(s.a, s.data, s.event, 0, 1);
        over({add_to(s.b, s.data, s.event, 1, 0), add_to(s.a, s.data, s.event, 1, 2)});
    });
    dies("a value that was reached long ago", words, [] {
        Shared s;
        for (uint64_t i = 1; i < 10; i++)
            over({step(s.a, nil, 0, s.event, i)});
        add_to(s.a, s.data, s.event, 0, 10);
        over({add_to(s.b, s.data, s.event, 9, 0)});
    });
    dies("two passes", words, [] {
        Shared s;
        id<MTLCommandBuffer> commands = [s.a.queue commandBuffer];
        use(commands, s.a, s.data);
        use(commands, s.a, s.data);
        [commands commit];
        over({commands});
    });
    dies("a signal before the earlier pass", words, [] {
        Shared s;
        id<MTLCommandBuffer> commands = [s.a.queue commandBuffer];
        [commands encodeSignalEvent:s.event value:1];
        use(commands, s.a, s.data);
        [commands encodeWaitForEvent:s.event value:1];
        use(commands, s.a, s.data);
        [commands commit];
        over({commands});
    });
    dies("a wait of an earlier command buffer", words, [] {
        Shared s;
        add_to(s.a, s.data, s.event, 0, 1);
        step(s.b, s.event, 1, nil, 0);
        over({add_to(s.b, s.data, nil, 0, 0)});
    });
    // The value that the wait asks for comes from another queue first.
    dies("another signaller", words, [] {
        Shared s;
        step(s.b, nil, 0, s.event, 2);
        add_to(s.a, s.data, s.event, 0, 1);
        over({add_to(s.b, s.data, s.event, 1, 0)});
    });
}

int main() {
    ordered();
    unordered();
    return failures != 0;
}
