// A quantized plane in memory: its codes and the scales beside them.
#pragma once

#include "quant.h"

namespace fkv {

// Quantized stands for the element type of a plane whose storage type is an argument.
struct Quantized;

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

    // fetch loads what decode needs of an octet: its codes, and its scale or, for scales by
    // channel, 1 + line, of the row. It has no branch, so that the loads of several octets are on
    // their way together: 4-bit codes are loaded twice. Zeros decode to zeros.
    uint4 fetch(int64_t row, int64_t line, uint i) const {
        const device uint *codes = octet(row, i);
        const uint second = codes[coding.bits / 4 - 1], one = *scale(row, i);
        return uint4(*codes, second, coding.by_channel() ? as_type<uint2>(line + 1) : uint2(one, 0));
    }

    // decode makes the values of an octet of what was fetched.
    void decode(thread float *x, uint4 held, uint i) const {
        uint4 low = uint4(coding.exponents() ? power(held.z >> coding.place(i) & 0xffu) : held.z), high = low;
        if (coding.by_channel()) {
            const int64_t line = as_type<int64_t>(held.zw) - 1;
            low = high = uint4(0);
            if (line >= 0) {
                const device uint *w = channels(line, i);
                low = uint4(w[0], w[1], w[2], w[3]), high = uint4(w[4], w[5], w[6], w[7]);
            }
        }
        const uint rest = coding.bits == 8 ? held.y : held.x >> 16;
        const float4 a = Scale(coding, low).values(numbers(coding.storage, held.x));
        const float4 b = Scale(coding, high).values(numbers(coding.storage, rest));
        x[0] = a.x, x[1] = a.y, x[2] = a.z, x[3] = a.w;
        x[4] = b.x, x[5] = b.y, x[6] = b.z, x[7] = b.w;
    }
};

} // namespace fkv
