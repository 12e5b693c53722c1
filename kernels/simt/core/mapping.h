// Memory that a stand-in hands out: host pages between guards, so that a stray access
// faults where hardware may read a neighbour.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace simt {

// Mapping is size bytes that begin as 0xff (NaN in every floating format) and end less
// than 256 bytes before a guard. Once destroyed, its addresses stay out of use for a while,
// so that late accesses fault, too.
class Mapping {
public:
    // Throws std::bad_alloc when the host has no memory left.
    explicit Mapping(size_t size);
    ~Mapping();
    Mapping(const Mapping &) = delete;
    Mapping &operator=(const Mapping &) = delete;

    unsigned char *data() const { return first; }
    size_t size() const { return bytes; }

    // intact is false when something has written to the bytes around the memory that
    // no guard covers.
    bool intact() const;

    // describe says where an address lies that no mapping holds.
    static std::string describe(uintptr_t address);

    static constexpr size_t ALIGNMENT = 256; // of data, as drivers promise it

    // Far enough that an index that is wrong by a block or a row does not jump over it.
    static constexpr size_t GUARD = size_t(64) << 20;

private:
    size_t bytes, accessible; // accessible: the whole pages that hold the memory
    unsigned char *base, *first;
};

} // namespace simt
