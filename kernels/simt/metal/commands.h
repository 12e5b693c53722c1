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

// Course is when a command buffer was committed and when it was over, in the machine's time; 0: not yet.
struct Course {
    uint64_t committed = 0, ended = 0;
};

// Use is of a buffer, by a pass of a command buffer.
struct Use {
    const Queue *queue = nullptr;
    std::shared_ptr<const Course> course;
    size_t pass = 0;
};

// Point is in a queue's work: the first passes of a command buffer, and all that was committed before that.
struct Point {
    std::shared_ptr<const Course> course;
    size_t passes = 0;
};

// Clock is what something comes after: what was over at some time, and points in the work of queues. A queue
// that is where another was has later work, which comes after the other's.
struct Clock {
    uint64_t before = 0;
    std::map<const Queue *, Point> points;

    bool covers(const Use &use) const;
    void join(const Clock &other);
    bool forget(uint64_t horizon);
};

struct Event {
    uint64_t value = 0;
    std::map<uint64_t, Clock> raised; // what came before the event reached a value that it had not reached
    uint64_t forgotten = 0;           // the value up to which that is known to all

    // raiser is what a wait for a value comes after; null: nothing that is not known to all.
    const Clock *raiser(uint64_t value) const;
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
    size_t pass; // of a dispatch, counted in its command buffer; of a signal, how many are before
};

struct Queue {
    // The most command buffers that a queue has unfinished.
    static constexpr size_t MOST = 64;

    Device &device;
    std::deque<CommandsRef> committed;
    std::atomic<size_t> unfinished{0};
    bool broken = false; // after a fault nothing runs any more
    Clock all; // what is over when all that has run is

    explicit Queue(Device &device) : device(device) {}
};

using QueueRef = std::shared_ptr<Queue>;

struct Commands {
    const QueueRef queue;
    std::vector<Op> ops;
    size_t next = 0; // of ops
    const std::shared_ptr<Course> course = std::make_shared<Course>();
    Clock after; // what is over when the next op begins
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
