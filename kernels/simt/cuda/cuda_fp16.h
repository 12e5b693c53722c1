// CUDA's half precision.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

namespace simt {

#ifdef __aarch64__
using f16 = __fp16;
#else
using f16 = _Float16;
#endif

} // namespace simt

struct __half {
    uint16_t bits;
};

inline float __half2float(__half h) {
    simt::f16 value;
    std::memcpy(&value, &h.bits, sizeof value);
    return value;
}

// Rounds to nearest, ties to even. Like the device it knows one NaN.
inline __half __float2half_rn(float x) {
    if (std::isnan(x))
        return {0x7fff};
    simt::f16 value = static_cast<simt::f16>(x);
    __half h;
    std::memcpy(&h.bits, &value, sizeof h.bits);
    return h;
}
