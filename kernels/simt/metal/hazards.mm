// Who comes after whom. Metal does not order the uses of an untracked buffer by two passes: an event must, that
// the later one waits for, or the host, which knows that the earlier one is over. Without that they may overlap
// on a device, which the stand-in, where one step follows the other, would not show. So a commit looks. Uses
// that only read count as well: a kernel's arguments do not tell.
#include "machine.h"
#include "misuse.h"

namespace metal {
namespace {

// join makes a clock know what another does.
void join(Clock &clock, const Clock &other) {
    for (const auto &[queue, serial] : other)
        clock[queue] = std::max(clock[queue], serial);
}

// covers says whether work that comes after the clock comes after a use.
bool covers(const Clock &clock, const Use &use) {
    QueueRef queue = use.queue.lock();
    if (!queue || queue->finished >= use.serial)
        return true;
    auto found = clock.find(use.queue);
    return found != clock.end() && found->second >= use.serial;
}

} // namespace

// order follows a command buffer that is being committed. An event's value stands for all that the queue has
// before it.
void Machine::order(const Commands &commands) {
    std::weak_ptr<Queue> queue = commands.queue;
    Clock after; // what is over when the next op begins
    for (const Op &op : commands.ops) {
        if (op.kind == Op::WAIT) {
            auto signal = op.event->signals.lower_bound(op.value);
            if (signal != op.event->signals.end())
                join(after, signal->second);
            continue;
        }
        if (op.kind == Op::SIGNAL) {
            Clock &all = commands.queue->all;
            join(all, after);
            all[queue] = commands.serial;
            op.event->signals[op.value] = all;
            continue;
        }
        for (const Binding &bound : op.dispatch->arguments) {
            if (!bound.buffer || bound.buffer->tracked)
                continue;
            std::vector<Use> &uses = bound.buffer->uses;
            for (const Use &use : uses) {
                bool same = use.queue.lock() == commands.queue && use.serial == commands.serial;
                if (same ? use.pass != op.pass : !covers(after, use))
                    misuse("-[SimtCommandBuffer commit]",
                           "%s uses an untracked buffer, and nothing orders that after an earlier use",
                           op.dispatch->pipeline->entry->kernel.name);
            }
            uses = {{queue, commands.serial, op.pass}};
        }
    }
    join(commands.queue->all, after);
    commands.queue->all[queue] = commands.serial;
}

} // namespace metal
