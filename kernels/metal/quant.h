// Quantized planes: what codes and scales mean (backend.DType says where they lie), and which
// ones values get.
//
// All devices make the same codes of the same values: the arithmetic is f32, and each operation
// rounds by itself. Without fast math, which backend/metal/mtl turns off, Metal's x/y is correctly
// rounded (table 8.1 of its specification); with it a quotient would be a product with a
// rounded reciprocal, so codes would differ, and tests for NaN would be dropped. A product
// that the compiler fuses with a sum changes nothing: where one follows the other here, the
// product is by a power of two and exact.
//
// Apple's GPUs take subnormal numbers of f32 for 0. A group whose scale is one, which
// takes values below 2^-110, reads as 0 there; so does one with the exponent 0, and values that are
// subnormal themselves get the codes of 0.
#pragma once

#include "minifloat.h"

namespace fkv {

constant constexpr uint OCTET = 8; // elements that are coded together: their codes fill 4 or 8 bytes

// Coding is how a storage type, a word of storage.h, codes rows of dim elements, a multiple of
// OCTET.
struct Coding {
    uint storage;
    uint bits;   // of a code, and bytes of an octet's codes
    uint shift;  // octets [i << shift, (i+1) << shift) of a row share a word of scales
    uint group;  // and [i << group, (i+1) << group) a scale, of which a word may have four
    uint scales; // words of a row; 0 where it has none of its own

    Coding(uint type, uint dim)
        : storage(type), bits(type & FKV_NIBBLES ? 4 : 8), shift(type >> FKV_SHARE), group(quarters() ? shift - 2 : shift),
          scales(by_channel() || by_head() ? 0 : ((dim / OCTET - 1) >> shift) + 1) {}

    bool by_head() const { return storage & FKV_BY_HEAD; }       // the head has the scale
    bool by_channel() const { return storage & FKV_BY_CHANNEL; } // the block has them
    bool exponents() const { return storage & FKV_EXPONENTS; }   // scales are powers of two
    bool minifactors() const { return storage & FKV_MINIFACTORS; } // they are E4M3, times the head's factor
    bool quarters() const { return storage & (FKV_EXPONENTS | FKV_MINIFACTORS); } // a word has four of either
    bool plain() const { return storage & (FKV_F32 | FKV_F16 | FKV_BF16); } // elements are no codes

    // before is how many words of a plane come before those of rows: the factors of its heads.
    uint before(uint heads) const { return minifactors() ? (heads + 3) & ~3u : 0; }

    // place is where in its word the byte of an octet's group is, in bits.
    uint place(uint octet) const { return (octet >> group & 3) * 8; }
};

// power is the f32 2^(exponent-127), and NaN of 255: E8M0 of OCP's MX.
inline uint power(uint exponent) { return exponent << 23 | (exponent == 0 || exponent == 255 ? 1u << 22 : 0); }

// step_of is the f32 of a group whose factor, E4M3, is relative to its head's.
inline uint step_of(uint byte, float factor) { return as_type<uint>(E4M3::values(uint4(byte)).x * factor); }

// numbers is what four codes say before they are scaled; they begin at the lowest bit.
inline float4 numbers(uint storage, uint codes) {
    const uint4 bytes = uint4(codes, codes >> 8, codes >> 16, codes >> 24) & 0xffu;
    if (storage & FKV_SIGNED) return float4(as_type<char4>(codes));
    if (storage & FKV_E4M3) return E4M3::values(bytes);
    const uint4 nibbles = uint4(codes, codes >> 4, codes >> 8, codes >> 12) & 15u;
    if (storage & FKV_FLOATS) return storage & FKV_NIBBLES ? E2M1::values(nibbles) : E5M2::values(bytes);
    return float4(storage & FKV_NIBBLES ? nibbles : bytes);
}

// Scale makes values of numbers: step*(number + zero), exact but for the rounding of a float8's
// product. It is that of four codes, which often is the same one.
struct Scale {
    float4 step, zero;

    // The words are as they lie in memory, but for quarters of one, which are f32.
    Scale(Coding c, uint4 words) : step(as_type<float4>(words)), zero(-0.0f) { // adds nothing, to -0 either
        if (c.storage & (FKV_FACTORS | FKV_EXPONENTS | FKV_MINIFACTORS)) return;
        step = as_type<float4>(words << 16u);
        zero = float4(as_type<int4>(words) >> 16) * (c.bits == 8 ? 1.0f : 1.0f / 16);
    }

