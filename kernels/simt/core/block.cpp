#include "block.h"

#include <algorithm>
#include <map>

namespace simt {

__thread Thread *current;
Dialect dialect;

namespace {

Task &self() { return *static_cast<Task *>(current); }

std::string text(Site site) { return std::string(site.file) + ":" + std::to_string(site.line); }

std::string text(Dim d) {
    return "(" + std::to_string(d.x) + "," + std::to_string(d.y) + "," + std::to_string(d.z) + ")";
}

} // namespace

void barrier(bool orders, Site site) { self().block->barrier(self(), orders, site); }
void meet(unsigned mask, void *brought, Collective work, bool orders, Site site) {
    self().block->meet(self(), mask, brought, work, orders, site);
}
void count(unsigned id, unsigned threads, bool waits, Site site) { self().block->count(self(), id, threads, waits, site); }
void gather(unsigned group, unsigned threads, unsigned number, void *brought, Work work, Site site) {
    self().block->gather(self(), group, threads, number, brought, work, site);
}
void pause(Site site) { self().block->pause(self(), site); }
void wake() { self().block->wake(); }
void yield() { self().block->yield(self()); }
void fault(const char *what, Site site) { self().block->fault(self(), what, nullptr, site); }

void begin_copy(Copy copy) { self().copies.begin(copy); }
void close_copies() { self().copies.close(); }
bool take_copy(unsigned pending, Copy &copy) { return self().copies.take(pending, copy); }

// ready appends to the ring of those that may run.
inline void Block::ready(Task &task) {
    task.state = Task::READY;
    size_t at = first_ + waiting_++;
    ready_[at < threads_ ? at : at - threads_] = &task;
}

// next takes one of those that are ready: any, or the first one without a seed; null if
// there is none. Threads of the lazy warpgroup are put back while others are ready.
inline Task *Block::next() {
    if (waiting_ == 0)
        return nullptr;
    Task *task = draw();
    for (size_t others = waiting_; lazy_ != 0 && others > 0 && size_t(task - tasks_.data()) / GROUP + 1 == lazy_; others--) {
        ready(*task);
        task = draw();
    }
    return task;
}

inline Task *Block::draw() {
    size_t at = first_ + random_.pick(uint32_t(waiting_));
    std::swap(ready_[first_], ready_[at < threads_ ? at : at - threads_]);
    Task *task = ready_[first_];
    first_ = first_ + 1 < threads_ ? first_ + 1 : 0;
    waiting_--;
    return task;
}

// go switches to a task. current is set before, on the OS thread that it belongs to.
inline void Block::go(Fiber &from, Task &to) {
    current = &to;
    if (&from != to.fiber)
        from.switch_to(*to.fiber);
}

// wait returns when the task was made ready and is next. If nobody can run, nobody ever will.
inline void Block::wait(Task &task, Task::State state, Site site) {
    task.state = state;
    task.site = site;
    if (Task *to = next())
        go(*task.fiber, *to);
    else
        fail(task, {});
}

void Block::run(const Launch &launch, Dim index, bool late_copies, Random random, Report &report) {
    random_ = random;
    host_.adopt();
    prepare(launch, index, late_copies);
    begin_.release(0);
    go(host_, *next());
    current = nullptr;
    std::string wrong;
    if (returned_ < threads_) {
        wrong = explain(failure_);
        abandon();
    } else if (!shared_.intact()) {
        wrong = "wrote beyond its " + std::to_string(launch.shared) + " bytes of dynamic shared memory";
    } else if (const char *left = dialect.end ? dialect.end() : nullptr) {
        wrong = left;
    }
    if (!wrong.empty())
        report.add("kernel " + std::string(launch.kernel->name) + ", block " + text(index) + ": " + wrong);
}

// prepare makes all threads of a block ready to begin.
void Block::prepare(const Launch &launch, Dim index, bool late_copies) {
    launch_ = &launch;
    Dim size = launch.block;
    recruit(size_t{size.x} * size.y * size.z);
    around_ = {index, launch.grid, size, shared_.prepare(launch.shared), late_copies, launch.constants, launch.shared};
    barrier_.arrived = 0;
    for (Crowd &crowd : counts_)
        crowd.clear();
    for (Crowd &crowd : groups_)
        crowd.clear();
    paused_.clear();
    barrier_.order.renew();
    begin_.renew();
    if (dialect.begin)
        dialect.begin();
    returned_ = first_ = waiting_ = 0;
    lazy_ = threads_ > GROUP ? random_.pick(uint32_t(threads_ / GROUP + 1)) : 0;
    warps_.resize((threads_ + WARP - 1) / WARP);
    for (Warp &warp : warps_)
        warp.clear();
    // Under the race check a thread is another fiber in each block, so that races between
    // blocks are seen for threads of the same index too.
    if (TSAN)
        rotation_++;
    Dim at = {0, 0, 0};
    for (size_t i = 0; i < threads_; i++) {
        Task &task = tasks_[i];
        task.index = at;
        task.lane = i % WARP;
        task.warp = &warps_[i / WARP];
        task.around = &around_;
        task.block = this;
        task.fiber = fibers_[(i + rotation_) % threads_].get();
        task.fiber->give(&task);
        task.copies.clear();
        task.warp->lanes |= 1u << task.lane;
        ready(task);
        if (++at.x == size.x) {
            at.x = 0;
            if (++at.y == size.y) {
                at.y = 0;
                at.z++;
            }
        }
    }
}

// recruit finds stacks and records for that many threads. The skews are odd multiples of a
// cache line, so neighbours' stacks use different sets of the cache.
void Block::recruit(size_t threads) {
    while (fibers_.size() < threads)
        fibers_.push_back(std::make_unique<Fiber>(&Block::life, fibers_.size() * 320 % 4096));
    if (tasks_.size() < threads)
        tasks_.resize(threads);
    ready_.resize(threads);
    threads_ = threads;
}

// life is one round of a fiber. The block may be on another OS thread in the next round,
// which begins after finish.
void Block::life(void *argument) {
    Task &task = *static_cast<Task *>(argument);
    Block &block = *task.block;
    block.begin_.acquire(0);
    block.launch_->kernel->call(block.launch_->params);
    block.end_.release(0);
    block.finish(task);
}

// finish hands over to the next task, the last one to the host. It returns in the fiber's
// next round.
void Block::finish(Task &task) {
    task.state = Task::RETURNED;
    if (++returned_ == threads_)
        task.fiber->switch_to(host_);
    else if (Task *to = next())
        go(*task.fiber, *to);
    else
        fail(task, {});
}

// The last thread to come makes all ready, itself too: who goes on first is left to chance.
// All must come, also those that have returned, although newer hardware forgives them: a
// kernel that counts on that is more likely wrong than clever.
void Block::barrier(Task &task, bool orders, Site site) {
    if (barrier_.arrived == 0)
        barrier_.site = site;
    else if (barrier_.site != site)
        fault(task, "comes to a barrier while others wait at the barrier at ", &barrier_.site, site);
    unsigned turn = barrier_.turn;
    if (orders)
        barrier_.order.release(turn);
    if (++barrier_.arrived < threads_) {
        wait(task, Task::AT_BARRIER, site);
    } else {
        barrier_.arrived = 0;
        barrier_.turn++;
        for (size_t i = 0; i < threads_; i++)
            ready(tasks_[i]);
        go(*task.fiber, *next());
    }
    if (orders)
        barrier_.order.acquire(turn);
}

void Block::meet(Task &task, unsigned mask, void *brought, Collective work, bool orders, Site site) {
    Warp &warp = *task.warp;
    mask &= warp.lanes;
    if (!(mask >> task.lane & 1))
        fault(task, "is not in the mask of its own warp operation", nullptr, site);
    Meeting &here = warp.meeting(mask);
    if (here.arrived == 0)
        here.site = site;
    else if (here.site != site)
        fault(task, "comes to a warp operation while lanes of its mask wait at ", &here.site, site);
    here.brought[task.lane] = brought;
    here.arrived |= 1u << task.lane;
    unsigned turn = here.turn;
    if (orders)
        here.order.release(turn);
    if (here.arrived != mask) {
        wait(task, Task::IN_WARP, site);
    } else {
        if (work)
            work(here.brought, mask);
        here.arrived = 0;
        here.turn++;
        Task *first = &task - task.lane;
        for (unsigned lanes = mask; lanes; lanes &= lanes - 1)
            ready(first[__builtin_ctz(lanes)]);
        go(*task.fiber, *next());
    }
    if (orders)
        here.order.acquire(turn);
}

void Block::count(Task &task, unsigned id, unsigned threads, bool waits, Site site) {
    if (id >= NAMED)
        fault(task, "names a barrier that does not exist", nullptr, site);
    Crowd &here = counts_[id];
    const unsigned turn = here.turn;
    here.order.release(turn);
    join(task, here, threads, waits, nullptr, site);
    if (waits)
        here.order.acquire(turn);
}

void Block::gather(Task &task, unsigned group, unsigned threads, unsigned number, void *brought, Work work, Site site) {
    Crowd &here = groups_[group];
    if (here.arrived == 0)
        here.site = site, here.work = work;
    else if (here.site != site || here.work != work)
        fault(task, "comes to an operation of its group while others wait at ", &here.site, site);
    here.brought[number] = brought;
    join(task, here, threads, true, work, site);
}

// join is one thread's arrival. The last one makes those that wait ready.
void Block::join(Task &task, Crowd &here, unsigned threads, bool waits, Work work, Site site) {
    if (here.arrived > 0 && here.threads != threads)
        fault(task, "comes to a place where others wait for another number of threads", nullptr, site);
    here.threads = threads;
    if (++here.arrived < threads) {
        if (waits) {
            {
                Unseen unseen;
                here.waiting.push_back(&task);
            }
            wait(task, Task::IN_CROWD, site);
        }
        return;
    }
    if (work)
        work(here.brought.data(), threads);
    here.arrived = 0;
    here.turn++;
    for (Task *waiting : here.waiting)
        ready(*waiting);
    here.waiting.clear();
    if (waits) {
        ready(task);
        go(*task.fiber, *next());
    }
}

void Block::pause(Task &task, Site site) {
    {
        Unseen unseen;
        paused_.push_back(&task);
    }
    wait(task, Task::PAUSED, site);
}

void Block::wake() {
    for (Task *task : paused_)
        ready(*task);
    paused_.clear();
}

void Block::yield(Task &task) {
    ready(task);
    go(*task.fiber, *next());
}

// meeting is the one of a mask, nearly always the first. Nothing is allocated here: the
// race check would see memory of the core pass between threads that nothing orders.
Meeting &Warp::meeting(unsigned mask) {
    Meeting *idle = nullptr;
    for (unsigned i = 0; i < used; i++) {
        if (meetings[i].mask == mask)
            return meetings[i];
        if (meetings[i].arrived == 0)
            idle = &meetings[i];
    }
    if (used < WARP)
        idle = &meetings[used++];
    idle->mask = mask;
    return *idle;
}

void Warp::clear() {
    for (unsigned i = 0; i < used; i++) {
        meetings[i].arrived = 0;
        meetings[i].order.renew();
    }
    lanes = used = 0;
}

void Block::fault(Task &task, const char *what, const Site *other, Site site) {
    fail(task, {&task, what, other, site});
}

// fail leaves all threads where they are; the host tells the story.
void Block::fail(Task &task, const Failure &failure) {
    failure_ = failure;
    task.fiber->switch_to(host_);
    __builtin_unreachable(); // abandon resets the fiber
}

// abandon forgets the work of threads that will not return.
void Block::abandon() {
    for (size_t i = 0; i < threads_; i++)
        fibers_[i]->reset();
}

std::string Block::explain(const Failure &failure) const {
    if (!failure.task)
        return stuck();
    return "thread " + text(failure.task->index) + " " + failure.what + (failure.other ? text(*failure.other) : "") +
           ", at " + text(failure.site);
}

// stuck says where all threads are when none can go on.
std::string Block::stuck() const {
    std::map<std::string, size_t> places;
    for (size_t i = 0; i < threads_; i++) {
        const Task &task = tasks_[i];
        if (task.state == Task::AT_BARRIER)
            places["wait at the barrier at " + text(task.site)]++;
        else if (task.state == Task::IN_WARP)
            places["wait for lanes of their warp at " + text(task.site)]++;
        else if (task.state == Task::IN_CROWD)
            places["wait for others at " + text(task.site)]++;
        else if (task.state == Task::PAUSED)
            places["wait for a word of shared memory at " + text(task.site)]++;
        else
            places["have returned"]++;
    }
    std::string what = "no thread can go on: ";
    const char *separator = "";
    for (const auto &[place, count] : places) {
        what += separator + std::to_string(count) + " " + place;
        separator = ", ";
    }
    return what;
}

} // namespace simt
