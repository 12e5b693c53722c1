// A quantized plane in memory: its codes and the scales beside them.
#pragma once

#include "quant.h"

namespace fkv {

// Quantized stands for the element type of a plane whose storage type is a function constant or an argument.
struct Quantized;

// load_words loads COUNT words, at most 16 bytes at a time, to as many of which from is aligned.
template <uint COUNT> inline void load_words(thread uint *to, const device uint *from) {
    if (COUNT == 1) {
        to[0] = *from;
    } else if (COUNT == 2) {
        const uint2 two = *reinterpret_cast<const device uint2 *>(from);
        to[0] = two.x, to[1] = two.y;
    } else {
#pragma unroll
        for (uint i = 0; i < COUNT; i += 4) {
            const uint4 four = reinterpret_cast<const device uint4 *>(from)[i / 4];
            to[i] = four.x, to[i + 1] = four.y, to[i + 2] = four.z, to[i + 3] = four.w;
        }
    }
}

// Chunk is N elements of a row as they lie in memory, one, two or four octets, which have a scale in common
// unless scales are by channel.
constant constexpr uint MOST_CHUNK = 4 * OCTET;
#define FKV_IN_COMMON(name, word)                                                                                    \
    static_assert((word >> FKV_SHARE) >= (word & FKV_EXPONENTS ? 4 : 2), "four octets share a word, and an exponent of it");
FKV_EACH_STORAGE(FKV_IN_COMMON)
#undef FKV_IN_COMMON

template <uint N> struct Chunk {
    enum : uint { OCTETS = N / OCTET };

    uint codes[N / 4]; // those of 4 bits fill the first half
    uint scale;        // the word, of FKV_BY_CHANNEL 0
    int64_t line;      // of the row, see Codes; -1: there is no row, and elements are 0

    static Chunk none() {
        Chunk c;
#pragma unroll
        for (uint i = 0; i < N / 4; i++) c.codes[i] = 0;
        c.scale = 0, c.line = -1;
        return c;
    }

    // keep makes it none where there is no row, without a branch.
    void keep(bool there) {
#pragma unroll
        for (uint i = 0; i < N / 4; i++) codes[i] = there ? codes[i] : 0;
        scale = there ? scale : 0;
        line = there ? line : -1;
    }

    // turn makes octet (i + by) % OCTETS octet i, with no index that is not known beforehand: registers have
    // no address.
    void turn(uint by, bool bytes) {
#pragma unroll
        for (uint apart = 1; apart < uint(OCTETS); apart *= 2) {
            const Chunk old = *this;
            const bool moved = by & apart;
#pragma unroll
            for (uint i = 0; i < N / 4; i++) {
                const uint wide = (i + 2 * apart) % (N / 4), narrow = i < uint(OCTETS) ? (i + apart) % uint(OCTETS) : i;
                codes[i] = moved ? (bytes ? old.codes[wide] : old.codes[narrow]) : old.codes[i];
            }
        }
    }
};

// Codes is a quantized plane of rows [DIM], as one head sees it. A word is 4 bytes, of codes
// and of scales; Word is uint or const uint.
template <class Word> struct Codes {
    Coding coding;
    uint octets; // of a row
    device Word *words, *scales;

    Codes(device Word *plane, device Word *plane_scales, uint storage, uint dim, uint head)
        : coding(storage, dim), octets(dim / OCTET), words(plane),
          scales(plane_scales + (coding.by_head() ? head : 0)) {}

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
        uint4 low = uint4(coding.exponents() ? power(held.scale >> coding.place(i) & 0xffu) : held.scale), high = low;
        if (coding.by_channel()) {
            low = high = uint4(0);
            if (held.line >= 0) {
                const device uint *w = channels(held.line, i); // aligned to 4 bytes, as buffers of scales are
                low = uint4(w[0], w[1], w[2], w[3]), high = uint4(w[4], w[5], w[6], w[7]);
            }
        }
        const bool bytes = coding.bits == 8;
        const uint first = bytes ? held.codes[2 * o] : held.codes[o], rest = bytes ? held.codes[2 * o + 1] : first >> 16;
        const float4 a = Scale(coding, low).values(numbers(coding.storage, first));
        const float4 b = Scale(coding, high).values(numbers(coding.storage, rest));
        x[0] = a.x, x[1] = a.y, x[2] = a.z, x[3] = a.w;
        x[4] = b.x, x[5] = b.y, x[6] = b.z, x[7] = b.w;
    }
};

} // namespace fkv
