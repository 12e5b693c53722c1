// The asynchronous copies of one thread.
#pragma once

#include <vector>

#include "sanitizers.h"
#include "thread.h"

namespace simt {

// Copies is a queue of copies in groups, of which the last is open.
class Copies {
public:
    void begin(Copy copy) {
        Unseen unseen;
        queue_.push_back({copy, closed_});
    }

    void close() { closed_++; }

    // take hands out the oldest copy, unless it is of the last pending closed groups or of
    // the open one.
    bool take(unsigned pending, Copy &copy) {
        if (first_ == queue_.size() || queue_[first_].group + pending >= closed_)
            return false;
        copy = queue_[first_++].copy;
        if (2 * first_ >= queue_.size()) {
            Unseen unseen;
            queue_.erase(queue_.begin(), queue_.begin() + first_);
            first_ = 0;
        }
        return true;
    }

    // clear drops what nobody waited for.
    void clear() {
        queue_.clear();
        first_ = closed_ = 0;
    }

private:
    struct Entry {
        Copy copy;
        uint64_t group;
    };
    std::vector<Entry> queue_; // from first_ on
    size_t first_ = 0;
    uint64_t closed_ = 0;
};

} // namespace simt
