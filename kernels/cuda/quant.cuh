// Quantized storage: what codes are worth and how they are made. All of it is f32, each
// operation rounded by itself, so that every device makes the same codes of the same values;
// package backend/quant has the host's.
#pragma once

#include "minifloat.cuh"
#include "run.cuh"

namespace fkv {

// UNIT is the elements of a row that a thread converts at a time: rows, and groups that
// share a word, are whole units.
constexpr int UNIT = 8;

constexpr float MOST = MOST_OF<float>;

// FARTHEST is the largest magnitude that scales cover: they are rounded, and the largest code of a larger one
// might be worth an infinity.
constexpr float FARTHEST = 3.1901471898837980e38f; // 0x1.ep127

// finite is false for NaN too.
__device__ inline bool finite(float x) { return fabsf(x) <= MOST; }

// saturated is x with what is not finite replaced: NaN by 0, infinities by size with their sign.
__device__ inline float saturated(float x, float size) {
    return finite(x) ? x : isnan(x) ? 0 : copysignf(size, x);
}

// power is 2^(exponent-127), and NaN of 255: E8M0 of OCP's MX.
__device__ inline float power(uint32_t exponent) {
    return __uint_as_float(exponent << 23 | (exponent == 0 || exponent == 255 ? 1u << 22 : 0));
}

// step_of is the step of a group whose factor, E4M3, is relative to its head's.
__device__ inline float step_of(uint32_t byte, float factor) { return __fmul_rn(Minifloat::float8(true).value(byte), factor); }

// Divisor divides many numbers by one, with the quotients of __fdiv_rn. That takes a subroutine where a
// number is zero, or small: for most of the rows that are stored, element by element. Here, two steps from the
// product with the nearest reciprocal end at the nearest quotient (P. Markstein, Computation of elementary
// functions on the IBM RISC System/6000 processor, 1990), where what is left over by the steps before is exact. Powers
// of two see to that for quotients from 2^-40 to 2^30; those below and above come near enough to have the same code.
struct Divisor {
    float by, inverse, lift;

    Divisor() = default;
    __device__ explicit Divisor(float step) {
        lift = fabsf(step) < 0x1p-60f ? 0x1p90f : fabsf(step) > 0x1p60f ? 0x1p-90f : 1;
        by = __fmul_rn(step, lift);
        inverse = __fdiv_rn(1, by);
    }

    // within is the quotient of a number that is no larger than 2^30 steps.
    __device__ float within(float x) const {
        x = __fmul_rn(x, lift);
        float q = __fmul_rn(x, inverse);
        q = fmaf(fmaf(-q, by, x), inverse, q);
        return fmaf(fmaf(-q, by, x), inverse, q);
    }

    // quotient is that of any number, and has the sign of zeros.
    __device__ float quotient(float x) const {
        const float about = __fmul_rn(__fmul_rn(x, lift), inverse);
        return fabsf(about) < 0x1p30f && inverse != 0 ? copysignf(within(x), about) : about;
    }
};

// Scale is what is beside the codes: an element is step * (code + zero).
struct Scale {
    float step, zero;
};

// Storage is a storage type, most often a quantized one, in a word of storage.h, which a kernel looks up when it runs: one
// for all of its threads. Words, else, are what DType.Scales of package backend calls scales.
struct Storage {
    uint32_t type;

    __device__ bool nibbles() const { return type & FKV_NIBBLES; }
    __device__ bool balanced() const { return type & FKV_SIGNED; } // with codes around zero, and no zero point
    __device__ bool floats() const { return type & FKV_FLOATS; }
    __device__ bool e4m3() const { return type & FKV_E4M3; }
    __device__ bool channels() const { return type & FKV_BY_CHANNEL; } // share words over a block's tokens
    __device__ bool heads() const { return type & FKV_BY_HEAD; }       // have one word
    __device__ bool exponents() const { return type & FKV_EXPONENTS; } // four of them are a word
    __device__ bool minifactors() const { return type & FKV_MINIFACTORS; } // so are four of these, E4M3, times the head's factor
    __device__ bool zeros() const { return !(type & (FKV_SIGNED | FKV_FLOATS)); } // have zero points
    __device__ bool quarters() const { return type & (FKV_EXPONENTS | FKV_MINIFACTORS); }

    __device__ bool plain() const { return type & (FKV_F32 | FKV_F16 | FKV_BF16); } // elements are no codes

    // bytes is those of n codes.
    __device__ uint32_t bytes(uint32_t n) const { return nibbles() ? n / 2 : n; }

    // spread is the logarithm of the units that have a word together, group that of those that have a
    // scale.
    __device__ uint32_t spread() const { return type >> FKV_SHARE; }
    __device__ uint32_t group() const { return quarters() ? spread() - 2 : spread(); }

