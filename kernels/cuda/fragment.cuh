// Codes as halves, two at a time, without a table: what lanes multiply of codes that they have loaded.
#pragma once

#include "coded.cuh"

namespace fkv {

// Code is what a byte is.
enum Code { SIGNED, UNSIGNED, E4M3, E5M2 };

// Affine is what makes elements of the codes of two rows of a TYPE that have steps and, but for int8, zero points, or of one
// row twice: in pairs of halves, step * (code - middle) + least. TINY steps may be below 2^-14, subnormal halves: such a one is
// 2^10 of itself, and rest brings the products back.
template <uint32_t TYPE, bool TINY> struct Affine {
    uint32_t step, least, rest;

    __device__ static float step_of(uint32_t word) { return __uint_as_float(TYPE & FKV_SIGNED ? word : word << 16); }
    __device__ static bool tiny(uint32_t word) { return fabsf(step_of(word)) < 6.1035156e-5f; }

    __device__ Affine(uint32_t first, uint32_t second) {
        constexpr float part = TYPE & FKV_NIBBLES ? 1 / 16.f : 1;   // of a step, that zero points count
        constexpr float middle = TYPE & FKV_NIBBLES ? 8 : 128;      // of codes, which are counted from there: least, rounded, is small
        const float more_a = TINY && tiny(first) ? 1024 : 1, more_b = TINY && tiny(second) ? 1024 : 1;
        const float a = step_of(first) * more_a, b = step_of(second) * more_b;
        step = pack<half>(a, b);
        rest = pack<half>(1 / more_a, 1 / more_b);
        least = pack<half>(a * (part * float(int(first) >> 16) + middle), b * (part * float(int(second) >> 16) + middle));
    }
};

// elements is the two codes in one half of a word as halves; integers are counted from -128, or from their middle.
template <Code CODE, int UPPER> __device__ inline uint32_t elements(uint32_t codes) {
    if (CODE == E4M3) return float8_two(UPPER ? codes >> 16 : codes);
    if (CODE == E5M2) return __byte_perm(codes, 0, UPPER ? 0x3424 : 0x1404);
    return sum(__byte_perm(codes, 0x64646464, UPPER ? 0x4342 : 0x4140), 0xe480e480, half()); // less 1024 + 128
}

template <Code CODE> __device__ inline uint32_t raw(uint32_t codes) { return CODE == SIGNED ? codes ^ 0x80808080 : codes; }

// number is code N of 4 bits in each half of a word, N from 0 to 3, less 8, as halves.
template <int N> __device__ inline uint32_t number(uint32_t codes) {
    const uint32_t low = N / 2 ? codes >> 8 : codes;
    if (N % 2) return fused((low & 0x00f000f0) | 0x64006400, 0x2c002c00, 0xd480d480, half()); // a sixteenth, less 64 + 8
    return sum((low & 0x000f000f) | 0x64006400, 0xe408e408, half());                                      // less 1024 + 8
}

// element is number with what makes it an element.
template <int N, bool TINY> __device__ inline uint32_t element(uint32_t codes, const Affine<FKV_NIBBLES, TINY> &by) {
    const uint32_t x = fused(number<N>(codes), by.step, by.least, half());
    return TINY ? product(x, by.rest, half()) : x;
}

} // namespace fkv
