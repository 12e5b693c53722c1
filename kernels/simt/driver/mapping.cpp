#include "mapping.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <mutex>
#include <new>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, size) ((void)(address), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(address, size) ((void)(address), (void)(size))
#endif

namespace standin {
namespace {

constexpr unsigned char PATTERN = 0xff;

size_t round_up(size_t n, size_t to) { return (n + to - 1) / to * to; }

struct Range {
    void *base;
    size_t size;
};

// Graveyard keeps the addresses of the last mappings that were destroyed.
class Graveyard {
    std::mutex mutex;
    std::deque<Range> ranges;

public:
    void bury(Range range) {
        std::lock_guard<std::mutex> lock(mutex);
        ranges.push_back(range);
        if (ranges.size() > 512) {
            munmap(ranges.front().base, ranges.front().size);
            ranges.pop_front();
        }
    }

    bool holds(uintptr_t address) {
        std::lock_guard<std::mutex> lock(mutex);
        return std::any_of(ranges.begin(), ranges.end(), [=](const Range &range) {
            return address - reinterpret_cast<uintptr_t>(range.base) < range.size;
        });
    }
};

Graveyard &graveyard() {
    static Graveyard *g = new Graveyard; // never destroyed: mappings may outlive main
    return *g;
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
    ASAN_POISON_MEMORY_REGION(pages, size_t(first - pages));
    ASAN_POISON_MEMORY_REGION(first + size, size_t(pages + accessible - first - size));
}

Mapping::~Mapping() {
    unsigned char *pages = base + GUARD;
    ASAN_UNPOISON_MEMORY_REGION(pages, accessible);
    madvise(pages, accessible, MADV_DONTNEED);
    mprotect(pages, accessible, PROT_NONE);
    graveyard().bury({base, accessible + 2 * GUARD});
}

bool Mapping::intact() const {
    unsigned char *pages = base + GUARD;
    unsigned char *end = pages + accessible;
    ASAN_UNPOISON_MEMORY_REGION(pages, accessible);
    bool good = all(pages, first) && all(first + bytes, end);
    ASAN_POISON_MEMORY_REGION(pages, size_t(first - pages));
    ASAN_POISON_MEMORY_REGION(first + bytes, size_t(end - first - bytes));
    return good;
}

bool Mapping::freed(uintptr_t address) { return graveyard().holds(address); }

} // namespace standin
