// A quantized plane in memory: its codes and the scales beside them.
#pragma once

#include "quant.h"

namespace fkv {

// Quantized stands for the element type of a plane whose storage type is a function constant or an argument.
struct Quantized;

// load_words loads COUNT words, at most 16 bytes at a time, to as many of which from is aligned.
template <uint COUNT> inline void load_words(thread uint4 *to, const device uint *from) {
    if (COUNT == 1) {
        *to = uint4(*from, 0, 0, 0);
    } else if (COUNT == 2) {
        *to = uint4(*reinterpret_cast<const device uint2 *>(from), 0, 0);
    } else {
#pragma unroll
        for (uint i = 0; i < COUNT / 4; i++) to[i] = reinterpret_cast<const device uint4 *>(from)[i];
    }
}

// Chunk is N elements of a row as they lie in memory, one, two or four octets, which have a word of scales in
// common unless scales are by channel.
constant constexpr uint MOST_CHUNK = 4 * OCTET;
#define FKV_IN_COMMON(name, word)                                                                                    \
    static_assert((word >> FKV_SHARE) >= 2, "four octets share a word, in which each has its group's part");
FKV_EACH_STORAGE(FKV_IN_COMMON)
#undef FKV_IN_COMMON

template <uint N> struct Chunk {
    enum : uint { OCTETS = N / OCTET, WORDS = N / 4, VECTORS = (N + 15) / 16 };

    uint4 codes[VECTORS]; // as they were loaded, for compilers divide what is taken apart at once; those of 4
                          // bits fill the first half
    uint scale;           // that word, of FKV_BY_CHANNEL 0
    int64_t line;         // of the row, see Codes; -1: there is no row, and elements are 0

    static Chunk none() {
        Chunk c;
#pragma unroll
        for (uint i = 0; i < uint(VECTORS); i++) c.codes[i] = uint4(0);
        c.scale = 0, c.line = -1;
        return c;
    }

    // keep makes it none where there is no row, without a branch.
    void keep(bool there) {
#pragma unroll
        for (uint i = 0; i < uint(VECTORS); i++) codes[i] = there ? codes[i] : uint4(0);
        scale = there ? scale : 0;
        line = there ? line : -1;
    }

    // word is number i, which is known beforehand: registers have no address.
    uint word(uint i) const {
        const uint4 four = codes[i / 4];
        return i % 4 == 0 ? four.x : i % 4 == 1 ? four.y : i % 4 == 2 ? four.z : four.w;
    }

    // turn makes octet (i + by) % OCTETS octet i; bytes says that codes have 8 bits.
    void turn(uint by, bool bytes) {
#pragma unroll
        for (uint apart = 1; apart < uint(OCTETS); apart *= 2) {
            const Chunk old = *this;
            const bool moved = by & apart;
#pragma unroll
            for (uint i = 0; i < uint(VECTORS); i++) {
                const uint w = 4 * i;
                const uint4 next = uint4(old.after(w, apart, bytes), old.after(w + 1, apart, bytes),
                                         old.after(w + 2, apart, bytes), old.after(w + 3, apart, bytes));
                codes[i] = moved ? next : old.codes[i];
            }
        }
    }

  private:
    // after is the word some octets after word i, around the chunk's end.
    uint after(uint i, uint apart, bool bytes) const {
        if (bytes) return word((i + 2 * apart) % uint(WORDS));
        return i < uint(OCTETS) ? word((i + apart) % uint(OCTETS)) : 0;
    }
};

// Codes is a quantized plane of rows [DIM], as one head sees it. A word is 4 bytes, of codes
// and of scales; Word is uint or const uint.
template <class Word> struct Codes {
    Coding coding;
    uint octets; // of a row
    device Word *words, *scales;
    float factor; // the head's, for minifactors

    Codes(device Word *plane, device Word *plane_scales, uint storage, uint dim, uint head, uint heads)
        : coding(storage, dim), octets(dim / OCTET), words(plane),
          scales(plane_scales + (coding.by_head() ? head : coding.before(heads))),
          factor(coding.minifactors() ? as_type<float>(plane_scales[head]) : 1) {}

    // step is the f32 that a byte of a word stands for, if it is one of quarters.
    uint step(uint byte) const { return coding.minifactors() ? step_of(byte, factor) : power(byte); }

    // octet is where the codes of an octet are, scale where its scale is. Octets of FKV_BY_CHANNEL
    // have more than one; for them it is one that is there.
    device Word *octet(int64_t row, uint i) const { return words + (row * octets + i) * (coding.bits / 4); }
    device Word *scale(int64_t row, uint i) const { return scales + row * coding.scales + (i >> coding.shift); }

    // channels is where the scales of an octet of FKV_BY_CHANNEL are. line counts the heads of
    // the plane's blocks.
    device Word *channels(int64_t line, uint i) const { return scales + (line * octets + i) * OCTET; }

    // fetch loads chunk i of a row, in one access of up to 16 bytes for every 32 elements of 4 bits or 16 of 8:
    // N divides a row, so chunks are aligned to their own size as planes are to 16 bytes. line is the row's.
    template <uint N> Chunk<N> fetch(int64_t row, int64_t line, uint i) const {
        Chunk<N> held = Chunk<N>::none();
        const uint first = i * (N / OCTET);
        const device uint *from = octet(row, first);
        if (coding.bits == 8) {
            load_words<N / 4>(held.codes, from);
        } else {
            load_words<N / 8>(held.codes, from);
        }
        if (!coding.by_channel()) held.scale = *scale(row, first);
        held.line = line;
        return held;
    }

    // decode makes the values of octet o of a chunk, which is octet i of its row.
    template <uint N> void decode(thread float *x, const thread Chunk<N> &held, uint o, uint i) const {
        uint4 low = uint4(coding.quarters() ? step(held.scale >> coding.place(i) & 0xffu) : held.scale), high = low;
        if (coding.by_channel()) {
            low = high = uint4(0);
            if (held.line >= 0) {
                const device uint *w = channels(held.line, i); // aligned to 4 bytes, as buffers of scales are
                low = uint4(w[0], w[1], w[2], w[3]), high = uint4(w[4], w[5], w[6], w[7]);
            }
        }
        const bool bytes = coding.bits == 8;
        const uint first = held.word(bytes ? 2 * o : o), rest = bytes ? held.word(2 * o + 1) : first >> 16;
        const float4 a = Scale(coding, low).values(numbers(coding.storage, first));
        const float4 b = Scale(coding, high).values(numbers(coding.storage, rest));
        x[0] = a.x, x[1] = a.y, x[2] = a.z, x[3] = a.w;
        x[4] = b.x, x[5] = b.y, x[6] = b.z, x[7] = b.w;
    }
};

} // namespace fkv
