// The two 8-bit floats of the Open Compute Project's OFP8, in software: devices before 8.9
// have no instructions for them.
#pragma once

#include "kernel.cuh"

namespace fkv {

// Float8 says how E4M3 and E5M2 lie in a byte.
struct Float8 {
    int fraction, bias; // bits of the fraction, bias of the exponent
    float most;         // largest finite value
    uint32_t special;   // codes from it on are an infinity or NaN

    __device__ explicit Float8(bool e4m3)
        : fraction(e4m3 ? 3 : 2), bias(e4m3 ? 7 : 15), most(e4m3 ? 448.f : 57344.f), special(e4m3 ? 0x7f : 0x7c) {}

    // value moves exponent and fraction to their places in an f32; the product moves the
    // bias, and makes subnormal numbers normal.
    __device__ float value(uint32_t code) const {
        const uint32_t size = code & 0x7f;
        const uint32_t bits = (code & 0x80) << 24 | size << (23 - fraction) | (size >= special ? 0x7f800000u : 0u);
        return __uint_as_float(bits) * __uint_as_float(uint32_t(254 - bias) << 23);
    }

    // code is the one nearest to x, ties to even. What is beyond the largest finite value
    // becomes that.
    __device__ uint32_t code(float x) const {
        const uint32_t sign = __float_as_uint(x) >> 24 & 0x80;
        const float size = fminf(fabsf(x), most);
        if (isnan(x)) return 0x7f;
        if (size < __uint_as_float(uint32_t(128 - bias) << 23)) { // counts the smallest of the subnormal numbers
            return sign | uint32_t(rintf(size * __uint_as_float(uint32_t(126 + bias + fraction) << 23)));
        }
        const int drop = 23 - fraction;
        uint32_t bits = __float_as_uint(size);
        bits += (1u << (drop - 1)) - 1 + (bits >> drop & 1);
        return sign | ((bits >> drop) - (uint32_t(127 - bias) << fraction));
    }
};

} // namespace fkv