    // words is how many a row of dim elements has of its own.
    __device__ uint32_t words(uint32_t dim) const {
        return type & (FKV_BY_CHANNEL | FKV_BY_HEAD) ? 0 : ((dim / UNIT - 1) >> spread()) + 1;
    }

    // before is how many words of a plane come before those of rows: the factors of its heads.
    __device__ uint32_t before(uint32_t kv_heads) const { return minifactors() ? (kv_heads + 3) & ~3u : 0; }

    // first is the first word for a row of a plane, which is one of the head's; panel is the
    // head's [block_size, dim] of a block.
    __device__ int64_t first(int64_t row, int64_t panel, uint32_t head, uint32_t dim) const {
        return channels() ? panel * dim : heads() ? head : row * words(dim);
    }

    // scale is that of a word, or of one of a word's bytes.
    __device__ Scale scale(uint32_t word, float factor = 1) const {
        if (exponents()) return {power(word), 0};
        if (minifactors()) return {step_of(word, factor), 0};
        if (type & FKV_FACTORS) return {__uint_as_float(word), 0};
        const float zero = float(int16_t(word >> 16));
        return {__uint_as_float(word << 16), nibbles() ? zero * (1 / 16.f) : zero};
    }

    // word covers values from lo to hi, all finite, as far as FARTHEST either way. A step is a bfloat16 that was rounded up,
    // for the codes must reach hi; a zero point has 8 bits more than a code, or 12.
    // An exponent makes the largest value one of the largest codes' binade, a small factor the largest code.
    __device__ uint32_t word(float lo, float hi, float factor = 1) const {
        lo = fminf(fmaxf(lo, -FARTHEST), FARTHEST), hi = fminf(fmaxf(hi, -FARTHEST), FARTHEST);
        if (minifactors()) return Minifloat::float8(true).code(__fdiv_rn(__fdiv_rn(fmaxf(fabsf(lo), fabsf(hi)), 6), factor));
        if (exponents()) return max(int(__float_as_uint(fmaxf(fabsf(lo), fabsf(hi))) >> 23) - 2, 0);
        if (balanced()) {
            const float size = fmaxf(fabsf(lo), fabsf(hi)), step = __fdiv_rn(size, 127);
            return step == 0 && size > 0 ? 1 : __float_as_uint(step);
        }
        const float top = nibbles() ? 15 : 255, parts = nibbles() ? 16 : 1; // of a step, that zero points count
        const float range = __fdiv_rn(fabsf(__fsub_rn(__fmul_rn(0.5f, hi), __fmul_rn(0.5f, lo))), 0.5f * top); // not -0
        const float reach = __fmul_rn(fabsf(lo), nibbles() ? float(16 / 32767.) : float(1 / 32767.));
        const uint32_t high = (__float_as_uint(fmaxf(range, reach)) + 0xffff) >> 16;
        if (high == 0) return 0;
        const float zero = rintf(__fmul_rn(__fdiv_rn(lo, __uint_as_float(high << 16)), parts));
        return uint32_t(int(fminf(fmaxf(zero, -32767), 32767))) << 16 | high;
    }

    // no_number is the word, or the byte, of a group that reads as NaN.
    __device__ uint32_t no_number() const { return minifactors() ? 0x7f : exponents() ? 255 : balanced() ? 0x7fc00000 : 0x7fc0; }

    // codes are those of a unit's elements, which have one scale, in the lowest bits of each. What the type is
    // decides once for all of them.
    __device__ void codes(uint32_t (&to)[UNIT], const float (&x)[UNIT], const Scale &s) const {
        const Divisor step(s.step);
        if (floats()) {
            const Minifloat format = nibbles() ? Minifloat::float4() : Minifloat::float8(e4m3());
            const bool none = minifactors() && s.step == 0; // zeros, with their signs
#pragma unroll
            for (int i = 0; i < UNIT; i++) to[i] = none ? __float_as_uint(x[i]) >> 31 << 3 : format.code(step.quotient(x[i]));
        } else {
#pragma unroll
            for (int i = 0; i < UNIT; i++) to[i] = integer(x[i], step, s.zero);
        }
    }

