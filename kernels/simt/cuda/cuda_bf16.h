// CUDA's brain floating point: the upper half of an f32.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

struct __nv_bfloat16 {
    uint16_t bits;
};

inline float __bfloat162float(__nv_bfloat16 b) {
    uint32_t bits = uint32_t{b.bits} << 16;
    float x;
    std::memcpy(&x, &bits, sizeof x);
    return x;
}

// Rounds to nearest, ties to even. Like the device it knows one NaN.
inline __nv_bfloat16 __float2bfloat16_rn(float x) {
    if (std::isnan(x))
        return {0x7fff};
    uint32_t bits;
    std::memcpy(&bits, &x, sizeof bits);
    uint32_t half = 0x7fff + (bits >> 16 & 1); // just below one half of the last place, and one half if that is odd
    return {uint16_t((bits + half) >> 16)};
}
