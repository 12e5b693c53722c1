// The OS threads that help to run launches.
#pragma once

#include <condition_variable>
#include <functional>
#include <list>
#include <mutex>

namespace simt {

// Crew is a growing set of threads that live as long as the program. It is safe for
// concurrent use.
class Crew {
public:
    // share calls work on this thread and, as soon as they come, on up to helpers others, and
    // returns when all calls have. work must be such that one call alone does everything.
    void share(unsigned helpers, const std::function<void()> &work);

private:
    struct Job {
        const std::function<void()> *work;
        unsigned wanted, busy = 0;
    };

    void help();

    std::mutex mutex_;
    std::condition_variable offered_, left_;
    std::list<Job *> jobs_; // that want helpers
    unsigned hired_ = 0;
};

} // namespace simt
