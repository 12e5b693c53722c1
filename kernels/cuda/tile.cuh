// Tiles of a plane's rows on their way through shared memory: as they are stored, and as they
// are used.
#pragma once

#include <type_traits>

#include "attend.cuh"
#include "ptx.cuh"
#include "quant.cuh"

namespace fkv {

// Used is the type that elements of storage type S have in arithmetic with T.
template <class T, class S> using Used = std::conditional_t<std::is_same_v<S, quant>, T, S>;

// Stretch is which keys a tile has: KEYS of the span from number first on.
struct Stretch {
    const Pages &pages;
    const Span &span;
    int first;

    __device__ bool has(int key) const { return first + key < span.count; }

    // row and panel are where a key's row lies; those of a key that is not there are not used.
    __device__ int64_t row(int key) const { return has(key) ? pages.row(span.at(first + key)) : 0; }
    __device__ int64_t panel(int key) const { return pages.panel(span.at(first + key)); }
};

// together waits for all of a ring's threads, which are a warp or the block.
template <int THREADS> __device__ inline void together() {
    if (THREADS == 32) {
        __syncwarp();
    } else {
        __syncthreads();
    }
}

// Plain is a plane of elements that are used as they are stored. Its loops, and those of
// Coded, are not unrolled: copies run by themselves, and the arithmetic of their addresses,
// unrolled, made up a third of a kernel.
template <class S, int DIM, int KEYS, int PAD> struct Plain {
    static constexpr int STRIDE = DIM + PAD;
    static constexpr int BYTES = KEYS * STRIDE * int(sizeof(S)), DECODED = 0;

    const S *elements;

    __device__ Plain(const void *plane, const uint32_t *, uint32_t, uint32_t) : elements(static_cast<const S *>(plane)) {}

    // load begins to copy a tile to a slot of BYTES; what is no key reads as 0.
    template <int THREADS> __device__ void load(unsigned char *slot, const Stretch &keys, int lane) const {
        constexpr int N = Vec<S>::N, VECTORS = DIM / N;
#pragma unroll 1
        for (int i = lane; i < KEYS * VECTORS; i += THREADS) {
            int key = i / VECTORS, at = i % VECTORS * N;
            copy_async<16>(reinterpret_cast<S *>(slot) + key * STRIDE + at, elements + keys.row(key) * DIM + at, keys.has(key));
        }
    }

    // open is the rows [KEYS, STRIDE] of a slot that is there.
    template <int THREADS> __device__ const S *open(unsigned char *slot, S *, const Stretch &, int) const {
        return reinterpret_cast<const S *>(slot);
    }
};

// Coded is a plane of a quantized type: codes, and behind them the words of rows that have
// their own, are copied as they are, and become elements of T in DECODED bytes beside the
// slots. Words of channels are read where they are needed.
template <class T, int DIM, int KEYS, int PAD> struct Coded {
    static constexpr int STRIDE = DIM + PAD;
    static constexpr int BYTES = (KEYS * (DIM + 4) + 15) / 16 * 16, DECODED = KEYS * STRIDE * int(sizeof(T));
    static_assert(DIM / 2 + (DIM + 31) / 32 * 4 <= DIM + 4, "codes of a byte and one word take the most");

    // A piece is what a copy takes: 16 bytes, but of 4-bit codes 8 where a row is no multiple of 16.
    static constexpr bool HALVES = DIM % 32 != 0;
    static constexpr int PIECES = DIM / 16;

    const unsigned char *codes;
    const uint32_t *words;
    Storage type;
    uint32_t head_word;

    __device__ Coded(const void *plane, const uint32_t *scales, uint32_t storage, uint32_t head)
        : codes(static_cast<const unsigned char *>(plane)), words(scales), type{storage},
          head_word(type.floats() ? scales[head] : 0) {}

    template <int THREADS> __device__ void load(unsigned char *slot, const Stretch &keys, int lane) const {
        const int bytes = type.bytes(DIM), piece = HALVES && type.nibbles() ? 8 : 16, own = type.words(DIM);
        uint32_t *to_words = reinterpret_cast<uint32_t *>(slot + KEYS * bytes);
#pragma unroll 1
        for (int i = lane; i < KEYS * PIECES; i += THREADS) {
            int key = i / PIECES, n = i % PIECES;
            const int64_t row = keys.row(key);
            const bool valid = keys.has(key);
            if (n * piece < bytes) {
                unsigned char *to = slot + key * bytes + n * piece;
                const unsigned char *from = codes + row * bytes + n * piece;
                if (HALVES && piece == 8) {
                    copy_async<8>(to, from, valid);
                } else {
                    copy_async<16>(to, from, valid);
                }
            }
            if (n < own) copy_async<4>(to_words + key * own + n, words + row * own + n, valid);
        }
    }

    template <int THREADS>
    __device__ const T *open(unsigned char *slot, T *decoded, const Stretch &keys, int lane) const {
        constexpr int UNITS = DIM / UNIT;
        const int bytes = type.bytes(DIM), own = type.words(DIM), spread = type.spread();
        const uint32_t *own_words = reinterpret_cast<const uint32_t *>(slot + KEYS * bytes);
#pragma unroll 1
        for (int i = lane; i < KEYS * UNITS; i += THREADS) {
            int key = i / UNITS, unit = i % UNITS;
            const Codes mine = load_codes(slot + key * bytes + type.bytes(unit * UNIT), type.nibbles());
            float x[UNIT] = {};
            if (!type.channels()) {
                values(x, type, mine, type.floats() ? head_word : own_words[key * own + (unit >> spread)]);
            } else if (keys.has(key)) {
                channel_values(x, mine, words + keys.panel(key) * DIM + unit * UNIT);
            }
            store(decoded + key * STRIDE + unit * UNIT, x);
        }
        together<THREADS>();
        return decoded;
    }
};

// Tile is the tile of a plane of storage type S for arithmetic with T.
template <class T, class S, int DIM, int KEYS, int PAD>
using Tile = std::conditional_t<std::is_same_v<S, quant>, Coded<T, DIM, KEYS, PAD>, Plain<S, DIM, KEYS, PAD>>;

} // namespace fkv
