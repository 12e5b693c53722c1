// The twins of kernels/cuda/ptx.cuh, with the same meaning. What they touch of a kernel's
// memory is touched here, in code that the sanitizers see.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "../core/thread.h"
#include "cuda_bf16.h"
#include "cuda_fp16.h"
#include "warp.h"

namespace fkv {

using simt::Site;

template <int N> struct alignas(N) Bytes {
    uint32_t word[N / 4];
};

inline void require_aligned(const void *p, size_t to, const char *what, Site site) {
    if (reinterpret_cast<uintptr_t>(p) % to != 0)
        simt::fault(what, site);
}

template <int N> inline void land_as(simt::Copy copy) {
    *static_cast<Bytes<N> *>(copy.to) = copy.from ? *static_cast<const Bytes<N> *>(copy.from) : Bytes<N>{};
}

inline void land(simt::Copy copy) {
    copy.bytes == 4 ? land_as<4>(copy) : copy.bytes == 8 ? land_as<8>(copy) : land_as<16>(copy);
}

// copy_async lands at the wait that covers it, and until then the destination holds NaNs; or
// it lands at once. The device may do either: the first finds a wait that is missing, the
// second a barrier that is missing before memory is used again.
template <int BYTES> inline void copy_async(void *shared, const void *global, bool valid, Site site = {}) {
    static_assert(BYTES == 4 || BYTES == 8 || BYTES == 16, "sizes that there are");
    constexpr const char *what = BYTES == 16  ? "copies asynchronously between addresses that are not a multiple of 16"
                                 : BYTES == 8 ? "copies asynchronously between addresses that are not a multiple of 8"
                                              : "copies asynchronously between addresses that are not a multiple of 4";
    require_aligned(shared, BYTES, what, site);
    require_aligned(global, BYTES, what, site);
    simt::Copy copy{shared, valid ? global : nullptr, BYTES};
    if (!simt::current->around->late_copies) {
        land(copy);
        return;
    }
    std::memset(shared, 0xff, BYTES);
    simt::begin_copy(copy);
}

using SharedAt = unsigned char *;
inline SharedAt shared_at(void *p) { return static_cast<unsigned char *>(p); }
inline const unsigned char *global_at(const void *p) { return static_cast<const unsigned char *>(p); }

inline void copy_commit() { simt::close_copies(); }

template <int PENDING> inline void copy_wait() {
    simt::Copy copy;
    while (simt::take_copy(PENDING, copy))
        land(copy);
}

inline void load(uint32_t (&r)[4], const void *row, simt::Collective distribute, Site site) {
    require_aligned(row, 16, "loads a matrix row from an address that is not a multiple of 16", site);
    simt::Matrices m;
    std::memcpy(m.row, row, sizeof m.row);
    simt::meet(0xffffffffu, &m, distribute, false, site);
    std::memcpy(r, m.result, sizeof r);
}

inline void load_matrices(uint32_t (&r)[4], const void *row, Site site = {}) { load(r, row, simt::distribute, site); }

inline void load_transposed(uint32_t (&r)[4], const void *row, Site site = {}) {
    load(r, row, simt::distribute_transposed, site);
}

inline void multiply(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, simt::Collective work, Site site) {
    simt::Product p{{d[0], d[1], d[2], d[3]}, {a[0], a[1], a[2], a[3]}, {b0, b1}};
    simt::meet(0xffffffffu, &p, work, false, site);
    std::memcpy(d, p.d, sizeof d);
}

inline void mma(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, __half, Site site = {}) {
    multiply(d, a, b0, b1, simt::multiply_f16, site);
}

inline void mma(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, __nv_bfloat16, Site site = {}) {
    multiply(d, a, b0, b1, simt::multiply_bf16, site);
}

// An f32 has the bits of either product, but for subnormal ones of bf16.
inline uint32_t product(uint32_t a, uint32_t b, __half) {
    uint32_t r = 0;
    for (int i = 0; i < 32; i += 16) {
        const float x = __half2float({uint16_t(a >> i)}), y = __half2float({uint16_t(b >> i)});
        r |= uint32_t(__float2half_rn(x * y).bits) << i;
    }
    return r;
}

inline uint32_t product(uint32_t a, uint32_t b, __nv_bfloat16) {
    uint32_t r = 0;
    for (int i = 0; i < 32; i += 16) {
        const float x = __bfloat162float({uint16_t(a >> i)}), y = __bfloat162float({uint16_t(b >> i)});
        r |= uint32_t(__float2bfloat16_rn(x * y).bits) << i;
    }
    return r;
}

inline uint32_t sum(uint32_t a, uint32_t b, __half) {
    uint32_t r = 0;
    for (int i = 0; i < 32; i += 16) {
        const float x = __half2float({uint16_t(a >> i)}), y = __half2float({uint16_t(b >> i)});
        r |= uint32_t(__float2half_rn(x + y).bits) << i;
    }
    return r;
}

inline uint32_t fused(uint32_t a, uint32_t b, uint32_t c, __half) {
    uint32_t r = 0;
    for (int i = 0; i < 32; i += 16) {
        const float x = __half2float({uint16_t(a >> i)}), y = __half2float({uint16_t(b >> i)}), z = __half2float({uint16_t(c >> i)});
        const double exact = double(x) * y + z;
        float near = float(exact); // of two floats beside it the odd one, so that it is the half that is rounded to
        if (std::isfinite(near) && near != exact) {
            const float other = std::nextafter(near, exact > near ? INFINITY : -INFINITY);
            uint32_t bits;
            std::memcpy(&bits, &near, sizeof bits);
            if (bits % 2 == 0) near = other;
        }
        r |= uint32_t(__float2half_rn(near).bits) << i;
    }
    return r;
}

inline uint32_t unknown(uint32_t x) { return x; }

inline float exp2_fast(float x) { return std::exp2(x); }

} // namespace fkv
