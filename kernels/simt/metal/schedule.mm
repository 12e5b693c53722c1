// When what runs: nothing until somebody waits, then one step at a time of a queue that
// hardware could choose. Within a queue command buffers run in the order of their commits.
#include <algorithm>

#include "machine.h"

namespace metal {
namespace {

using Time = std::chrono::steady_clock;

bool ready(const Queue &queue) {
    const Commands &front = *queue.committed.front();
    return queue.broken || queue.device.lost || !front.blocked();
}

} // namespace

void Machine::commit(const CommandsRef &commands) {
    commands->status = MTLCommandBufferStatusCommitted;
    commands->course->committed = ++time;
    commands->after = known();
    commits++;
    if (commands->queue->committed.empty())
        busy.push_back(commands->queue);
    commands->queue->committed.push_back(commands);
    progress = Time::now();
    changed.notify_all();
}

// step does one step of one queue; false when none can go on.
bool Machine::step() {
    std::vector<Queue *> can;
    for (const QueueRef &queue : busy)
        if (ready(*queue))
            can.push_back(queue.get());
    if (can.empty())
        return false;
    Queue *next = random.on() ? can[random.pick(uint32_t(can.size()))]
                              : *std::min_element(can.begin(), can.end(), [](Queue *a, Queue *b) {
                                    return a->committed.front()->course->committed < b->committed.front()->course->committed;
                                });
    run(*next);
    progress = Time::now();
    changed.notify_all();
    return true;
}

// run does the next step of the queue's first command buffer.
void Machine::run(Queue &queue) {
    CommandsRef commands = queue.committed.front();
    if (queue.device.lost)
        return fail(*commands, MTLCommandBufferErrorDeviceRemoved, "the device was removed");
    if (revoked)
        return fail(*commands, MTLCommandBufferErrorAccessRevoked, "ignored, because of earlier errors");
    if (queue.broken)
        return fail(*commands, MTLCommandBufferErrorInternal, "discarded, because of an earlier error of the queue");
    if (commands->next == 0 && commands->status == MTLCommandBufferStatusCommitted && fail_commands.fires()) {
        injected++;
        revoked = fail_code == MTLCommandBufferErrorAccessRevoked;
        return fail(*commands, fail_code, "a test asked for this failure");
    }
    commands->status = MTLCommandBufferStatusScheduled;
    if (commands->next < commands->ops.size()) {
        Op op = commands->ops[commands->next++];
        order(*commands, op);
        if (op.kind == Op::SIGNAL)
            signal(*op.event, op.value);
        if (op.kind == Op::DISPATCH) {
            unsigned code = 0;
            std::string wrong = execute(*op.dispatch, &code);
            if (!wrong.empty()) {
                note(wrong);
                queue.broken = true;
                return fail(*commands, code, wrong);
            }
        }
    }
    if (commands->next == commands->ops.size())
        finish(*commands, MTLCommandBufferStatusCompleted);
}

void Machine::fail(Commands &commands, unsigned code, const std::string &text) {
    failed++;
    commands.code = code;
    commands.text = text;
    finish(commands, MTLCommandBufferStatusError);
}

// finish ends the first command buffer of a queue. What it used is let go.
void Machine::finish(Commands &commands, MTLCommandBufferStatus status) {
    CommandsRef held = commands.queue->committed.front();
    held->status = status;
    held->ops.clear();
    held->next = 0;
    held->queue->committed.pop_front();
    held->queue->unfinished--;
    if (held->queue->committed.empty())
        busy.erase(std::find(busy.begin(), busy.end(), held->queue));
    end(*held);
    completed++;
    tell(held);
}

void Machine::signal(Event &event, uint64_t value) {
    event.value = value;
    progress = Time::now();
    changed.notify_all();
}

bool Machine::stalled() const { return Time::now() - progress >= std::chrono::milliseconds(settings.timeout); }

// expire fails what has waited too long: no queue can go on, so all wait for events.
void Machine::expire() {
    if (busy.empty())
        return;
    CommandsRef first = busy.front()->committed.front();
    const Op &op = first->ops[first->next];
    std::string text = "deadlock: a command buffer waits for value " + std::to_string(op.value) +
                       " of an event that stands at " + std::to_string(op.event->value) + ", and nothing signals it";
    note(text);
    first->queue->broken = true;
    fail(*first, MTLCommandBufferErrorTimeout, text);
    progress = Time::now();
}

// drive steps until done; false when nothing is left that could bring it about.
template <class Done> bool Machine::drive(std::unique_lock<std::mutex> &lock, Done done) {
    while (!done()) {
        if (step())
            continue;
        if (stalled() && busy.empty())
            return false;
        if (stalled())
            expire();
        else
            changed.wait_until(lock, progress + std::chrono::milliseconds(settings.timeout));
    }
    return true;
}

void Machine::await(std::unique_lock<std::mutex> &lock, const CommandsRef &commands) {
    drive(lock, [&] { return commands->ended(); });
    changed.wait(lock, [&] { return commands->told; });
}

bool Machine::slot(std::unique_lock<std::mutex> &lock, const QueueRef &queue) {
    return drive(lock, [&] { return queue->unfinished < Queue::MOST; });
}

void Machine::poll() {
    if (random.pick(2) == 0 && !step() && stalled())
        expire();
}

} // namespace metal
