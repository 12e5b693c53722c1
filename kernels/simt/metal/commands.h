// Queues and command buffers: what was encoded, and how far it has come.
#pragma once

#include <array>
#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#import <Metal/Metal.h>

#include "../msl/program.h"

namespace metal {

struct Buffer;
struct Commands;
struct Device;

using CommandsRef = std::shared_ptr<Commands>;

struct Queue;

// Clock is the last command buffer of each queue, by its serial, that something comes after.
using Clock = std::map<std::weak_ptr<Queue>, uint64_t, std::owner_less<std::weak_ptr<Queue>>>;

// Use is of a buffer, by a pass of a command buffer.
struct Use {
    std::weak_ptr<Queue> queue;
    uint64_t serial;
    size_t pass;
};

struct Event {
    uint64_t value = 0;
    std::map<uint64_t, Clock> signals; // what is over when a command buffer has signalled a value
};

// Function is a kernel with its constants, and a pipeline is nothing more here.
struct Function {
    Device &device;
    std::shared_ptr<const msl::Program> program; // holds entry
    const msl::Entry *entry;
    std::vector<uint64_t> constants; // by index

    // takes says whether the constants leave the argument in.
    bool takes(const msl::Argument &argument) const {
        return argument.guard < 0 || (size_t(argument.guard) < constants.size() && constants[size_t(argument.guard)] != 0);
    }
};

using FunctionRef = std::shared_ptr<Function>;

// Binding is what an encoder has at one index: a buffer from an offset on, or bytes.
struct Binding {
    std::shared_ptr<Buffer> buffer;
    size_t offset = 0;
    std::shared_ptr<std::vector<std::max_align_t>> bytes;
    size_t length = 0; // of the bytes

    bool empty() const { return !buffer && !bytes; }
    void *data() const;
    size_t size() const; // in bytes, from the offset on
};

// Bindings are an encoder's, by index; Metal has 31.
using Bindings = std::array<Binding, 31>;

// Dispatch is one launch. It holds what it uses, as Metal does.
struct Dispatch {
    FunctionRef pipeline;
    simt::Dim grid;
    simt::Dim group; // threads
    std::vector<Binding> arguments; // as the kernel takes them; empty: left out
};

// Op is one step of a command buffer.
struct Op {
    enum Kind { DISPATCH, SIGNAL, WAIT } kind;
    std::shared_ptr<Event> event;
    uint64_t value;
    std::shared_ptr<Dispatch> dispatch;
    size_t pass = 0; // of the dispatch, counted in its command buffer
};

struct Queue {
    // The most command buffers that a queue has unfinished.
    static constexpr size_t MOST = 64;

    Device &device;
    std::deque<CommandsRef> committed;
    std::atomic<size_t> unfinished{0};
    bool broken = false; // after a fault nothing runs any more
    uint64_t finished = 0; // the serial of the last command buffer that is over
    Clock all;             // what is over when all that was committed is

    explicit Queue(Device &device) : device(device) {}
};

using QueueRef = std::shared_ptr<Queue>;

struct Commands {
    const QueueRef queue;
    std::vector<Op> ops;
    size_t next = 0; // of ops
    uint64_t serial = 0;
    MTLCommandBufferStatus status = MTLCommandBufferStatusNotEnqueued;
    unsigned code = 0; // of the error
    std::string text;
    NSError *error = nil; // made when somebody asks
    bool encoding = false;
    size_t passes = 0;
    id object = nil;                               // held from commit until its handlers have run
    std::vector<MTLCommandBufferHandler> handlers; // copies
    bool told = false;                             // the handlers have run

    explicit Commands(const QueueRef &queue) : queue(queue) { queue->unfinished++; }
    ~Commands();

    bool committed() const { return status != MTLCommandBufferStatusNotEnqueued; }
    bool ended() const { return status >= MTLCommandBufferStatusCompleted; }

    // blocked: the next step waits for an event.
    bool blocked() const { return next < ops.size() && ops[next].kind == Op::WAIT && ops[next].event->value < ops[next].value; }
};

// tell runs the handlers of a command buffer that has ended, on a thread of the stand-in as
// Metal does, and then gives its object back.
void tell(const CommandsRef &commands);

} // namespace metal
