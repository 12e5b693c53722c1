// What the tests of quantized caches share: rows that quantization may get wrong, and
// comparisons to the last bit.
#pragma once

#include "codec.h"

namespace rig {

using Floats = std::vector<float>;

constexpr float INF = std::numeric_limits<float>::infinity(), NOT_A_NUMBER = std::numeric_limits<float>::quiet_NaN();

// Under a sanitizer the CUDA kernels run in Go's conformance suite, too, which executes all of them but
// the loads and stores of rows that are not aligned. So these are what is tried here then.
#if (defined(__SANITIZE_ADDRESS__) || defined(SIMT_TSAN)) && !defined(FKV_METAL)
constexpr bool UNALIGNED_ONLY = true;
#else
constexpr bool UNALIGNED_ONLY = false;
#endif

// How values that are not finite come into a test.
enum class Strange { NONE, STORED, SATURATED };

// draw is a row of one of the kinds that quantization may get wrong.
template <class T> Floats draw(uint32_t dim, uint64_t kind, Strange strange, bool turned = false) {
    constexpr bool narrow = std::is_same_v<T, F16>;
    const double offsets[] = {0.5, -0.3, 100, 7};
    Floats x(dim);
    const double offset = offsets[below(4)], huge = narrow ? 6e4 : 1e30;
    for (uint32_t d = 0; d < dim; d++) {
        double v = normal();
        switch (kind % 10) {
        case 1: v = offset; break;
        case 2: v = below(2) ? 0. : -0.; break;
        case 3: v *= 1e-9; break;
        case 4: v *= narrow ? 0x1p-22 : 0x1p-140; break; // less than normal numbers
        case 5: v = d % 37 == 5 ? -206 : 0.1 * v; break;
        case 6: v = std::clamp(v / 3, -1., 1.) * huge; break;
        case 7: v = offset * 1000 + 0.01 * v; break;
        case 8: v = below(3) ? 0x1p-126 : 3e-39; break;
        case 9: v = (below(2) ? 1 : -1) * (narrow ? 65504 : turned ? 0x1p118 : 0x1.fep127); break; // beyond what scales cover; finite once turned
        }
        x[d] = single(value(rounded<T>(v)));
    }
    if (strange != Strange::NONE && kind % 2 == 0) {
        const float strangers[] = {INF, -INF, NOT_A_NUMBER};
        for (int i = 0; i < 1 + int(kind % 3); i++) {
            x[below(dim)] = strangers[below(3)];
        }
        if (kind % 8 == 0) { // no finite one in the first groups
            std::fill_n(x.begin(), 64, -INF);
        }
    }
    return x;
}

template <class T> T stored(float x) {
    if constexpr (std::is_same_v<T, float>) {
        return x;
    } else {
        if (!std::isnan(x)) {
            return rounded<T>(x);
        }
        T nan;
        std::memset(&nan, 0xff, sizeof nan);
        return nan;
    }
}

template <class T> Floats row_of(const T *at, uint32_t dim) {
    Floats x;
    for (uint32_t d = 0; d < dim; d++) {
        x.push_back(single(value(at[d])));
    }
    return x;
}

// Rope is a rotation and its table.
struct Rope {
    uint32_t dims, positions;
    bool interleaved;
    Floats table;

    Rope(uint32_t dims, uint32_t positions, bool interleaved) : dims(dims), positions(positions), interleaved(interleaved) {
        for (uint32_t p = 0; p < positions; p++) {
            for (uint32_t i = 0; i < dims / 2; i++) {
                const double angle = p * std::pow(10000, -2.0 * i / dims);
                table.push_back(single(std::cos(angle)));
                table.push_back(single(std::sin(angle)));
            }
        }
    }

    // turn rotates a row by delta positions.
    void turn(Floats &x, int64_t delta, double magnitude) const {
        for (uint32_t i = 0; i < dims / 2; i++) {
            float &a = x[interleaved ? 2 * i : i], &b = x[interleaved ? 2 * i + 1 : i + dims / 2];
            const float *angle = &table[(std::abs(delta) * (dims / 2) + i) * 2];
            const double cos = angle[0], sin = delta < 0 ? -angle[1] : angle[1], old = a;
            a = single((old * cos - b * sin) * magnitude), b = single((old * sin + b * cos) * magnitude);
        }
    }
};

// expect_same compares planes bit by bit.
inline void expect_same(Plane<Quant> &got, Plane<Quant> &want, const char *what) {
    got.words.expect(want.words.copy(), (std::string("words of ") + what).c_str());
    got.codes.expect(want.codes.copy(), (std::string("codes of ") + what).c_str());
}

} // namespace rig
