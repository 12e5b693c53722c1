// Which operations come before a moment, so that work without the order it needs is found
// for certain and not only when the random schedule happens to show it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>

namespace standin {

// Clock holds for each stream the number of its last operation that comes before.
class Clock {
    std::map<uint64_t, uint64_t> last;

public:
    void add(uint64_t stream, uint64_t number) {
        uint64_t &n = last[stream];
        n = std::max(n, number);
    }

    void join(const Clock &other) {
        for (auto [stream, number] : other.last)
            add(stream, number);
    }

    // covers: everything before other is before this.
    bool covers(const Clock &other) const {
        return std::all_of(other.last.begin(), other.last.end(), [&](const auto &entry) {
            auto own = last.find(entry.first);
            return own != last.end() && own->second >= entry.second;
        });
    }

    // forget drops a stream that is gone and whose work the host has seen end.
    void forget(uint64_t stream) { last.erase(stream); }
};

} // namespace standin
