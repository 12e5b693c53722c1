// The small floats of the Open Compute Project, the two of OFP8 and E2M1 of MX, in software:
// devices before 8.9 have no instructions for them.
#pragma once

#include "kernel.cuh"

namespace fkv {

// Minifloat says how a float lies in a few bits.
struct Minifloat {
    int sign, fraction, bias; // the sign's bit, bits of the fraction, bias of the exponent
    float most;               // largest finite value
    uint32_t special, nan;    // codes from special on are an infinity or NaN; what NaN becomes

    // float8 is E4M3 or E5M2, and float4 is E2M1, which has nothing special.
    __device__ static Minifloat float8(bool e4m3) {
        return {7, e4m3 ? 3 : 2, e4m3 ? 7 : 15, e4m3 ? 448.f : 57344.f, e4m3 ? 0x7fu : 0x7cu, 0x7f};
    }
    __device__ static Minifloat float4() { return {3, 1, 1, 6, 8, 0}; }

    // value moves exponent and fraction to their places in an f32; the product moves the
    // bias, and makes subnormal numbers normal. Bits above the code do not count.
    __device__ float value(uint32_t code) const {
        const uint32_t size = code & ((1u << sign) - 1);
        const uint32_t bits = (code & 1u << sign) << (31 - sign) | size << (23 - fraction) | (size >= special ? 0x7f800000u : 0u);
        return __uint_as_float(bits) * __uint_as_float(uint32_t(254 - bias) << 23);
    }

    // code is the one nearest to x, ties to even. What is beyond the largest finite value
    // becomes that.
    __device__ uint32_t code(float x) const {
        const uint32_t negative = __float_as_uint(x) >> (31 - sign) & 1u << sign;
        const float size = fminf(fabsf(x), most);
        if (isnan(x)) return nan;
        if (size < __uint_as_float(uint32_t(128 - bias) << 23)) { // counts the smallest of the subnormal numbers
            return negative | uint32_t(rintf(size * __uint_as_float(uint32_t(126 + bias + fraction) << 23)));
        }
        const int drop = 23 - fraction;
        uint32_t bits = __float_as_uint(size);
        bits += (1u << (drop - 1)) - 1 + (bits >> drop & 1);
        return negative | ((bits >> drop) - (uint32_t(127 - bias) << fraction));
    }
};

} // namespace fkv
