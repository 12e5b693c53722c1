// 8-bit floats of the Open Compute Project's OFP8, for which Apple's GPUs have no instructions.
#pragma once

#include "kernel.h"

namespace fkv {

// Float8 has FRACTION bits behind the point; magnitudes beyond code LARGEST are not finite. It
// makes no half of them, whose subnormals a GPU may flush.
template <uint FRACTION, uint BIAS, uint LARGEST> struct Float8 {
    enum : uint { DROP = 23 - FRACTION, SHIFT = (127 - BIAS) << FRACTION }; // bits, and codes, to those of f32

    static float smallest() { return 1.0f / (1 << (BIAS - 1 + FRACTION)); }

    // values is those of four codes.
    static float4 values(uint4 codes) {
        const uint4 m = codes & 0x7fu;
        float4 x = as_type<float4>((m + uint(SHIFT)) << uint(DROP));
        x = select(x, float4(m) * smallest(), m < (1u << FRACTION)); // subnormal: counts the smallest
        x = select(x, as_type<float4>(m << uint(DROP) | 0x7f800000u), m > LARGEST);
        return as_type<float4>(as_type<uint4>(x) | (codes & 0x80u) << 24u);
    }

    // code is the code nearest to x, ties to even, but none beyond LARGEST. NaN is 0x7f.
    static uint code(float x) {
        const uint bits = as_type<uint>(x), m = bits & 0x7fffffff, sign = bits >> 24 & 0x80;
        if (isnan(x)) return 0x7f;
        if (m >= (LARGEST + SHIFT) << DROP) return sign | LARGEST;
        if (m < ((1u << FRACTION) + SHIFT) << DROP) return sign | uint(rint(as_type<float>(m) / smallest()));
        const uint up = (1u << (DROP - 1)) - 1 + (m >> DROP & 1);
        return sign | (((m + up) >> DROP) - SHIFT);
    }

    static uint4 codes(float4 x) { return uint4(code(x.x), code(x.y), code(x.z), code(x.w)); }
};

using E4M3 = Float8<3, 7, 0x7e>;
using E5M2 = Float8<2, 15, 0x7b>;

} // namespace fkv
