// What went wrong in a launch.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdio>
#include <mutex>
#include <string>

namespace simt {

// Report keeps the first thing that went wrong. It is safe for concurrent use.
class Report {
public:
    bool failed() const { return failed_.load(std::memory_order_acquire); }

    void add(const std::string &text) {
        std::lock_guard<std::mutex> lock(mutex_);
        if (failed())
            return;
        text_ = text;
        failed_.store(true, std::memory_order_release);
    }

    // copy cuts the text to size bytes, its end included.
    void copy(char *to, size_t size) const {
        if (to && size)
            snprintf(to, size, "%s", text_.c_str());
    }

private:
    std::mutex mutex_;
    std::atomic<bool> failed_{false};
    std::string text_;
};

} // namespace simt
