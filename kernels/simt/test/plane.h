// A plane of the cache as a test fills it: elements, or codes and the words beside them. What a
// code is worth is computed in double, from the fields of its type.
#pragma once

#include "rig.h"

namespace rig {

// Quant stands for all quantized types.
struct Quant {};
template <> inline constexpr const char *type_name<Quant> = "quant";

// STORAGES are all quantized types.
#define NAMED(name, word) {#name, word},
constexpr struct {
    const char *name;
    uint32_t word;
} STORAGES[] = {FKV_EACH_STORAGE(NAMED)};
#undef NAMED

inline std::string name_of(uint32_t storage) {
    for (const auto &type : STORAGES) {
        if (type.word == storage) {
            return type.name;
        }
    }
    return "plain";
}

constexpr bool nibbles(uint32_t storage) { return storage & FKV_NIBBLES; }
constexpr bool small_floats(uint32_t storage) { return storage & FKV_FLOATS; }
constexpr bool by_head(uint32_t storage) { return storage & FKV_BY_HEAD; }
constexpr bool by_channel(uint32_t storage) { return storage & FKV_BY_CHANNEL; }

constexpr bool exponents(uint32_t storage) { return storage & FKV_EXPONENTS; }
constexpr bool minifactors(uint32_t storage) { return storage & FKV_MINIFACTORS; }
constexpr bool quarters(uint32_t storage) { return exponents(storage) || minifactors(storage); }

// group is how many elements of a row share a word of the row's; 0: they have none.
constexpr uint32_t group(uint32_t storage, uint32_t dim) {
    return by_head(storage) || by_channel(storage) ? 0 : std::min(8u << (storage >> FKV_SHARE), dim);
}

// A word may have the scales of four parts of a group.
constexpr uint32_t scaled(uint32_t storage, uint32_t dim) {
    return quarters(storage) ? std::min(2u << (storage >> FKV_SHARE), dim) : group(storage, dim);
}

inline double small_float(uint32_t storage, unsigned code) {
    if (nibbles(storage)) {
        const double sizes[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
        return code & 8 ? -sizes[code & 7] : sizes[code & 7];
    }
    const bool e4m3 = storage & FKV_E4M3;
    const int fraction = e4m3 ? 3 : 2, bias = e4m3 ? 7 : 15;
    const int exponent = int(code >> fraction) & (e4m3 ? 15 : 31), bits = int(code) & ((1 << fraction) - 1);
    const double sign = code & 0x80 ? -1 : 1;
    if (e4m3 ? (code & 0x7f) == 0x7f : exponent == 31) {
        return !e4m3 && bits == 0 ? sign * INFINITY : std::numeric_limits<double>::quiet_NaN();
    }
    return sign * (exponent ? std::ldexp(bits + (1 << fraction), exponent - bias - fraction) : std::ldexp(bits, 1 - bias - fraction));
}

// Shape is that of a plane, [blocks, heads, block_size, dim].
struct Shape {
    uint32_t blocks, heads, block_size, dim;

    size_t rows() const { return size_t(blocks) * heads * block_size; }
    size_t row(int64_t slot, uint32_t head) const { return (slot / block_size * heads + head) * block_size + slot % block_size; }
};

template <class S> class Plane {
  public:
    Plane(Shape of, uint32_t) : shape(of), elements(size_t(of.rows()) * of.dim) {}

    // draw gives a row random values, or integers of up to most.
    void draw(size_t row, int most = 0) {
        for (uint32_t d = 0; d < shape.dim; d++) {
            elements[row * shape.dim + d] = rounded<S>(most ? double(below(2 * most + 1) - most) : normal());
        }
    }
    double at(size_t row, uint32_t d) { return value(elements[row * shape.dim + d]); }
    const void *data() { return elements.data(); }
    const void *scales() { return nullptr; }

    const Shape shape;
    Memory<S> elements;
};

template <> class Plane<Quant> {
  public:
    Plane(Shape of, uint32_t type)
        : shape(of), storage(type), groups(group(type, of.dim) ? (of.dim + group(type, of.dim) - 1) / group(type, of.dim) : 0),
          codes(of.rows() * bytes()),
          before(minifactors(type) ? (of.heads + 3) / 4 * 4 : 0), words(by_channel(type) ? size_t(of.blocks) * of.heads * of.dim : by_head(type) ? of.heads : before + of.rows() * groups) {
        for (uint32_t h = 0; (by_head(type) || minifactors(type)) && h < of.heads; h++) {
            set_scale(h, 0.5f + 0.1f * float(h));
        }
    }

    size_t bytes() const { return nibbles(storage) ? shape.dim / 2 : shape.dim; } // of a row

    void set_scale(size_t word, float scale) { std::memcpy(&words[word], &scale, sizeof scale); }

    // word_at is which word belongs to an element.
    size_t word_at(size_t row, uint32_t d) const {
        const size_t panel = row / shape.block_size;
        return by_channel(storage) ? panel * shape.dim + d : by_head(storage) ? panel % shape.heads : before + row * groups + d / group(storage, shape.dim);
    }

    unsigned code(size_t row, uint32_t d) {
        return nibbles(storage) ? codes[row * bytes() + d / 2] >> d % 2 * 4 & 15 : codes[row * bytes() + d];
    }
    void set_code(size_t row, uint32_t d, unsigned code) {
        unsigned char &at = codes[row * bytes() + (nibbles(storage) ? d / 2 : d)];
        const unsigned shift = nibbles(storage) ? d % 2 * 4 : 0, mask = nibbles(storage) ? 15 : 255;
        at = static_cast<unsigned char>((at & ~(mask << shift)) | (code & mask) << shift);
    }

    // byte_at is where the exponent, or the small factor, of an element is.
    unsigned char &byte_at(size_t row, uint32_t d) {
        return reinterpret_cast<unsigned char *>(words.data())[4 * (before + row * groups) + d / scaled(storage, shape.dim)];
    }

    // of_head is what a row's head has.
    double of_head(size_t row) {
        float scale;
        std::memcpy(&scale, &words[row / shape.block_size % shape.heads], sizeof scale);
        return scale;
    }

    // factor is what a small float is multiplied with.
    double factor(size_t row, uint32_t d) {
        if (exponents(storage)) {
            const int e = byte_at(row, d);
            return e == 255 ? std::numeric_limits<double>::quiet_NaN() : std::ldexp(1, e - 127);
        }
        if (minifactors(storage)) {
            return static_cast<float>(small_float(FKV_STORAGE_FP8E4M3, byte_at(row, d)) * of_head(row));
        }
        float scale;
        std::memcpy(&scale, &words[word_at(row, d)], sizeof scale);
        return scale;
    }

    // step is the distance of neighbouring codes of integers.
    double step(uint32_t word) const {
        const uint32_t bits = storage & FKV_SIGNED ? word : word << 16;
        float f;
        std::memcpy(&f, &bits, sizeof f);
        return f;
    }

    // left_out is what CUDA's kernels multiply products with, in place of elements of 16 bits.
    double left_out(size_t row) { return by_head(storage) || minifactors(storage) ? of_head(row) : 1; }

    // blended is an element as CUDA's kernels make it for arithmetic in 16 bits: a float code without what is
    // left out, or a product and a sum that are rounded once, of a code behind 2^15.
    float blended(size_t row, uint32_t d) {
        const uint32_t word = words[word_at(row, d)];
        const unsigned c = code(row, d);
        if (small_floats(storage)) {
            const double factor = minifactors(storage) ? small_float(FKV_STORAGE_FP8E4M3, byte_at(row, d)) : 1;
            return exponents(storage) ? at(row, d) : static_cast<float>(factor * small_float(storage, c));
        }
        const double by = nibbles(storage) ? step(word) / 16 : step(word);
        const double zero = storage & FKV_SIGNED ? -128 : static_cast<int16_t>(word >> 16);
        const double counted = storage & FKV_SIGNED ? static_cast<signed char>(c) + 128 : nibbles(storage) ? 16 * c : c;
        const double least = static_cast<float>((zero - 32768) * by);
        return static_cast<float>((32768 + counted) * by + least);
    }

    // at is an element: an f32, to which the product is rounded where it is not exact.
    float at(size_t row, uint32_t d) {
        const uint32_t word = words[word_at(row, d)];
        const unsigned c = code(row, d);
        if (small_floats(storage)) {
            return static_cast<float>(factor(row, d) * small_float(storage, c));
        }
        if (storage & FKV_SIGNED) {
            return static_cast<float>(step(word) * static_cast<signed char>(c));
        }
        return static_cast<float>(step(word) * (c + static_cast<int16_t>(word >> 16) / (nibbles(storage) ? 16. : 1.)));
    }

    // draw gives a row codes of values up to 2 or so, and a word to what has none.
    void draw(size_t row, int = 0) {
        for (uint32_t d = 0; d < shape.dim; d++) {
            if (quarters(storage)) {
                if (d % scaled(storage, shape.dim) == 0) {
                    byte_at(row, d) = static_cast<unsigned char>(exponents(storage) ? 125 + below(3) : 40 + below(16));
                }
                set_code(row, d, unsigned(below(16)));
                continue;
            }
            if (small_floats(storage)) {
                const int bias = storage & FKV_E4M3 ? 7 : 15, fraction = storage & FKV_E4M3 ? 3 : 2;
                const int exponent = below(8) ? bias - int(below(5)) : 0;
                set_code(row, d, unsigned(below(2) << 7 | exponent << fraction | below(1 << fraction)));
                continue;
            }
            set_code(row, d, storage & FKV_SIGNED ? unsigned(below(255) - 127) : unsigned(below(256)));
            uint32_t &word = words[word_at(row, d)];
            if (word == 0xffffffff) {
                word = draw_word();
            }
        }
    }
    // enlarge makes the steps of a row that has its own 2^by of what they were.
    void enlarge(size_t row, uint32_t by) {
        for (uint32_t d = 0; exponents(storage) && d < shape.dim; d += scaled(storage, shape.dim)) {
            byte_at(row, d) = static_cast<unsigned char>(byte_at(row, d) + by);
        }
        for (size_t word = row * groups; !small_floats(storage) && word < (row + 1) * groups; word++) {
            words[word] += by << (storage & FKV_SIGNED ? 23 : 7);
        }
    }
    // shrink makes the steps of a row that has its own, and no small floats, 2^-13 of what they were.
    void shrink(size_t row) {
        for (size_t word = row * groups; !small_floats(storage) && word < (row + 1) * groups; word++) {
            words[word] -= 13u << (storage & FKV_SIGNED ? 23 : 7);
        }
    }
    const void *data() { return codes.data(); }
    const void *scales() { return words.data(); }

    const Shape shape;
    const uint32_t storage, groups; // groups of a row
    Memory<unsigned char> codes;
    const size_t before; // words of heads, where rows have some, too
    Memory<uint32_t> words;

  private:
    uint32_t draw_word() {
        const double top = nibbles(storage) ? 15 : 255;
        const auto step = float((1 + 0.1 * normal()) * (storage & FKV_SIGNED ? 2 / 127. : 4 / top));
        uint32_t word;
        std::memcpy(&word, &step, sizeof word);
        if (storage & FKV_SIGNED) {
            return word;
        }
        const double zero = -top / 2 * (nibbles(storage) ? 16 : 1) + 8 * normal();
        return uint32_t(uint16_t(int16_t(zero))) << 16 | word >> 16;
    }
};

} // namespace rig
