// How units of codes become elements of the type that arithmetic is done with.
#pragma once

#include "ptx.cuh"
#include "quant.cuh"

namespace fkv {

// Blend makes elements of integer codes with one product and sum each. A code stands in the
// second byte of a float of 2^15, which least takes off again: that rounds to 1/128 of what
// a code is worth at most, and is for elements of 16 bits. f32 has Decoder. Steps beyond 5e33, of
// values that only bfloat16 has, make least infinite.
struct Blend {
    static constexpr uint32_t ONE = 0x47000000; // 2^15

    float step, least;

    // The codes are signed ones from -128 on, or 4-bit ones as the high halves of bytes.
    __device__ Blend(const Storage &type, uint32_t word) {
        step = __uint_as_float(type.balanced() ? word : word << 16) * (type.nibbles() ? 1 / 16.f : 1);
        least = float((type.balanced() ? -128 : int(word) >> 16) - (1 << 15)) * step;
    }

    __device__ float element(uint32_t bytes, int i) const {
        return fmaf(__uint_as_float(__byte_perm(ONE, bytes, 0x3240 + (i << 4))), step, least);
    }
};

// unpack8 makes elements of the codes of a unit of 8-bit integers, whose signs flip
// turns.
template <class T> __device__ inline void unpack8(T *to, const Storage &type, const Codes &codes, uint32_t word) {
    const uint32_t flip = type.balanced() ? 0x80808080 : 0;
    float x[UNIT];
    if constexpr (sizeof(T) == 4) {
        integer_values(x, type, codes, word);
    } else {
        const Blend blend(type, word);
#pragma unroll
        for (int i = 0; i < UNIT; i++) x[i] = blend.element(codes.at[i / 4] ^ flip, i % 4);
    }
    store(to, x);
}

// Nibbles are the eight codes of a unit of 4 bits, as the high halves of bytes: those of even
// numbers, and those of odd ones.
struct Nibbles {
    uint32_t even, odd;

    __device__ explicit Nibbles(uint32_t codes) : even(codes << 4 & 0xf0f0f0f0), odd(codes & 0xf0f0f0f0) {}

    __device__ uint32_t bytes(int i) const { return i % 2 ? odd : even; }
};

// unpack4 is unpack8 of 4-bit codes, which have a zero point: the compiler need not ask.
template <class T> __device__ inline void unpack4(T *to, uint32_t codes, uint32_t word) {
    constexpr Storage type{FKV_NIBBLES};
    float x[UNIT];
    if constexpr (sizeof(T) == 4) {
        integer_values(x, type, {{codes, 0}}, word);
    } else {
        const Blend blend(type, word);
        const Nibbles nibbles(codes);
#pragma unroll
        for (int i = 0; i < UNIT; i++) x[i] = blend.element(nibbles.bytes(i), i / 2);
    }
    store(to, x);
}

// float8_two is two E4M3 as halves where there is an instruction for it, and, so that kernels which need it are
// tested, where time does not count: FLOAT8_PAIRS says so.
#ifdef FKV_SIMT
constexpr bool FLOAT8_PAIRS = true;
__device__ inline uint32_t float8_two(uint32_t codes) {
    const Minifloat format = Minifloat::float8(true);
    return pack<half>(format.value(codes), format.value(codes >> 8));
}
#else
constexpr bool FLOAT8_PAIRS = FLOAT8;
__device__ inline uint32_t float8_two(uint32_t codes) { return float8_pair(codes); }
#endif

// float8_halves is the eight 8-bit floats of a unit as halves. Those are what E5M2 is worth, and E4M3
// where there is an instruction for it; else E4M3 becomes 2^-8 of that, as halves' exponents have another
// bias, and its NaN a number.
__device__ inline Run<uint32_t, UNIT / 2> float8_halves(const Codes &codes, bool e4m3) {
    Run<uint32_t, UNIT / 2> pairs;
#pragma unroll
    for (int i = 0; i < UNIT / 2; i++) {
        const uint32_t bytes = codes.at[i / 2];
        if (FLOAT8 && e4m3) {
            pairs.at[i] = float8_pair(i % 2 ? bytes >> 16 : bytes);
            continue;
        }
        const uint32_t high = __byte_perm(bytes, 0, i % 2 ? 0x3424 : 0x1404);
        pairs.at[i] = e4m3 ? (high & 0x80008000) | (high & 0x7fff7fff) >> 1 : high;
    }
    return pairs;
}

// unpack_floats makes elements of 8-bit floats, times the head's scale where they are f32.
template <class T> __device__ inline void unpack_floats(T *to, const Storage &type, const Codes &codes, float head_scale) {
    const bool e4m3 = type.e4m3(), shrunk = e4m3 && !FLOAT8;
    const float scale = (sizeof(T) == 4 ? head_scale : 1) * (shrunk ? 256 : 1);
    Run<uint32_t, UNIT / 2> pairs = float8_halves(codes, e4m3);
    // Where the instruction is missing, codes that are NaN, or all of them, go the long way.
    const uint32_t careful = ((codes.at[0] & 0x7f7f7f7f) + 0x01010101) | ((codes.at[1] & 0x7f7f7f7f) + 0x01010101);
    const bool exact = !shrunk || ((careful & 0x80808080) == 0 && scale <= MOST);
    if constexpr (std::is_same_v<T, half>) {
        if (exact) {
#pragma unroll
            for (int i = 0; shrunk && i < UNIT / 2; i++) pairs.at[i] = product(pairs.at[i], 0x5c005c00, T()); // 2^8
            *reinterpret_cast<Run<uint32_t, UNIT / 2> *>(to) = pairs;
            return;
        }
    }
    float x[UNIT];
#pragma unroll
    for (int i = 0; i < UNIT; i += 2) {
        half both[2];
        memcpy(both, &pairs.at[i / 2], sizeof both);
        x[i] = to_float(both[0]), x[i + 1] = to_float(both[1]);
        if (sizeof(T) == 4 || shrunk) x[i] = __fmul_rn(x[i], scale), x[i + 1] = __fmul_rn(x[i + 1], scale);
    }
    if (!exact) float_values(x, {FKV_STORAGE_FP8E4M3}, codes, sizeof(T) == 4 ? head_scale : 1);
    store(to, x);
}

// float4_pairs is the eight E2M1 of a unit as elements of 16 bits: bytes are looked up by codes, four
// at a time, and get the signs.
template <class T> __device__ inline void float4_pairs(uint32_t (&pairs)[UNIT / 2], uint32_t codes) {
    constexpr bool brain = std::is_same_v<T, bfloat>;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const uint32_t four = (codes & 0x77777777) >> 16 * i;
        const uint32_t signs = __byte_perm(codes << 4, codes, i ? 0x7362 : 0x5140) & 0x80808080;
        const uint32_t high = __byte_perm(brain ? 0x3f3f3f00 : 0x3e3c3800, brain ? 0x40404040 : 0x46444240, four) | signs;
        const uint32_t low = brain ? __byte_perm(0xc0800000, 0xc0804000, four) : 0;
        pairs[2 * i] = __byte_perm(low, high, 0x5140);
        pairs[2 * i + 1] = __byte_perm(low, high, 0x7362);
    }
}

