// Running one block of a launch.
#pragma once

#include <array>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "copies.h"
#include "fiber.h"
#include "random.h"
#include "report.h"
#include "shared.h"
#include "thread.h"

namespace simt {

class Block;

// Meeting is one place where threads wait for each other: the block's barrier, or the lanes
// of one mask of a warp.
struct Meeting {
    unsigned mask = 0;    // of a warp's lanes
    unsigned arrived = 0; // threads, or the mask of lanes
    unsigned turn = 0;    // meetings that were complete
    Site site;            // of the first to arrive
    void *brought[WARP];  // by the lanes
    Order order;
};

// Warp has a meeting for each of its lanes, which is enough: a meeting that some wait for
// has a lane that no other has.
struct Warp {
    unsigned lanes = 0; // those that exist
    unsigned used = 0;  // meetings
    Meeting meetings[WARP];

    Meeting &meeting(unsigned mask);
    void clear();
};

struct Task;

// Crowd is one place where a number of threads of a block meet, some of which may not wait.
struct Crowd {
    unsigned threads = 0, arrived = 0;
    unsigned turn = 0; // meetings that were complete
    Site site;            // of the first to arrive, and what is done of them: those of a group come to the same
    Work work = nullptr;
    std::array<void *, 128> brought;
    std::vector<Task *> waiting;
    Order order;

    void clear() {
        arrived = 0;
        waiting.clear();
        order.renew();
    }
};

// Task is a thread as the core sees it.
struct Task : Thread {
    enum State { READY, AT_BARRIER, IN_WARP, IN_CROWD, PAUSED, RETURNED };

    Block *block;
    Fiber *fiber;
    Warp *warp;
    State state;
    Site site; // where it waits
    Copies copies;
};

// Block runs blocks, one after another; all memory is kept for the next. It belongs to
// one OS thread at a time. Its threads take turns: one runs until it waits or returns.
class Block {
public:
    Block() = default;
    Block(const Block &) = delete;
    Block &operator=(const Block &) = delete;

    // run returns when all threads have returned or report says what was wrong.
    void run(const Launch &launch, Dim index, bool late_copies, Random random, Report &report);

    // join makes what the blocks did known to the calling thread, for the race check.
    void join() { end_.acquire(0); }

    // What the running thread calls through thread.h.
    void barrier(Task &task, bool orders, Site site);
    void meet(Task &task, unsigned mask, void *brought, Collective work, bool orders, Site site);
    void count(Task &task, unsigned id, unsigned threads, bool waits, Site site);
    void gather(Task &task, unsigned group, unsigned threads, unsigned number, void *brought, Work work, Site site);
    void pause(Task &task, Site site);
    void wake();
    void yield(Task &task);
    [[noreturn]] void fault(Task &task, const char *what, const Site *other, Site site);

private:
    // Failure is why the host goes on before all threads returned: a fault of task, or, if
    // null, that no thread can go on.
    struct Failure {
        const Task *task;
        const char *what;
        const Site *other; // a place that completes what
        Site site;
    };

    // On the host's stack, before and after.
    void prepare(const Launch &launch, Dim index, bool late_copies);
    void recruit(size_t threads);
    void abandon();

    // On the fibers. A thread that waits is made ready by the one that ends its wait.
    static void life(void *task);
    void finish(Task &task);
    void join(Task &task, Crowd &here, unsigned threads, bool waits, Work work, Site site);
    void ready(Task &task);
    Task *next();
    Task *draw();
    void wait(Task &task, Task::State state, Site site);
    void go(Fiber &from, Task &to);
    [[noreturn]] void fail(Task &task, const Failure &failure);

    std::string stuck() const;
    std::string explain(const Failure &failure) const;

    const Launch *launch_ = nullptr;
    Random random_;
    Surroundings around_;
    SharedMemory shared_;

    std::vector<Task> tasks_; // the first threads_ of them, a warp's lanes in a row
    std::vector<std::unique_ptr<Fiber>> fibers_; // as many as the largest block needed
    size_t threads_ = 0, returned_ = 0;
    size_t rotation_ = 0; // of fibers among tasks, under the race check
    std::vector<Task *> ready_; // a ring of threads_
    size_t first_ = 0, waiting_ = 0;
    static constexpr size_t GROUP = 128; // threads of a warpgroup
    size_t lazy_ = 0; // number, from 1 on, of a warpgroup that runs only when hardly any other thread is ready; 0: none

    std::deque<Warp> warps_; // where they lie stays the same
    Meeting barrier_;
    Crowd counts_[NAMED], groups_[GROUPS];
    std::vector<Task *> paused_;
    Failure failure_;
    Fiber host_;         // of the OS thread that called run
    Order begin_, end_; // between the host and the threads, by turn 0 alone
};

} // namespace simt