    // integer is the code of an element among integers.
    __device__ uint32_t integer(float x, const Divisor &step, float zero) const {
        const float low = balanced() ? -127 : 0, top = balanced() ? 127 : nibbles() ? 15 : 255;
        const float inside = fminf(fmaxf(__fsub_rn(step.within(x), zero), low), top);
        const uint32_t mask = step.by > 0 ? 0xff : 0; // NaN, or a group of zeros
        return __float_as_uint(__fsub_rn(inside, -12582912)) & mask; // 1.5 * 2^23, whose last bit is worth 1: rounds to even
    }
};

// Codes are those of a unit, as they lie in memory; where they are 4 bits each, the second
// word is not used.
using Codes = Run<uint32_t, 2>;

__device__ inline Codes load_codes(const unsigned char *unit, bool nibbles) {
    if (nibbles) return {{*reinterpret_cast<const uint32_t *>(unit), 0}};
    return *reinterpret_cast<const Codes *>(unit);
}

// store_codes writes the codes of a unit, of which there is one in each of eight words.
__device__ inline void store_codes(unsigned char *unit, const uint32_t (&codes)[UNIT], bool nibbles) {
    Codes packed = {};
    if (nibbles) {
#pragma unroll
        for (int i = 0; i < UNIT; i++) packed.at[0] |= codes[i] << 4 * i;
        *reinterpret_cast<uint32_t *>(unit) = packed.at[0];
    } else {
#pragma unroll
        for (int i = 0; i < UNIT; i++) packed.at[i / 4] |= codes[i] << 8 * (i % 4);
        *reinterpret_cast<Codes *>(unit) = packed;
    }
}

// unfold is the codes as bytes, of which 4-bit ones are the high halves.
__device__ inline Codes unfold(const Codes &codes, bool nibbles) {
    if (!nibbles) return codes;
    const uint32_t even = (codes.at[0] & 0x0f0f0f0f) << 4, odd = codes.at[0] & 0xf0f0f0f0;
    return {{__byte_perm(even, odd, 0x5140), __byte_perm(even, odd, 0x7362)}};
}

// Decoder makes elements of the integer codes of a group. A code among the low bits of the
// fraction of a float is that float plus the code, and so is a zero point: conversion is a
// subtraction. All of it is exact, but for the product with an int8 scale, which is no bfloat16.
struct Decoder {
    uint32_t one;      // a float whose last bit is worth 1, or 1/16 of a 4-bit code
    float step, least; // least stands for code 0

    __device__ Decoder(const Storage &type, uint32_t word) : one(type.nibbles() ? 0x49400000 : 0x4b400000) { // 1.5 * 2^19, 2^23
        step = __uint_as_float(type.balanced() ? word : word << 16);
        least = __uint_as_float(one - (type.balanced() ? -128 : int(word) >> 16));
    }

    // element is that of byte i of a word of unfolded codes; signed ones are counted from -128.
    __device__ float element(uint32_t bytes, int i) const {
        return __fmul_rn(step, __uint_as_float(__byte_perm(bytes, one, 0x7650 + i)) - least);
    }
};

// integer_values is what the integer codes of a unit with one word are worth, and float_values that of
// small floats with a scale.
__device__ inline void integer_values(float (&x)[UNIT], const Storage &type, const Codes &codes, uint32_t word) {
    const Decoder decoder(type, word);
    const Codes bytes = unfold(codes, type.nibbles());
    const uint32_t flip = type.balanced() ? 0x80808080 : 0; // adds 128 to signed codes
#pragma unroll
    for (int i = 0; i < UNIT; i++) x[i] = decoder.element(bytes.at[i / 4] ^ flip, i % 4);
}

__device__ inline void float_values(float (&x)[UNIT], const Storage &type, const Codes &codes, float scale) {
    if (type.nibbles()) {
#pragma unroll
        for (int i = 0; i < UNIT; i++) x[i] = __fmul_rn(scale, Minifloat::float4().value(codes.at[0] >> 4 * i));
        return;
    }
    const Minifloat format = Minifloat::float8(type.e4m3());
#pragma unroll
    for (int i = 0; i < UNIT; i++) x[i] = __fmul_rn(scale, format.value(codes.at[i / 4] >> 8 * (i % 4)));
}

// values is either, of unit number unit of a row; factor is what the row's head may have.
__device__ inline void values(float (&x)[UNIT], const Storage &type, const Codes &codes, uint32_t word, uint32_t unit, float factor) {
    if (type.minifactors()) {
        float_values(x, type, codes, step_of(word >> 8 * (unit >> type.group() & 3) & 255, factor));
    } else if (type.exponents()) {
        float_values(x, type, codes, power(word >> 8 * (unit >> type.group() & 3) & 255));
    } else if (type.floats()) {
        float_values(x, type, codes, __uint_as_float(word));
    } else {
        integer_values(x, type, codes, word);
    }
}

// channel_values is values of codes with a word each.
__device__ inline void channel_values(float (&x)[UNIT], const Codes &codes, const uint32_t *words) {
    const Codes bytes = unfold(codes, true);
#pragma unroll
    for (int i = 0; i < UNIT; i++) x[i] = Decoder({FKV_STORAGE_INT4CHANNEL}, words[i]).element(bytes.at[i / 4], i % 4);
}

} // namespace fkv