    float4 values(float4 x) const { return step * (x + zero); }

    // codes is the codes of four values, from the lowest bit on. Under a step of 0 or NaN
    // they are 0, but not those of 8-bit floats.
    uint codes(Coding c, float4 x) const {
        if (c.exponents()) {
            // The product with 1/step is exact, and that is normal where the step is not.
            const float4 per = as_type<float4>(0x7f000000u - (as_type<uint4>(step) & 0x7f800000u));
            return joined(E2M1::codes(select(float4(NAN), x * per, step == step), 0), 4);
        }
        const float4 steps = x / (c.minifactors() ? select(step, float4(INFINITY), step == 0.0f) : step);
        if (c.minifactors()) return joined(E2M1::codes(steps, 0), 4);
        if (c.storage & FKV_E4M3) return joined(E4M3::codes(steps, 0x7f), 8);
        if (c.storage & FKV_FLOATS) return joined(E5M2::codes(steps, 0x7f), 8);
        const float4 nearest = rint(select(float4(0), steps - zero, step > 0.0f));
        if (c.storage & FKV_SIGNED) return joined(uint4(int4(clamp(nearest, float4(-127), float4(127)))) & 0xffu, 8);
        return joined(uint4(clamp(nearest, float4(0), float4((1 << c.bits) - 1))), c.bits);
    }

  private:
    static uint joined(uint4 codes, uint bits) {
        return codes.x | codes.y << bits | codes.z << 2 * bits | codes.w << 3 * bits;
    }
};

// Reach is what the values of a group reach: -lowest, highest, the largest magnitude of those
// that are finite, and 1 where one is NaN. All are maxima, and so is the reach of two parts.
constant constexpr float4 NO_REACH = {-INFINITY, -INFINITY, 0, 0};

inline float4 reach_of(float x) {
    const float size = fabs(x);
    if (isnan(x)) return float4(-INFINITY, -INFINITY, 0, 1);
    return float4(-x, x, size < INFINITY ? size : 0, 0);
}

inline bool is_finite(float4 reach) { return max(reach.x, reach.y) < INFINITY && reach.w == 0; }

// storable is a value of a group with that reach, NaN where it is not finite. With saturate
// NaN becomes 0, and an infinity gets the largest magnitude of the finite ones; an 8-bit
// float has one for it.
inline float storable(Coding c, float x, float4 reach, bool saturate) {
    if (fabs(x) < INFINITY) return x;
    if (!saturate) return NAN;
    if (isnan(x)) return 0;
    return c.by_head() ? x : x > 0 ? reach.z : -reach.z;
}

// FARTHEST is the largest magnitude that scales cover: they are rounded, and the largest code of a larger one
// might be worth an infinity.
constant constexpr float FARTHEST = 3.1901471898837980e38f; // 0x1.ep127

// word_of is the scale of a group with that reach, as it lies in memory: a word, or an exponent that
// makes the largest value one of the largest codes' binade, or E4M3 that makes it the largest code.
inline uint word_of(Coding c, float4 reach, bool saturate, float factor = 1) {
    const uint nan = c.minifactors() ? 0x7f : c.exponents() ? 255 : c.storage & FKV_SIGNED ? 0x7fc00000 : 0x7fc0;
    if (!saturate && !is_finite(reach)) return nan;
    const float size = min(reach.z, FARTHEST);
    if (c.minifactors()) return E4M3::code(size / 6 / factor, 0x7f);
    if (c.exponents()) return max(int(as_type<uint>(size) >> 23) - 2, 0);
    if (c.storage & FKV_SIGNED) {
        const float step = size / 127;
        return step == 0 && size > 0 ? 1 : as_type<uint>(step); // at least the smallest number
    }
    float low = clamp(-reach.x, -size, size), high = clamp(reach.y, -size, size);
    if (reach.w != 0) low = min(low, 0.0f), high = max(high, 0.0f);
    // Half the range, which does not overflow; and the word's 16 bits must reach the lowest value.
    const float top = (1 << c.bits) - 1, unit = 1 << (8 - c.bits);
    const float step = max((0.5f * high - 0.5f * low) / (0.5f * top), fabs(low) * (unit / 32767));
    if (step == 0) return 0; // or -0
    const uint rounded = (as_type<uint>(step) + 0xffff) >> 16; // up: the codes must cover the highest
    const float zero = rint(low / as_type<float>(rounded << 16) * unit);
    return uint(int(clamp(zero, -32767.0f, 32767.0f))) << 16 | rounded;
}

} // namespace fkv
