#include "shared.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <sys/mman.h>

namespace simt {

namespace {

constexpr size_t PAGE = 4096;
constexpr unsigned char POISON = 0xff; // NaN in every floating type
constexpr unsigned char SLACK = 0xa5;

size_t round_up(size_t n, size_t to) { return (n + to - 1) / to * to; }

} // namespace

SharedMemory::~SharedMemory() { release(); }

void SharedMemory::release() {
    if (!map_)
        return;
    allow(map_ + PAGE, room_);
    munmap(map_, room_ + 2 * PAGE);
    map_ = nullptr;
    room_ = 0;
}

// The memory is laid against the guard behind it, so far as its alignment lets it.
unsigned char *SharedMemory::prepare(size_t size) {
    size_t whole = round_up(size, ALIGN);
    // The race check would take a block's use of the memory for a race with the block before,
    // so it gets other memory each time.
    if (whole > room_ || !map_ || TSAN) {
        release();
        size_t room = round_up(std::max(whole, size_t{1}), PAGE);
        void *p = mmap(nullptr, room + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (p == MAP_FAILED)
            throw std::bad_alloc();
        map_ = static_cast<unsigned char *>(p);
        room_ = room;
        if (mprotect(map_ + PAGE, room, PROT_READ | PROT_WRITE) != 0) {
            release();
            throw std::bad_alloc();
        }
    }
    size_ = size;
    slack_ = whole - size;
    begin_ = map_ + PAGE + room_ - whole;
    allow(map_ + PAGE, room_);
    memset(begin_, POISON, size);
    memset(begin_ + size, SLACK, slack_);
    forbid(map_ + PAGE, begin_ - (map_ + PAGE));
    forbid(begin_ + size, slack_);
    return begin_;
}

bool SharedMemory::intact() const {
    if (ASAN)
        return true; // said so at once
    return std::all_of(begin_ + size_, begin_ + size_ + slack_, [](unsigned char c) { return c == SLACK; });
}

} // namespace simt
