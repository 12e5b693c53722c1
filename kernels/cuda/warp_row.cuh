// A row that the lanes of a warp share: from activations or codes, turned, and back.
#pragma once

#include "plane.cuh"
#include "quant.cuh"
#include "rope.cuh"

namespace fkv {

constexpr int MOST_DIM = 32 * UNIT; // of a row, and of a deck of a long one

// Packed is a plane of a quantized type: codes and words; or, in place of codes, floats.
struct Packed {
    unsigned char *codes;
    uint32_t *scales;
    Storage type;
    uint32_t heads, block_size, dim;

    // unit is where the codes of a unit of a row lie.
    __device__ unsigned char *unit(int64_t row, int number) const {
        return codes + row * type.bytes(dim) + type.bytes(number * UNIT);
    }

    // words is those of rows, after what heads may have.
    __device__ uint32_t *words() const { return scales + type.before(heads); }

    // factor is the head's, by which the steps of groups are multiplied.
    __device__ float factor(uint32_t head) const { return type.minifactors() ? __uint_as_float(scales[head]) : 1; }
};

// width_of is the lanes that share a row of dim elements: half a warp, which then has two rows at once, or all.
__device__ inline uint32_t width_of(uint32_t dim) { return dim * 2 > MOST_DIM ? 32 : 16; }

// WarpRow is a row of at most DECKS*MOST_DIM elements, of which lane l has those of unit l of each deck, which is
// MOST_DIM elements; lanes behind the last have zeros. Short rows have half a warp each: the other row is of the same
// dim, and may not be there. All lanes of a warp call the same methods.
template <int DECKS> struct WarpRow {
    float x[DECKS][UNIT];
    int lane; // of the row
    uint32_t dim, width;
    bool there;

    __device__ explicit WarpRow(uint32_t row_dim, uint32_t width = 32, bool there = true)
        : lane(threadIdx.x % width), dim(row_dim), width(width), there(there) {}

    __device__ int unit(int deck) const { return deck * 32 + lane; }

    // mine tells whether the lane has elements of a deck.
    __device__ bool mine(int deck) const { return there && unit(deck) * UNIT < dim; }

    // load reads a row of T, of any alignment.
    template <class T> __device__ void load(const T *row) {
#pragma unroll
        for (int deck = 0; deck < DECKS; deck++) load_deck(deck, row + deck * MOST_DIM);
    }

    // load_deck reads the elements of a deck that the row has.
    template <class T> __device__ void load_deck(int deck, const T *from) {
        const T *at = from + lane * UNIT;
        Run<T, UNIT> run = {};
        if (mine(deck) && aligned(from)) {
            run = load_run<UNIT>(at);
        } else if (mine(deck)) {
#pragma unroll
            for (int i = 0; i < UNIT; i++) run.at[i] = at[i];
        }
#pragma unroll
        for (int i = 0; i < UNIT; i++) x[deck][i] = to_float(run.at[i]);
    }

    // store writes a row of T.
    template <class T> __device__ void store(T *row) const {
#pragma unroll
        for (int deck = 0; deck < DECKS; deck++) store_deck(deck, row + deck * MOST_DIM);
    }

    // store_deck writes the elements of a deck that the row has; all lanes have read them before, if they
    // are where they were loaded from.
    template <class T> __device__ void store_deck(int deck, T *to) const {
        __syncwarp();
        T *at = to + lane * UNIT;
        if (mine(deck) && aligned(to)) {
            fkv::store(at, x[deck]);
        } else if (mine(deck)) {
#pragma unroll
            for (int i = 0; i < UNIT; i++) at[i] = from_float<T>(x[deck][i]);
        }
    }

    // turn rotates the pairs of the last deck, whose elements the lanes exchange in room for it.
    __device__ void turn(const Turn &t, float *room) {
        float(&mine_of)[UNIT] = x[DECKS - 1];
        if (mine(DECKS - 1)) fkv::store(room + lane * UNIT, mine_of);
        __syncwarp();
#pragma unroll
        for (int i = 0; i < UNIT; i++) {
            const uint32_t at = lane * UNIT + i;
            if (there && at < 2 * t.pairs) {
                const bool high = t.interleaved ? at % 2 : at >= t.pairs;
                const uint32_t pair = t.interleaved ? at / 2 : high ? at - t.pairs : at;
                const float other = room[t.interleaved ? at ^ 1 : high ? pair : at + t.pairs];
                const float cos = t.angles[2 * pair], sin = t.angles[2 * pair + 1] * t.sign;
                mine_of[i] = __fmul_rn(high ? other * sin + mine_of[i] * cos : mine_of[i] * cos - other * sin, t.magnitude);
            }
        }
        __syncwarp(); // the room is free
    }

    // bound brings what is beyond a magnitude to it.
    __device__ void bound(float most) {
#pragma unroll
        for (int deck = 0; deck < DECKS; deck++) {
#pragma unroll
            for (int i = 0; i < UNIT; i++) x[deck][i] = bounded(x[deck][i], most);
        }
    }

    // hadamard multiplies with the orthonormal Walsh-Hadamard matrix, in blocks of the largest
    // power of two that divides the row, which is a deck at most. It is its own inverse.
    __device__ void hadamard() { transform(x[0]); }

    // unpack reads the row of a head at a place.
    __device__ void unpack(const Packed &p, const Place &place, uint32_t head) {
        const int64_t row = row_at(place, p.heads, head, p.block_size);
        if (p.type.plain()) return plain(p, row, [this](const auto *from) { load(from); });
        const uint32_t *words = p.words() + p.type.first(row, place.block * p.heads + head, head, dim);
#pragma unroll
        for (int deck = 0; deck < DECKS; deck++) {
#pragma unroll
            for (int i = 0; i < UNIT; i++) x[deck][i] = 0;
            if (!mine(deck)) continue;
            const Codes codes = load_codes(p.unit(row, unit(deck)), p.type.nibbles());
            if (p.type.channels()) {
                channel_values(x[deck], codes, words + unit(deck) * UNIT);
            } else {
                values(x[deck], p.type, codes, words[unit(deck) >> p.type.spread()], unit(deck), p.factor(head));
            }
        }
    }

    // pack writes the row of a head at a place, of a type whose rows have words of their own or the head's, or of
    // floats, for which all values are good. What is not finite makes its group read as NaN, for which the result is
    // false for all lanes of the warp, or is saturated.
    __device__ bool pack(const Packed &p, const Place &place, uint32_t head, bool saturate) {
        const int64_t row = row_at(place, p.heads, head, p.block_size);
        if (p.type.plain()) {
            plain(p, row, [this](auto *to) { store(to); });
            return true;
        }
        const uint32_t group = min(p.type.group(), width == 32 ? 5u : 4u), units = 1u << group;
        const bool whole = DECKS > 1 && p.type.group() > 5; // one group over all decks
        unsigned bad[DECKS], any = 0; // lanes with what is not finite
#pragma unroll
        for (int deck = 0; deck < DECKS; deck++) {
            float zero = 0;
#pragma unroll
            for (int i = 0; i < UNIT; i++) zero = fmaf(x[deck][i], 0, zero); // NaN of what is not finite
            bad[deck] = __ballot_sync(FULL, zero != 0);
            any |= bad[deck];
        }
        if (any != 0 && saturate) {
            saturate_all(p.type.heads(), units, whole);
            any = 0;
        }
        uint32_t *words[DECKS], word[DECKS];
#pragma unroll
        for (int deck = 0; deck < DECKS; deck++) {
            words[deck] = p.words() + p.type.first(row, 0, head, dim) + (unit(deck) >> p.type.spread());
        }
        const float factor = p.factor(head);
        if (p.type.heads()) {
#pragma unroll
            for (int deck = 0; deck < DECKS; deck++) word[deck] = *words[deck];
        } else {
            float low[DECKS], high[DECKS];
            reach(low, high, p.type.zeros(), units, whole);
            const unsigned mates = (FULL >> (32 - units)) << (threadIdx.x % 32 >> group << group);
#pragma unroll
            for (int deck = 0; deck < DECKS; deck++) {
                word[deck] = mine(deck) ? p.type.word(low[deck], high[deck], factor) : 0;
                if (any != 0 && ((whole ? any : bad[deck]) & mates) != 0) word[deck] = p.type.no_number();
                const bool quarters = p.type.quarters();
                const uint32_t all = quarters ? gathered(word[deck], group, mine(deck)) : word[deck];
                if (mine(deck) && lane % (quarters ? 4 * units : units) == 0 && !(whole && deck > 0)) *words[deck] = all;
            }
        }
#pragma unroll
        for (int deck = 0; deck < DECKS; deck++) {
            if (!mine(deck)) continue;
            if (any != 0 && p.type.heads()) { // the others' scale is NaN
#pragma unroll
                for (int i = 0; i < UNIT; i++) x[deck][i] = finite(x[deck][i]) ? x[deck][i] : NAN;
            }
            uint32_t codes[UNIT];
            p.type.codes(codes, x[deck], p.type.scale(word[deck], factor));
            store_codes(p.unit(row, unit(deck)), codes, p.type.nibbles());
        }
        return any == 0;
    }

  private:
    // saturate_all replaces what is not finite: infinities by the largest finite size of their groups, of units lanes
    // or of all decks, or by nothing where heads have the scales.
    __device__ void saturate_all(bool heads, uint32_t units, bool whole) {
        float size[DECKS];
#pragma unroll
        for (int deck = 0; deck < DECKS; deck++) {
            size[deck] = 0;
#pragma unroll
            for (int i = 0; i < UNIT; i++) {
                if (finite(x[deck][i])) size[deck] = fmaxf(size[deck], fabsf(x[deck][i]));
            }
        }
        if (whole) level(size);
#pragma unroll
        for (int deck = 0; deck < DECKS; deck++) {
            size[deck] = heads ? INFINITY : highest(size[deck], units);
#pragma unroll
            for (int i = 0; i < UNIT; i++) x[deck][i] = saturated(x[deck][i], size[deck]);
        }
    }

    // reach is the range of the values of a group, or, where there are no zero points, one around 0.
    __device__ void reach(float (&low)[DECKS], float (&high)[DECKS], bool zeros, uint32_t units, bool whole) const {
#pragma unroll
        for (int deck = 0; deck < DECKS; deck++) {
            low[deck] = high[deck] = zeros ? -INFINITY : 0; // low with its sign turned
#pragma unroll
            for (int i = 0; i < UNIT; i++) {
                if (!zeros) {
                    high[deck] = fmaxf(high[deck], fabsf(x[deck][i]));
                } else if (mine(deck)) {
                    low[deck] = fmaxf(low[deck], -x[deck][i]), high[deck] = fmaxf(high[deck], x[deck][i]);
                }
            }
        }
        if (whole) level(low), level(high);
#pragma unroll
        for (int deck = 0; deck < DECKS; deck++) {
            high[deck] = highest(high[deck], units);
            low[deck] = zeros ? -highest(low[deck], units) : -high[deck];
        }
    }

    // level gives all decks the largest of theirs.
    __device__ static void level(float (&x)[DECKS]) {
#pragma unroll
        for (int deck = 1; deck < DECKS; deck++) x[0] = fmaxf(x[0], x[deck]);
#pragma unroll
        for (int deck = 1; deck < DECKS; deck++) x[deck] = x[0];
    }

    __device__ void transform(float (&y)[UNIT]) const {
        const uint32_t size = dim & (0 - dim);
#pragma unroll
        for (int apart = 1; apart < UNIT; apart *= 2) {
#pragma unroll
            for (int i = 0; i < UNIT; i++) {
                if (i & apart) continue;
                const float a = y[i], b = y[i + apart];
                y[i] = a + b, y[i + apart] = a - b;
            }
        }
        for (uint32_t apart = 1; apart * UNIT < size; apart *= 2) {
            const bool high = lane & apart;
#pragma unroll
            for (int i = 0; i < UNIT; i++) {
                const float other = __shfl_xor_sync(FULL, y[i], apart);
                y[i] = high ? other - y[i] : y[i] + other;
            }
        }
        // 1/sqrt(size), from the nearest f32 to 1 or 1/sqrt(2) by halves
        float shrink = size & 0xaaaaaaaa ? 0.70710678118654752f : 1;
        for (uint32_t rest = size; rest > 3; rest /= 4) shrink *= 0.5f;
#pragma unroll
        for (int i = 0; i < UNIT; i++) y[i] = __fmul_rn(y[i], shrink);
    }

    // plain gives f a row of floats.
    template <class F> __device__ static void plain(const Packed &p, int64_t row, F f) {
        if (p.type.type & FKV_F32) {
            f(reinterpret_cast<float *>(p.codes) + row * p.dim);
        } else if (p.type.type & FKV_F16) {
            f(reinterpret_cast<half *>(p.codes) + row * p.dim);
        } else {
            f(reinterpret_cast<bfloat *>(p.codes) + row * p.dim);
        }
    }

    // highest is the largest of a group's units lanes.
    __device__ static float highest(float x, uint32_t units) {
        for (uint32_t apart = 1; apart < units; apart *= 2) x = fmaxf(x, __shfl_xor_sync(FULL, x, apart));
        return x;
    }

    // gathered is the word of the bytes of four groups, each of which all lanes of its group
    // have; groups behind the row's last one have 0.
    __device__ uint32_t gathered(uint32_t byte, uint32_t group, bool there) const {
        uint32_t word = there ? byte << 8 * (lane >> group & 3) : 0;
        word |= __shfl_xor_sync(FULL, word, 1u << group);
        return word | __shfl_xor_sync(FULL, word, 2u << group);
    }
};

// LONG is the decks of the rows of a latent cache, whose last deck is what rotates.
constexpr int LONG = 3;

} // namespace fkv
