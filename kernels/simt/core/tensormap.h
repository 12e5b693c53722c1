// What a tensor map is to the stand-in: its driver writes it, copies of boxes read it.
#pragma once

#include <cstdint>

namespace simt {

// TensorMap is rows of 16-bit elements, in boxes of 64 elements of 16 rows.
struct alignas(64) TensorMap {
    const unsigned char *base;
    uint64_t columns, rows, pitch; // from row to row, in bytes
    uint64_t magic, rest[11];

    static constexpr uint64_t MAGIC = 0x70616d2d746d6973;
};

static_assert(sizeof(TensorMap) == 128, "as CUtensorMap");

} // namespace simt
