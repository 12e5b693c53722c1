#include "crew.h"

#include <algorithm>
#include <system_error>
#include <thread>

namespace simt {

void Crew::share(unsigned helpers, const std::function<void()> &work) {
    if (helpers == 0) {
        work();
        return;
    }
    Job job{&work, helpers};
    {
        std::lock_guard<std::mutex> lock(mutex_);
        while (hired_ < helpers) {
            try {
                std::thread([this] { help(); }).detach();
            } catch (const std::system_error &) {
                break; // fewer will do
            }
            hired_++;
        }
        jobs_.push_back(&job);
    }
    offered_.notify_all();
    work();
    std::unique_lock<std::mutex> lock(mutex_);
    jobs_.remove(&job); // nobody else may begin; who began must end
    left_.wait(lock, [&] { return job.busy == 0; });
}

// help is what a thread of the crew does, for ever.
void Crew::help() {
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
        offered_.wait(lock, [&] { return !jobs_.empty(); });
        Job &job = *jobs_.front();
        job.busy++;
        if (--job.wanted == 0)
            jobs_.pop_front();
        lock.unlock();
        (*job.work)();
        lock.lock();
        if (--job.busy == 0)
            left_.notify_all();
    }
}

} // namespace simt
