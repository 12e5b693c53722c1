#include "queue.h"

#include "machine.h"

namespace standin {
namespace {

// follows: what is enqueued on a stream comes after all that is on the other, by the rule
// of the default stream.
bool follows(const Stream &stream, const Stream &other) {
    return stream.context == other.context && ((stream.legacy && other.blocking) || (stream.blocking && other.legacy));
}

} // namespace

uint64_t Scheduler::random(uint64_t n) {
    if (random_state == 0)
        return 0;
    // splitmix64, kept away from 0, which stands for "in order"
    random_state += 0x9e3779b97f4a7c15u;
    if (random_state == 0)
        random_state = 1;
    uint64_t z = random_state;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (z ^ (z >> 31)) % n;
}

StreamRef Scheduler::open(std::shared_ptr<Context> context, bool blocking, bool legacy) {
    auto stream = std::make_shared<Stream>();
    stream->context = std::move(context);
    stream->id = ++streams_made;
    stream->blocking = blocking;
    stream->legacy = legacy;
    streams[stream->id] = stream;
    return stream;
}

Clock Scheduler::order(const Stream &stream) const {
    Clock clock = host;
    clock.join(stream.clock);
    for (const auto &[id, other] : streams)
        if (follows(stream, *other))
            clock.join(other->clock);
    return clock;
}

OpRef Scheduler::add(Stream &stream, std::function<CUresult()> work, const OpRef &after) {
    auto op = std::make_shared<Op>();
    op->work = std::move(work);
    op->serial = ++serial;
    op->clock = order(stream);
    op->clock.add(stream.id, ++stream.number);
    if (after) {
        op->clock.join(after->clock);
        forget(op->clock);
        op->after.push_back(after);
    }
    for (const auto &[id, other] : streams)
        if (follows(stream, *other) && !other->queue.empty())
            op->after.push_back(other->last);
    stream.clock = op->clock;
    stream.last = op;
    stream.queue.push_back(op);
    return op;
}

bool Scheduler::ready(Stream &stream) {
    if (stream.queue.empty())
        return false;
    const auto &after = stream.queue.front()->after;
    return std::all_of(after.begin(), after.end(), [](const OpRef &op) { return op->done; });
}

void Scheduler::finish(Op &op) {
    op.done = true;
    op.finished = std::chrono::steady_clock::now();
    op.work = nullptr;
    op.after.clear();
}

bool Scheduler::step() {
    std::vector<Stream *> can;
    for (const auto &[id, stream] : streams)
        if (ready(*stream))
            can.push_back(stream.get());
    if (can.empty())
        return false;
    Stream *next = random_state != 0 ? can[random(can.size())]
                                     : *std::min_element(can.begin(), can.end(), [](Stream *a, Stream *b) {
                                           return a->queue.front()->serial < b->queue.front()->serial;
                                       });
    std::shared_ptr<Context> context = next->context;
    if (context->lost != CUDA_SUCCESS) {
        context->fail(context->lost);
        return true;
    }
    OpRef op = next->queue.front();
    next->queue.pop_front();
    CUresult result = op->work ? op->work() : CUDA_SUCCESS;
    finish(*op);
    if (result != CUDA_SUCCESS)
        context->fail(result);
    return true;
}

void Scheduler::wait(const OpRef &op) {
    if (!op)
        return;
    while (!op->done && step()) {
    }
    seen(op->clock);
}

void Scheduler::wait_all(const Context &context) {
    for (auto each = streams.begin(); each != streams.end(); ++each)
        if (each->second->context.get() == &context)
            wait(each->second->last);
}

void Scheduler::drop(const Context &context) {
    for (const auto &[id, stream] : streams) {
        if (stream->context.get() != &context)
            continue;
        for (const OpRef &op : stream->queue)
            finish(*op);
        stream->queue.clear();
    }
}

void Scheduler::close(const Context &context) {
    drop(context);
    for (auto each = streams.begin(); each != streams.end();)
        each = each->second->context.get() == &context ? streams.erase(each) : std::next(each);
    forget_all();
}

bool Scheduler::retire() {
    size_t before = streams.size();
    for (auto each = streams.begin(); each != streams.end();) {
        const Stream &stream = *each->second;
        bool ended = stream.destroyed && stream.queue.empty() && host.covers(stream.clock);
        each = ended ? streams.erase(each) : std::next(each);
    }
    if (streams.size() == before)
        return false;
    forget_all();
    return true;
}

void Scheduler::forget_all() {
    forget(host);
    for (const auto &[id, stream] : streams)
        forget(stream->clock);
}

} // namespace standin
