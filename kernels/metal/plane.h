// Where rows lie in a plane of the cache, [blocks, heads, block_size, dim].
#pragma once

#include "kernel.h"

namespace fkv {

// Place is a slot of the cache, or a position of a sequence, by its block and the
// offset within.
struct Place {
    uint64_t block;
    uint32_t offset;
};

// place_of divides 32 bits where the slot fits, which is almost always: GPUs divide
// in software, and 64 bits take several times as long.
inline Place place_of(int64_t slot, uint32_t block_size) {
    const uint64_t all = static_cast<uint64_t>(slot);
    const uint32_t low = static_cast<uint32_t>(all);
    if (all == low) {
        const uint32_t block = low / block_size;
        return Place{block, low - block * block_size};
    }
    const uint64_t block = all / block_size;
    return Place{block, static_cast<uint32_t>(all - block * block_size)};
}

// row_at is the rows of a plane before the one of a head at a place. Times the size
// of a row, it is where the row lies.
inline int64_t row_at(Place place, uint32_t heads, uint32_t head, uint32_t block_size) {
    return static_cast<int64_t>((place.block * heads + head) * block_size + place.offset);
}

// in_cache tells whether a slot that was read from device memory is one of the
// cache's. -1, which marks what is to be skipped, is none.
inline bool in_cache(int64_t slot, int64_t slots) { return slot >= 0 && slot < slots; }

} // namespace fkv
