// A row that the lanes of a warp share: from activations or codes, turned, and back.
#pragma once

#include "plane.cuh"
#include "quant.cuh"
#include "rope.cuh"

namespace fkv {

constexpr int MOST_DIM = 32 * UNIT; // of a row

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

// WarpRow is a row of at most MOST_DIM elements, of which lane l has those of unit l; lanes
// behind the last have zeros. All lanes of a warp call the same methods.
struct WarpRow {
    float x[UNIT];
    int lane;
    uint32_t dim;

    __device__ explicit WarpRow(uint32_t row_dim) : lane(threadIdx.x % 32), dim(row_dim) {}

    // mine tells whether the lane has elements.
    __device__ bool mine() const { return lane * UNIT < dim; }

    // load reads a row of T, of any alignment.
    template <class T> __device__ void load(const T *row) {
        const T *unit = row + lane * UNIT;
        Run<T, UNIT> run = {};
        if (mine() && aligned(row)) {
            run = load_run<UNIT>(unit);
        } else if (mine()) {
#pragma unroll
            for (int i = 0; i < UNIT; i++) run.at[i] = unit[i];
        }
#pragma unroll
        for (int i = 0; i < UNIT; i++) x[i] = to_float(run.at[i]);
    }

    // store writes a row of T, which all lanes have read before if it is the one that was loaded.
    template <class T> __device__ void store(T *row) const {
        __syncwarp();
        T *unit = row + lane * UNIT;
        if (mine() && aligned(row)) {
            fkv::store(unit, x);
        } else if (mine()) {
#pragma unroll
            for (int i = 0; i < UNIT; i++) unit[i] = from_float<T>(x[i]);
        }
    }

    // turn rotates the row's pairs, whose elements the lanes exchange in room for it.
    __device__ void turn(const Turn &t, float *room) {
        if (mine()) fkv::store(room + lane * UNIT, x);
        __syncwarp();
#pragma unroll
        for (int i = 0; i < UNIT; i++) {
            const uint32_t at = lane * UNIT + i;
            if (at < 2 * t.pairs) {
                const bool high = t.interleaved ? at % 2 : at >= t.pairs;
                const uint32_t pair = t.interleaved ? at / 2 : high ? at - t.pairs : at;
                const float other = room[t.interleaved ? at ^ 1 : high ? pair : at + t.pairs];
                const float cos = t.angles[2 * pair], sin = t.angles[2 * pair + 1] * t.sign;
                x[i] = __fmul_rn(high ? other * sin + x[i] * cos : x[i] * cos - other * sin, t.magnitude);
            }
        }
        __syncwarp(); // the room is free
    }

    // hadamard multiplies with the orthonormal Walsh-Hadamard matrix, in blocks of the largest
    // power of two that divides the row. It is its own inverse.
    __device__ void hadamard() {
        const uint32_t size = dim & (0 - dim);
#pragma unroll
        for (int apart = 1; apart < UNIT; apart *= 2) {
#pragma unroll
            for (int i = 0; i < UNIT; i++) {
                if (i & apart) continue;
                const float a = x[i], b = x[i + apart];
                x[i] = a + b, x[i + apart] = a - b;
            }
        }
        for (uint32_t apart = 1; apart * UNIT < size; apart *= 2) {
            const bool high = lane & apart;
#pragma unroll
            for (int i = 0; i < UNIT; i++) {
                const float other = __shfl_xor_sync(FULL, x[i], apart);
                x[i] = high ? other - x[i] : x[i] + other;
            }
        }
        // 1/sqrt(size), from the nearest f32 to 1 or 1/sqrt(2) by halves
        float shrink = size & 0xaaaaaaaa ? 0.70710678118654752f : 1;
        for (uint32_t rest = size; rest > 3; rest /= 4) shrink *= 0.5f;
#pragma unroll
        for (int i = 0; i < UNIT; i++) x[i] = __fmul_rn(x[i], shrink);
    }

    // unpack reads the row of a head at a place.
    __device__ void unpack(const Packed &p, const Place &place, uint32_t head) {
        const int64_t row = row_at(place, p.heads, head, p.block_size);
        if (p.type.plain()) return plain(p, row, [this](const auto *from) { load(from); });
#pragma unroll
        for (int i = 0; i < UNIT; i++) x[i] = 0;
        if (!mine()) return;
        const Codes codes = load_codes(p.unit(row, lane), p.type.nibbles());
        const uint32_t *words = p.words() + p.type.first(row, place.block * p.heads + head, head, dim);
        if (p.type.channels()) {
            channel_values(x, codes, words + lane * UNIT);
        } else {
            values(x, p.type, codes, words[lane >> p.type.spread()], lane, p.factor(head));
        }
    }

    // pack writes the row of a head at a place, of a type whose rows have words of their own
    // or the head's, or of floats, for which all values are good. What is not finite makes its group read as NaN, for which the result is
    // false, or is saturated.
    __device__ bool pack(const Packed &p, const Place &place, uint32_t head, bool saturate) {
        const int64_t row = row_at(place, p.heads, head, p.block_size);
        if (p.type.plain()) {
            plain(p, row, [this](auto *to) { store(to); });
            return true;
        }
        const uint32_t group = p.type.group(), units = 1u << group, first = lane >> group << group;
        float size = 0;
        bool good = true;
#pragma unroll
        for (int i = 0; i < UNIT; i++) {
            good = good && finite(x[i]);
            if (finite(x[i])) size = fmaxf(size, fabsf(x[i]));
        }
        unsigned bad = __ballot_sync(FULL, !good);
        if (bad != 0 && saturate) {
            bad = 0;
            size = p.type.heads() ? INFINITY : highest(size, units);
#pragma unroll
            for (int i = 0; i < UNIT; i++) x[i] = saturated(x[i], size);
        }
        uint32_t *words = p.words() + p.type.first(row, 0, head, dim) + (lane >> p.type.spread());
        const float factor = p.factor(head);
        uint32_t word;
        if (p.type.heads()) {
            word = *words;
        } else {
            float low = INFINITY, high = -INFINITY;
#pragma unroll
            for (int i = 0; mine() && i < UNIT; i++) low = fminf(low, x[i]), high = fmaxf(high, x[i]);
            word = p.type.word(-highest(-low, units), highest(high, units), factor);
            if ((bad & (FULL >> (32 - units)) << first) != 0) word = p.type.no_number();
            const bool quarters = p.type.quarters();
            const uint32_t all = quarters ? gathered(word, group) : word;
            if (mine() && (quarters ? lane % (4 * units) == 0 : lane == first)) *words = all;
        }
        const Scale scale = p.type.scale(word, factor);
        uint32_t codes[UNIT];
#pragma unroll
        for (int i = 0; i < UNIT; i++) {
            const bool lost = p.type.heads() && !saturate && !finite(x[i]); // the others' scale is NaN
            codes[i] = p.type.code(lost ? NAN : x[i], scale);
        }
        if (mine()) store_codes(p.unit(row, lane), codes, p.type.nibbles());
        return bad == 0;
    }

  private:
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
    __device__ uint32_t gathered(uint32_t byte, uint32_t group) const {
        uint32_t word = mine() ? byte << 8 * (lane >> group & 3) : 0;
        word |= __shfl_xor_sync(FULL, word, 1u << group);
        return word | __shfl_xor_sync(FULL, word, 2u << group);
    }
};

} // namespace fkv
