// Which operations come before a moment, so that work without the order it needs is found
// for certain and not only when the random schedule happens to show it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace standin {

// Clock holds for each stream the number of its last operation that comes before. It is
// copied with every operation: entries lie side by side, and streams that are gone are to
// be dropped, or a process that opens many gets slower with each.
class Clock {
    using Entry = std::pair<uint64_t, uint64_t>; // stream and number
    std::vector<Entry> last;                     // by stream

    static bool before(const Entry &entry, uint64_t stream) { return entry.first < stream; }

public:
    void add(uint64_t stream, uint64_t number) {
        auto at = std::lower_bound(last.begin(), last.end(), stream, before);
        if (at == last.end() || at->first != stream)
            last.insert(at, {stream, number});
        else
            at->second = std::max(at->second, number);
    }

    void join(const Clock &other) {
        for (auto [stream, number] : other.last)
            add(stream, number);
    }

    // covers: everything before other is before this.
    bool covers(const Clock &other) const {
        return std::all_of(other.last.begin(), other.last.end(), [&](const Entry &entry) {
            auto own = std::lower_bound(last.begin(), last.end(), entry.first, before);
            return own != last.end() && own->first == entry.first && own->second >= entry.second;
        });
    }

    size_t size() const { return last.size(); }

    // forget drops the streams that are gone.
    template <class F> void forget(F gone) {
        last.erase(std::remove_if(last.begin(), last.end(), [&](const Entry &entry) { return gone(entry.first); }), last.end());
    }
};

} // namespace standin
