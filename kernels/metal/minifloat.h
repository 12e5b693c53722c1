// The small floats of the Open Compute Project, the two of OFP8 and E2M1 of MX, for which Apple's
// GPUs have no instructions.
#pragma once

#include "kernel.h"

namespace fkv {

// Minifloat has BITS, of which FRACTION are behind the point; magnitudes beyond code LARGEST are not
// finite. It makes no half of them, whose subnormals a GPU may flush.
template <uint BITS, uint FRACTION, uint BIAS, uint LARGEST> struct Minifloat {
    enum : uint { DROP = 23 - FRACTION, SHIFT = (127 - BIAS) << FRACTION }; // bits, and codes, to those of f32
    enum : uint { SIGN = 1u << (BITS - 1) };

    static float smallest() { return 1.0f / (1 << (BIAS - 1 + FRACTION)); }

    // values is those of four codes.
    static float4 values(uint4 codes) {
        const uint4 m = codes & uint(SIGN - 1);
        float4 x = as_type<float4>((m + uint(SHIFT)) << uint(DROP));
        x = select(x, float4(m) * smallest(), m < (1u << FRACTION)); // subnormal: counts the smallest
        x = select(x, as_type<float4>(m << uint(DROP) | 0x7f800000u), m > LARGEST);
        return as_type<float4>(as_type<uint4>(x) | (codes & uint(SIGN)) << (32 - BITS));
    }

    // code is the code nearest to x, ties to even, but none beyond LARGEST, and nan of NaN.
    static uint code(float x, uint nan) {
        const uint bits = as_type<uint>(x), m = bits & 0x7fffffff, sign = bits >> (32 - BITS) & SIGN;
        if (isnan(x)) return nan;
        if (m >= (LARGEST + SHIFT) << DROP) return sign | LARGEST;
        if (m < ((1u << FRACTION) + SHIFT) << DROP) return sign | uint(rint(as_type<float>(m) / smallest()));
        const uint up = (1u << (DROP - 1)) - 1 + (m >> DROP & 1);
        return sign | (((m + up) >> DROP) - SHIFT);
    }

    static uint4 codes(float4 x, uint nan) { return uint4(code(x.x, nan), code(x.y, nan), code(x.z, nan), code(x.w, nan)); }
};

using E4M3 = Minifloat<8, 3, 7, 0x7e>;
using E5M2 = Minifloat<8, 2, 15, 0x7b>;
using E2M1 = Minifloat<4, 1, 1, 7>;

} // namespace fkv
