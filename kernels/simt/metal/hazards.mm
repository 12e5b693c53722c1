// Who comes after whom. Metal does not order the uses of an untracked buffer by two passes: an event must, that
// the later one waits for, or the host, which knows that the earlier one is over. Without that they may overlap
// on a device, which the stand-in, where one step follows the other, would not show. So it looks at each use,
// when that runs, and ends the process where nothing but its own schedule put the use after the last one.
//
// What Metal promises is read at its narrowest. A wait holds back the later passes of its command buffer, not
// later command buffers of the queue (encodeWaitForEvent:value:). A signal comes after all that was committed
// to the queue before, and what that waited for (Apple's article "About synchronization events").
//
// It does not know everything. A use is taken for a write of the whole buffer, since a kernel's arguments do not
// tell: uses that only read, or that share no bytes, must be ordered, too. Of several signals that would let a
// wait pass it knows the one that did, so that another seed may find more. The host is taken to know of every
// command buffer that is over when it commits, asked or not, and to know what has raised an event that it reads;
// what the host does with a buffer's bytes is not looked at. An event that the host lowers and that is raised to an
// old value again lets what waits pass, and teaches it nothing.
#include <algorithm>

#include "machine.h"
#include "misuse.h"

namespace metal {

// covers says whether what comes after the clock comes after a use.
bool Clock::covers(const Use &use) const {
    if (use.course->ended != 0 && use.course->ended < before)
        return true;
    auto found = points.find(use.queue);
    if (found == points.end())
        return false;
    const Point &point = found->second;
    return point.course->committed > use.course->committed || (point.course == use.course && point.passes > use.pass);
}

void Clock::join(const Clock &other) {
    before = std::max(before, other.before);
    for (const auto &[queue, point] : other.points) {
        Point &mine = points[queue];
        if (!mine.course || point.course->committed > mine.course->committed ||
            (point.course == mine.course && point.passes > mine.passes))
            mine = point;
    }
}

// forget drops what was over before all that is still to run was committed, and says whether that is all.
bool Clock::forget(uint64_t horizon) {
    for (auto at = points.begin(); at != points.end();) {
        uint64_t ended = at->second.course->ended;
        at = ended != 0 && ended < horizon ? points.erase(at) : std::next(at);
    }
    return points.empty() && before <= horizon;
}

const Clock *Event::raiser(uint64_t value) const {
    auto found = value <= forgotten ? raised.end() : raised.lower_bound(value);
    return found == raised.end() ? nullptr : &found->second;
}

// known is what comes before what the host does now.
Clock Machine::known() const {
    Clock now = host;
    now.before = time + 1;
    return now;
}

// horizon is when the oldest command buffer was committed that is to run: what was over then is known to all.
uint64_t Machine::horizon() const {
    uint64_t oldest = time + 1;
    for (const QueueRef &queue : busy)
        oldest = std::min(oldest, queue->committed.front()->course->committed);
    return oldest;
}

// raise remembers what an event's value comes after. A value that it had reached lets nothing pass.
void Machine::raise(Event &event, uint64_t value, const Clock &after) {
    if (value > event.forgotten && (event.raised.empty() || value > event.raised.rbegin()->first))
        event.raised[value] = after;
    uint64_t oldest = horizon();
    while (!event.raised.empty() && event.raised.begin()->second.forget(oldest)) {
        event.forgotten = event.raised.begin()->first;
        event.raised.erase(event.raised.begin());
    }
}

// see makes the host know what has raised an event to the value that it reads.
void Machine::see(const Event &event) {
    if (const Clock *clock = event.raiser(event.value))
        host.join(*clock);
    host.forget(horizon());
}

// end is when a command buffer is over: what it waited for is behind all that its queue signals later.
void Machine::end(Commands &commands) {
    commands.course->ended = ++time;
    commands.queue->all.join(commands.after);
    commands.queue->all.forget(horizon());
    commands.after = {};
}

// order follows a step of a command buffer that is about to run.
void Machine::order(Commands &commands, const Op &op) {
    Queue &queue = *commands.queue;
    if (op.kind == Op::WAIT) {
        if (const Clock *clock = op.event->raiser(op.value))
            commands.after.join(*clock);
    }
    if (op.kind == Op::SIGNAL) {
        queue.all.join(commands.after);
        queue.all.points[&queue] = {commands.course, op.pass};
        queue.all.forget(horizon());
        raise(*op.event, op.value, queue.all);
    }
    if (op.kind != Op::DISPATCH)
        return;
    Use use{&queue, commands.course, op.pass};
    for (const Binding &bound : op.dispatch->arguments) {
        if (!bound.buffer || bound.buffer->tracked)
            continue;
        Use &last = bound.buffer->last; // it comes after those before
        if (last.course && !(last.course == use.course && last.pass == use.pass) && !commands.after.covers(last))
            misuse("-[SimtCommandBuffer]", "%s uses an untracked buffer, and nothing orders that after an earlier use",
                   op.dispatch->pipeline->entry->kernel.name);
        last = use;
    }
}

} // namespace metal
