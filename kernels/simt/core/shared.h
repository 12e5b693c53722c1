// A block's dynamic shared memory.
#pragma once

#include <cstddef>

#include "sanitizers.h"

namespace simt {

// SharedMemory ends, but for the alignment of its begin, where an inaccessible page begins,
// and another lies before it: what runs over either end crashes, what ends in the few bytes
// between is found afterwards. Under AddressSanitizer every byte counts.
class SharedMemory {
public:
    static constexpr size_t ALIGN = 128;

    SharedMemory() = default;
    ~SharedMemory();
    SharedMemory(const SharedMemory &) = delete;
    SharedMemory &operator=(const SharedMemory &) = delete;

    // prepare gives size bytes of NaN patterns, valid until the next prepare. Throws
    // std::bad_alloc when there is no memory.
    unsigned char *prepare(size_t size);

    // intact says whether nothing was written behind the end.
    bool intact() const;

private:
    void release();

    unsigned char *map_ = nullptr; // guard, room bytes, guard
    size_t room_ = 0;
    unsigned char *begin_ = nullptr;
    size_t size_ = 0, slack_ = 0;
};

} // namespace simt
