// Fibers: stacks that take turns on one OS thread.
#pragma once

#include <cstddef>

#include "sanitizers.h"

namespace simt {

class Fiber;

// simt_switch keeps the registers that a callee must keep on the stack, stores the stack
// pointer in *from and goes on from stack pointer to. A fiber that is new begins with came
// as its argument.
extern "C" void simt_switch(void **from, void *to, Fiber *came);

// Fiber is a stack and the place where its work stands.
class Fiber {
public:
    // The fiber of the OS thread that calls; adopt makes it that of another.
    Fiber();
    void adopt();

    // A fiber that calls work(argument) again and again: work ends a round by switching
    // away for good. skew, below 4096, keeps the stacks of neighbours out of each other's
    // cache lines. Throws std::bad_alloc when there is no memory for a stack.
    using Work = void (*)(void *argument);
    Fiber(Work work, size_t skew);
    ~Fiber();
    Fiber(const Fiber &) = delete;
    Fiber &operator=(const Fiber &) = delete;

    void give(void *argument) { argument_ = argument; }

    // switch_to goes on where to stands; it returns when another switches back. Inline, so
    // that a switch touches few cache lines of either stack: they are what it waits for.
    void switch_to(Fiber &to) {
        leave(to);
        simt_switch(&sp_, to.sp_, &to);
        arrive();
    }

    // reset forgets where the work stood, so that the next switch begins a round.
    void reset();

private:
    static void life(Fiber *self);

#ifdef __SANITIZE_ADDRESS__
    void leave(Fiber &to);
    void arrive();
#else
    void leave(Fiber &to) {
#ifdef SIMT_TSAN
        __tsan_switch_to_fiber(to.race_, __tsan_switch_to_fiber_no_sync);
#else
        (void)to;
#endif
    }
    void arrive() {}
#endif

    void *sp_ = nullptr; // while it does not run
    unsigned char *base_ = nullptr; // of the mapping, whose first page is the guard; null for an OS thread's
    size_t skew_ = 0;
    Work work_ = nullptr;
    void *argument_ = nullptr;

    // For the sanitizers.
    void *fake_ = nullptr;         // AddressSanitizer's record of the stack
    [[maybe_unused]] void *race_ = nullptr; // ThreadSanitizer's fiber
    const void *bottom_ = nullptr; // of the stack
    size_t size_ = 0;
};

} // namespace simt
