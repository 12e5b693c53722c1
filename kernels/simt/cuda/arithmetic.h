// Arithmetic of CUDA whose results have one rounding each, floats as bits, and bytes of words.
#pragma once

#include <cstdint>
#include <cstring>

namespace simt {

// alone keeps the compiler from making one operation of this one and the next.
inline float alone(float x) {
#ifdef __aarch64__
    asm("" : "+w"(x));
#else
    asm("" : "+x"(x));
#endif
    return x;
}

} // namespace simt

inline float __fmul_rn(float a, float b) { return simt::alone(a * b); }
inline float __fsub_rn(float a, float b) { return simt::alone(a - b); }
inline float __fdiv_rn(float a, float b) { return a / b; }

inline uint32_t __float_as_uint(float x) {
    uint32_t bits;
    std::memcpy(&bits, &x, sizeof bits);
    return bits;
}

inline float __uint_as_float(uint32_t bits) {
    float x;
    std::memcpy(&x, &bits, sizeof x);
    return x;
}

// Byte i of the result is the one of a (0 to 3) or b (4 to 7) that digit i of digits names.
inline uint32_t __byte_perm(uint32_t a, uint32_t b, uint32_t digits) {
    const uint64_t both = uint64_t{b} << 32 | a;
    uint32_t result = 0;
    for (int i = 0; i < 4; i++)
        result |= uint32_t(both >> 8 * (digits >> 4 * i & 7) & 0xff) << 8 * i;
    return result;
}
