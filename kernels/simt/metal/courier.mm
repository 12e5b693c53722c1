// The thread that runs completed handlers. Metal has one, too: a handler that needs a lock
// which a thread holds that waits for the command buffer hangs here as there. No pool is
// in place for a handler.
#include <Block.h>

#include <thread>

#include "machine.h"

namespace metal {
namespace {

class Courier {
    std::mutex mutex;
    std::condition_variable given;
    std::deque<CommandsRef> ended;
    bool hired = false;

    [[noreturn]] void work() {
        std::unique_lock<std::mutex> lock(mutex);
        for (;;) {
            given.wait(lock, [this] { return !ended.empty(); });
            CommandsRef commands = std::move(ended.front());
            ended.pop_front();
            lock.unlock();
            deliver(*commands);
            commands = nullptr;
            forget();
            lock.lock();
        }
    }

    static void deliver(Commands &commands) {
        for (MTLCommandBufferHandler handler : commands.handlers) {
            handler(commands.object);
            Block_release(handler);
        }
        commands.handlers.clear();
        [commands.object release];
        commands.object = nil;
        Machine &m = machine();
        std::lock_guard<std::mutex> lock(m.mutex);
        commands.told = true;
        m.changed.notify_all();
    }

    // Now nothing is held any more on behalf of the command buffer.
    static void forget() {
        Machine &m = machine();
        std::lock_guard<std::mutex> lock(m.mutex);
        m.untold--;
        m.changed.notify_all();
    }

public:
    void give(const CommandsRef &commands) {
        std::lock_guard<std::mutex> lock(mutex);
        if (!hired)
            std::thread([this] { work(); }).detach();
        hired = true;
        ended.push_back(commands);
        given.notify_one();
    }
};

Courier &courier() {
    static Courier *c = new Courier; // its thread lives as long as the process
    return *c;
}

} // namespace

void tell(const CommandsRef &commands) {
    if (!commands->handlers.empty()) {
        machine().untold++;
        return courier().give(commands);
    }
    commands->told = true;
    [commands->object release];
    commands->object = nil;
}

} // namespace metal
