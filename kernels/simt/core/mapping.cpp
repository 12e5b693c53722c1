#include "mapping.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <deque>
#include <mutex>
#include <new>
#include <set>

#include "sanitizers.h"

namespace simt {
namespace {

constexpr unsigned char PATTERN = 0xff;

size_t round_up(size_t n, size_t to) { return (n + to - 1) / to * to; }

struct Range {
    void *base;
    size_t size;
};

// Land is what mappings there are, and the addresses of the last that were destroyed.
class Land {
    std::mutex mutex;
    std::set<const Mapping *> mappings;
    std::deque<Range> graves;

public:
    void settle(const Mapping *mapping) {
        std::lock_guard<std::mutex> lock(mutex);
        mappings.insert(mapping);
    }

    void bury(const Mapping *mapping, Range range) {
        std::lock_guard<std::mutex> lock(mutex);
        mappings.erase(mapping);
        graves.push_back(range);
        if (graves.size() > 512) {
            munmap(graves.front().base, graves.front().size);
            graves.pop_front();
        }
    }

    std::string describe(uintptr_t address) {
        std::lock_guard<std::mutex> lock(mutex);
        for (const Range &range : graves)
            if (address - reinterpret_cast<uintptr_t>(range.base) < range.size)
                return "in memory that was freed";
        const Mapping *nearest = nullptr;
        size_t distance = Mapping::GUARD;
        bool before = false;
        for (const Mapping *mapping : mappings) {
            auto begin = reinterpret_cast<uintptr_t>(mapping->data()), end = begin + mapping->size();
            size_t far = address < begin ? begin - address : address - end;
            if (far > distance)
                continue;
            nearest = mapping;
            distance = far;
            before = address < begin;
        }
        if (nearest == nullptr)
            return "far from all memory of the device";
        return std::to_string(distance) + " bytes " + (before ? "before the " : "behind the ") +
               std::to_string(nearest->size()) + " bytes of an allocation";
    }
};

Land &land() {
    static Land *l = new Land; // never destroyed: mappings may outlive main
    return *l;
}

bool all(const unsigned char *from, const unsigned char *to) {
    for (; from != to; from++)
        if (*from != PATTERN)
            return false;
    return true;
}

} // namespace

Mapping::Mapping(size_t size) : bytes(size) {
    if (size > SIZE_MAX / 4)
        throw std::bad_alloc();
    accessible = round_up(size, size_t(sysconf(_SC_PAGESIZE)));
    void *range = mmap(nullptr, accessible + 2 * GUARD, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (range == MAP_FAILED)
        throw std::bad_alloc();
    base = static_cast<unsigned char *>(range);
    unsigned char *pages = base + GUARD;
    if (mprotect(pages, accessible, PROT_READ | PROT_WRITE) != 0) {
        munmap(range, accessible + 2 * GUARD);
        throw std::bad_alloc();
    }
    first = pages + accessible - round_up(size, ALIGNMENT);
    memset(pages, PATTERN, accessible);
    forbid(pages, size_t(first - pages));
    forbid(first + size, size_t(pages + accessible - first - size));
    land().settle(this);
}

Mapping::~Mapping() {
    unsigned char *pages = base + GUARD;
    allow(pages, accessible);
    madvise(pages, accessible, MADV_DONTNEED);
    mprotect(pages, accessible, PROT_NONE);
    land().bury(this, {base, accessible + 2 * GUARD});
}

bool Mapping::intact() const {
    unsigned char *pages = base + GUARD;
    unsigned char *end = pages + accessible;
    allow(pages, accessible);
    bool good = all(pages, first) && all(first + bytes, end);
    forbid(pages, size_t(first - pages));
    forbid(first + bytes, size_t(end - first - bytes));
    return good;
}

std::string Mapping::describe(uintptr_t address) { return land().describe(address); }

} // namespace simt