// store_float4 writes elements of 16 bits of E2M1 and a scale, of which there is a pair.
template <class T> __device__ inline void store_float4(T *to, uint32_t codes, uint32_t scales) {
    Run<uint32_t, UNIT / 2> run;
    float4_pairs<T>(run.at, codes);
#pragma unroll
    for (int i = 0; i < UNIT / 2; i++) run.at[i] = product(run.at[i], scales, T());
    *reinterpret_cast<Run<uint32_t, UNIT / 2> *>(to) = run;
}

// unpack_float4 makes elements of E2M1 with an exponent. Powers of two that no half is, and NaN,
// go the long way.
template <class T> __device__ inline void unpack_float4(T *to, uint32_t codes, uint32_t exponent) {
    const float scale = power(exponent);
    if constexpr (sizeof(T) == 2) {
        if (std::is_same_v<T, bfloat> || exponent - (127 - 24) <= 24 + 15) {
            store_float4(to, codes, pack<T>(scale, scale));
            return;
        }
    }
    float x[UNIT];
    float_values(x, {FKV_STORAGE_MXFP4}, {{codes, 0}}, scale);
    store(to, x);
}

// unpack_steps makes elements of E2M1 with a factor that is E4M3, times the head's where they are f32. Else
// products are exact, having six bits at most.
template <class T> __device__ inline void unpack_steps(T *to, uint32_t codes, uint32_t byte, float head_factor) {
    if constexpr (sizeof(T) == 2) {
        if constexpr (FLOAT8 && std::is_same_v<T, half>) {
            store_float4(to, codes, float8_pair(byte * 0x0101));
        } else {
            const float factor = Minifloat::float8(true).value(byte);
            store_float4(to, codes, pack<T>(factor, factor));
        }
    } else {
        const float step = step_of(byte, head_factor);
        uint32_t pairs[UNIT / 2];
        float4_pairs<bfloat>(pairs, codes); // upper halves of f32
        float x[UNIT];
#pragma unroll
        for (int i = 0; i < UNIT / 2; i++) {
            x[2 * i] = __fmul_rn(step, __uint_as_float(pairs[i] << 16));
            x[2 * i + 1] = __fmul_rn(step, __uint_as_float(pairs[i] & 0xffff0000));
        }
        store(to, x);
    }
}

} // namespace fkv
