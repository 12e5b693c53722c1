// The codes of quantized rows as they must be: float arithmetic with one rounding each, done in
// double, in which an operation on floats and its rounding come out the same.
#pragma once

#include "plane.h"

namespace rig {

inline float single(double x) { return static_cast<float>(x); }

inline uint32_t bits_of(float x) {
    uint32_t bits;
    std::memcpy(&bits, &x, sizeof bits);
    return bits;
}

inline float float_of(uint32_t bits) {
    float x;
    std::memcpy(&x, &bits, sizeof x);
    return x;
}

inline bool is_finite(float x) { return std::fabs(x) <= std::numeric_limits<float>::max(); }

constexpr uint32_t NO_NUMBER = 0x7fc0, NO_NUMBER_INT8 = 0x7fc00000;

constexpr float FARTHEST = 0x1.ep127f; // the largest magnitude that scales cover

// word_of is the word of a group of values from lo to hi.
inline uint32_t word_of(uint32_t storage, float lo, float hi) {
    lo = std::clamp(lo, -FARTHEST, FARTHEST), hi = std::clamp(hi, -FARTHEST, FARTHEST);
    if (storage & FKV_SIGNED) {
        const float size = std::max(std::fabs(lo), std::fabs(hi)), scale = single(double(size) / 127);
        return scale == 0 && size > 0 ? 1 : bits_of(scale);
    }
    const double top = nibbles(storage) ? 15 : 255, parts = nibbles(storage) ? 16 : 1;
    float step = single(double(single(double(single(0.5 * hi)) - double(single(0.5 * lo)))) / (0.5 * top));
    step = std::max(single(std::fabs(double(lo)) * double(single(parts / 32767))), step); // which may be -0
    const uint32_t high = (bits_of(step) + 0xffff) >> 16; // up to a bfloat16
    if (high == 0) {
        return 0;
    }
    const double zero = std::nearbyint(single(double(single(double(lo) / float_of(high << 16))) * parts));
    return uint32_t(uint16_t(int16_t(std::clamp(zero, -32767., 32767.)))) << 16 | high;
}

inline unsigned code_of(uint32_t storage, uint32_t word, float x) {
    const double step = storage & FKV_SIGNED ? float_of(word) : float_of(word << 16);
    if (!(step > 0)) {
        return 0;
    }
    const double zero = storage & FKV_SIGNED ? 0 : double(int16_t(word >> 16)) / (nibbles(storage) ? 16 : 1);
    const double nearest = std::nearbyint(single(double(single(x / step)) - zero));
    if (storage & FKV_SIGNED) {
        return unsigned(int(std::clamp(nearest, -127., 127.))) & 0xff;
    }
    return unsigned(std::clamp(nearest, 0., nibbles(storage) ? 15. : 255.));
}

// small_float_of is the nearest code, found among all of them.
inline unsigned small_float_of(uint32_t storage, float x) {
    if (std::isnan(x)) {
        return 0x7f;
    }
    const unsigned sign = nibbles(storage) ? 8 : 0x80;
    const double most = nibbles(storage) ? 6 : storage & FKV_E4M3 ? 448 : 57344, size = std::min<double>(std::fabs(x), most);
    unsigned best = 0;
    for (unsigned c = 1; c < sign && small_float(storage, c) <= most; c++) {
        const double off = std::fabs(small_float(storage, c) - size), least = std::fabs(small_float(storage, best) - size);
        if (off < least || (off == least && c % 2 == 0)) {
            best = c;
        }
    }
    return best | (std::signbit(x) ? sign : 0);
}

// saturate makes a group finite.
inline void saturate(std::vector<float *> group, uint32_t storage) {
    float largest = 0;
    for (float *x : group) {
        largest = is_finite(*x) ? std::max(largest, std::fabs(*x)) : largest;
    }
    for (float *x : group) {
        if (std::isnan(*x)) {
            *x = 0;
        } else if (!is_finite(*x)) {
            *x = std::copysign(by_head(storage) ? INFINITY : largest, *x);
        }
    }
}

// encode stores n values, which share a word but in 8-bit floats, as what p has at their places.
// It is false where one is not finite and was not to be.
template <class Where>
bool encode(Plane<Quant> &p, std::vector<float> x, bool saturated, Where where) {
    std::vector<float *> group;
    bool good = true;
    for (float &v : x) {
        group.push_back(&v);
        good = good && is_finite(v);
    }
    if (!good && saturated) {
        saturate(group, p.storage);
        good = true;
    }
    const auto [lo, hi] = std::minmax_element(x.begin(), x.end());
    if (exponents(p.storage)) {
        const double largest = std::max(std::fabs(*lo), std::fabs(*hi));
        const int exponent = !good ? 255 : largest == 0 ? 0 : std::max(std::ilogb(largest) + 127 - 2, 0);
        p.byte_at(where(0).first, where(0).second) = static_cast<unsigned char>(exponent);
        for (size_t i = 0; i < x.size(); i++) {
            const auto [row, d] = where(i);
            p.set_code(row, d, good ? small_float_of(p.storage, single(std::ldexp(x[i], 127 - exponent))) : 0);
        }
        return good;
    }
    if (minifactors(p.storage)) {
        const double largest = std::min(std::max(std::fabs(*lo), std::fabs(*hi)), FARTHEST), factor = p.of_head(where(0).first);
        const unsigned byte = good ? small_float_of(FKV_STORAGE_FP8E4M3, single(single(largest / 6) / factor)) : 0x7f;
        const double step = single(small_float(FKV_STORAGE_FP8E4M3, byte) * factor);
        p.byte_at(where(0).first, where(0).second) = static_cast<unsigned char>(byte);
        for (size_t i = 0; i < x.size(); i++) {
            const auto [row, d] = where(i);
            const float count = step == 0 ? std::copysign(0.f, x[i]) : single(x[i] / step);
            p.set_code(row, d, good ? small_float_of(p.storage, count) : 0);
        }
        return good;
    }
    uint32_t &word = p.words[p.word_at(where(0).first, where(0).second)];
    if (!small_floats(p.storage)) {
        word = !good ? p.storage & FKV_SIGNED ? NO_NUMBER_INT8 : NO_NUMBER : word_of(p.storage, *lo, *hi);
    }
    for (size_t i = 0; i < x.size(); i++) {
        const auto [row, d] = where(i);
        const bool nan = small_floats(p.storage) && !is_finite(x[i]) && !saturated;
        p.set_code(row, d, nan ? 0x7f : small_floats(p.storage) ? small_float_of(p.storage, single(x[i] / double(float_of(word))))
                                                                : code_of(p.storage, word, x[i]));
    }
    return good;
}

// encode_row stores a row of a type whose rows have words of their own, or the head's.
inline bool encode_row(Plane<Quant> &p, size_t row, const std::vector<float> &x, bool saturated) {
    const size_t n = by_head(p.storage) ? x.size() : scaled(p.storage, p.shape.dim);
    bool good = true;
    if (quarters(p.storage)) {
        std::fill_n(&p.words[p.before + row * p.groups], p.groups, 0); // groups behind the last have 0
    }
    for (size_t first = 0; first < x.size(); first += n) {
        const std::vector<float> part(x.begin() + first, x.begin() + std::min(first + n, x.size()));
        good &= encode(p, part, saturated, [&](size_t i) { return std::pair<size_t, uint32_t>(row, uint32_t(first + i)); });
    }
    return good;
}

// hadamard turns a row by the Walsh-Hadamard matrix.
inline void hadamard(std::vector<float> &x) {
    const size_t size = x.size() & -x.size();
    for (size_t apart = 1; apart < size; apart *= 2) {
        for (size_t i = 0; i < x.size(); i++) {
            if ((i & apart) == 0) {
                const double a = x[i], b = x[i + apart];
                x[i] = single(a + b), x[i + apart] = single(a - b);
            }
        }
    }
    for (float &v : x) {
        v = single(double(v) * double(single(1 / std::sqrt(double(size)))));
    }
}

} // namespace rig
