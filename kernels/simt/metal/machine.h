// The state of the stand-in: devices, queues with work, and what tests asked for. One mutex
// guards all of it, also while a kernel runs, so that every call sees a whole state.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "../core/mapping.h"
#include "../core/random.h"
#include "commands.h"
#include "settings.h"

namespace metal {

struct Device {
    int ordinal = 0;
    bool lost = false;
    id object = nil; // the one that stands for it as long as the process lives

    // Memory may end on any thread.
    std::atomic<size_t> buffers{0}, bytes{0}; // alive, also those that only work under way holds
    std::atomic<size_t> allocated{0};         // bytes, in whole pages
};

// Buffer is memory of a device.
struct Buffer {
    Device &device;
    simt::Mapping memory;
    const bool shared;  // with the host
    const bool tracked; // by Metal, which orders its uses
    Use last; // where it is not
    const bool excess; // more than the working set: it exists, and using it is misuse

    // Throws std::bad_alloc when the host has no memory left.
    Buffer(Device &device, size_t size, bool shared, bool tracked, size_t working_set);
    ~Buffer();
};

// Countdown makes the n-th of a kind of calls fail.
struct Countdown {
    uint64_t left = 0; // 0: none
    bool fires() { return left != 0 && --left == 0; }
};

struct Machine {
    std::mutex mutex;
    std::condition_variable changed; // work has ended, or an event has gone up
    Settings settings;
    std::vector<std::unique_ptr<Device>> devices;

    Countdown fail_buffer, fail_library, fail_pipeline, fail_commands, fail_call;
    unsigned fail_code = 0; // of fail_commands
    bool revoked = false;   // the process's access to all devices
    uint64_t commits = 0, dispatches = 0, completed = 0, failed = 0, injected = 0;
    uint64_t untold = 0; // command buffers that the thread of the handlers has
    std::map<std::string, uint64_t, std::less<>> calls; // by selector
    std::string report;                                 // the last thing that went wrong

    Machine();
    void seed(uint64_t seed) { random = simt::Random(seed); }

    // note keeps a report and prints it.
    void note(const std::string &text);

    // commit gives a command buffer to its queue, where it runs when somebody waits.
    void commit(const CommandsRef &commands);

    // await returns when the command buffer has ended and its handlers have run. lock is
    // that of mutex.
    void await(std::unique_lock<std::mutex> &lock, const CommandsRef &commands);

    // slot waits until the queue has room for one more command buffer; false: it never will.
    bool slot(std::unique_lock<std::mutex> &lock, const QueueRef &queue);

    // poll is what a question does: at times something gets on, so that polling ends.
    void poll();

    // signal sets an event's value, for a command buffer or for the host.
    void signal(Event &event, uint64_t value);

    // see is what reading an event's value tells the host of the order of uses, as raise is of setting it.
    void see(const Event &event);
    void raise(Event &event, uint64_t value, const Clock &after);
    Clock known() const; // to the host, of that order

private:
    simt::Random random;
    std::vector<QueueRef> busy; // queues with work, in no order
    uint64_t time = 0; // goes on with each commit and each end of a command buffer
    Clock host;        // what the host knows to be over of command buffers that are not
    std::chrono::steady_clock::time_point progress; // the last time that something happened

    bool step();
    void run(Queue &queue);
    uint64_t horizon() const;
    void order(Commands &commands, const Op &op);
    void end(Commands &commands);
    std::string execute(const Dispatch &dispatch, unsigned *code);
    void fail(Commands &commands, unsigned code, const std::string &text);
    void finish(Commands &commands, MTLCommandBufferStatus status);
    bool stalled() const;
    void expire();
    template <class Done> bool drive(std::unique_lock<std::mutex> &lock, Done done);
};

// machine is the process's only one. It is never destroyed, because calls may come while
// the process ends.
Machine &machine();

} // namespace metal
