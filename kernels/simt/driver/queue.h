// Streams as queues of operations that nothing runs until someone waits, and the schedule
// that then picks among all that hardware could run.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "api.h"
#include "clock.h"

namespace standin {

struct Capture;
struct Context;

// Op is one operation of a stream. Without work it is only a place in the order, as
// events and waits are.
struct Op {
    std::function<CUresult()> work;
    std::vector<std::shared_ptr<Op>> after; // what must be done first, besides the queue
    Clock clock;                            // itself and everything before it
    uint64_t serial = 0;
    bool done = false;
    std::chrono::steady_clock::time_point finished;
};

using OpRef = std::shared_ptr<Op>;

struct Stream {
    std::shared_ptr<Context> context;
    uint64_t id = 0;
    CUstream handle = nullptr; // null: a default stream
    bool legacy = false;       // waits for all blocking streams of its context, and they for it
    bool blocking = false;
    bool destroyed = false;
    std::shared_ptr<Capture> capture; // null: it runs what is enqueued
    std::deque<OpRef> queue;
    OpRef last; // null: none yet
    Clock clock;
    uint64_t number = 0; // of its last operation
};

using StreamRef = std::shared_ptr<Stream>;

class Scheduler {
    std::map<uint64_t, StreamRef> streams; // also destroyed ones with work under way
    uint64_t streams_made = 0, serial = 0, random_state = 0;
    Clock host; // what the host has seen end

public:
    uint64_t seed() const { return random_state; }
    void seed(uint64_t n) { random_state = n; }

    // random is below n; 0 when the order is not random.
    uint64_t random(uint64_t n);

    StreamRef open(std::shared_ptr<Context> context, bool blocking, bool legacy);

    // order is what an operation that is enqueued now comes after.
    Clock order(const Stream &stream) const;

    // add enqueues an operation that runs after others, too.
    OpRef add(Stream &stream, std::function<CUresult()> work, const OpRef &after = nullptr);

    // step runs one operation that may run; false when there is none.
    bool step();

    // wait runs operations until this one is done. It may be null.
    void wait(const OpRef &op);

    // wait_all waits for every stream of a context.
    void wait_all(const Context &context);

    // seen: the host knows that what is before clock has ended.
    void seen(const Clock &clock) {
        host.join(clock);
        forget(host);
    }
    bool host_covers(const Clock &clock) const { return host.covers(clock); }

    // remembered is how many streams the host's knowledge is about.
    size_t remembered() const { return host.size(); }

    template <class F> void each(F f) const {
        for (const auto &[id, stream] : streams)
            f(*stream);
    }

    // drop ends all operations of a context without running them.
    void drop(const Context &context);

    // close removes the streams of a context.
    void close(const Context &context);

    // retire forgets destroyed streams whose work the host has seen end; false when there
    // was none.
    bool retire();

    // gone: nothing of the stream is under way, and nobody has to wait for it.
    bool gone(uint64_t stream) const { return streams.count(stream) == 0; }

private:
    void forget(Clock &clock) const {
        clock.forget([this](uint64_t stream) { return gone(stream); });
    }
    void forget_all();
    bool ready(Stream &stream);
    void finish(Op &op);
};

} // namespace standin
