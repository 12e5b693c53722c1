// Tiles of quantized planes: as they are stored, and as they are used.
#pragma once

#include "stretch.cuh"
#include "unpack.cuh"

namespace fkv {

// left_out is what a plane's values are worth more than the elements of its tiles: the scale that a head has,
// which elements of 16 bits go without. Products are multiplied with it instead.
template <class T, class S> __device__ inline float left_out(const uint32_t *scales, uint32_t storage, uint32_t head) {
    if constexpr (std::is_same_v<S, quant> && sizeof(T) == 2) {
        if (Storage{storage}.heads() || Storage{storage}.minifactors()) return __uint_as_float(scales[head]);
    }
    return 1;
}

// Coded is a plane of a quantized type: codes, and behind them the words of rows that have
// their own, or of the channels of each leaf, are copied as they are, and become elements of
// T in DECODED bytes beside the slots.
template <class T, int DIM, int KEYS, bool MIXED> struct Coded {
    using Place = Rows<DIM, MIXED>;
    static constexpr int BYTES = whole_lines(KEYS * (DIM + 4)), DECODED = KEYS * DIM * int(sizeof(T));
    static constexpr int UNITS = DIM / UNIT, OWN = (DIM + 31) / 32; // the most words of a row
    static_assert(DIM / 2 + OWN * 4 <= DIM + 4, "codes of a byte and one word take the most");
    static constexpr bool WHOLE = KEYS % LEAF == 0 && DIM <= 128; // the words of channels fit behind the codes, and in registers

    // A piece is what a copy takes: 16 bytes, but of 4-bit codes 8 where a row is no multiple of 16.
    static constexpr bool HALVES = DIM % 32 != 0;
    static constexpr int PIECES = DIM / 16;

    const unsigned char *codes;
    const uint32_t *words, *heads; // of rows, and of heads
    Storage stored;
    uint32_t head; // may have a word

    __device__ Coded(const void *plane, const uint32_t *scales, uint32_t storage, uint32_t kv_head, uint32_t kv_heads)
        : codes(static_cast<const unsigned char *>(plane)), words(scales + Storage{storage}.before(kv_heads)), heads(scales),
          stored{storage}, head(kv_head) {}

    template <int THREADS> __device__ void load(unsigned char *slot, const Stretch &keys, int64_t row, int lane) const {
        using Mine = Share<THREADS, KEYS>;
        constexpr int EACH = Mine::EACH, SIZE = Mine::SIZE;
        const int bytes = stored.bytes(DIM), own = stored.words(DIM), first = Mine::first(lane), at = lane % SIZE;
        uint32_t *to_words = reinterpret_cast<uint32_t *>(slot + KEYS * bytes);
        if (row != Stretch::APART && (row * bytes | EACH * bytes) % 16 == 0) {
            copy_all<16, SIZE, EACH * DIM>(slot + first * bytes, codes + row * bytes, EACH * bytes, at);
            if (stored.channels()) {
                if (WHOLE) copy_all<4, SIZE, DIM * 4>(to_words + first / EACH * DIM, words + keys.panel(first) * DIM, DIM * 4, at);
            } else {
                copy_all<4, SIZE, EACH * OWN * 4>(to_words + first * own, words + row * own, EACH * own * 4, at);
            }
        } else {
            one_by_one<SIZE, EACH>(slot, keys, first, at);
        }
    }

    template <int THREADS>
    __device__ const T *open(unsigned char *slot, T *decoded, const Stretch &keys, int lane) const {
        const Storage type{unknown(stored.type)};
        const int own = type.words(DIM), spread = type.spread();
        const uint32_t *own_words = reinterpret_cast<const uint32_t *>(slot + KEYS * type.bytes(DIM));
        if (type.channels()) {
            open_channels<THREADS>(slot, decoded, own_words, keys, lane);
        } else if (type.exponents()) {
            const unsigned char *exponents = reinterpret_cast<const unsigned char *>(own_words);
            const uint32_t group = type.group();
            each<THREADS>(lane, [&](int key, int unit) {
                const uint32_t mine = *reinterpret_cast<const uint32_t *>(slot + (key * UNITS + unit) * (UNIT / 2));
                unpack_float4(decoded + Place::template at<UNIT>(key, unit), mine, exponents[key * own * 4 + (unit >> group)]);
            });
        } else if (type.minifactors()) {
            const unsigned char *factors = reinterpret_cast<const unsigned char *>(own_words);
            const uint32_t group = type.group();
            const float factor = sizeof(T) == 4 ? __uint_as_float(heads[head]) : 1; // else see left_out
            each<THREADS>(lane, [&](int key, int unit) {
                const uint32_t mine = *reinterpret_cast<const uint32_t *>(slot + (key * UNITS + unit) * (UNIT / 2));
                unpack_steps(decoded + Place::template at<UNIT>(key, unit), mine, factors[key * own * 4 + (unit >> group)], factor);
            });
        } else if (type.nibbles()) {
            each<THREADS>(lane, [&](int key, int unit) {
                const uint32_t mine = *reinterpret_cast<const uint32_t *>(slot + (key * UNITS + unit) * (UNIT / 2));
                unpack4(decoded + Place::template at<UNIT>(key, unit), mine, own_words[key * own + (unit >> spread)]);
            });
        } else if (type.floats()) {
            const float scale = sizeof(T) == 4 ? __uint_as_float(heads[head]) : 1;
            asked<FKV_E4M3>(type, [&](Storage known) {
                each<THREADS>(lane, [&](int key, int unit) {
                    const Codes mine = load_codes(slot + (key * UNITS + unit) * UNIT, false);
                    unpack_floats(decoded + Place::template at<UNIT>(key, unit), known, mine, scale);
                });
            });
        } else {
            asked<FKV_SIGNED>(type, [&](Storage known) {
                each<THREADS>(lane, [&](int key, int unit) {
                    const Codes mine = load_codes(slot + (key * UNITS + unit) * UNIT, false);
                    unpack8(decoded + Place::template at<UNIT>(key, unit), known, mine, own_words[key]);
                });
            });
        }
        together<THREADS>();
        return decoded;
    }

  private:
    // asked calls f with what is known of the type once a bit was asked for: a loop in it asks no more.
    template <uint32_t BIT, class F> __device__ static void asked(const Storage &type, F f) {
        if (type.type & BIT) {
            f(Storage{BIT});
        } else {
            f(Storage{0});
        }
    }

    // each calls what to do with each unit of a tile. Where threads fall on the same unit of
    // every row, that is a constant of theirs.
    template <int THREADS, class Do> __device__ static void each(int lane, Do what) {
        if constexpr (THREADS % UNITS == 0) {
#pragma unroll 2
            for (int key = lane / UNITS; key < KEYS; key += THREADS / UNITS) what(key, lane % UNITS);
        } else {
#pragma unroll 2
            for (int i = lane; i < KEYS * UNITS; i += THREADS) what(i / UNITS, i % UNITS);
        }
    }

    // open_channels is open where channels have words: those of a leaf that moved as one are
    // beside the codes, and those of a thread's unit are the same for all of its keys.
    template <int THREADS>
    __device__ void open_channels(const unsigned char *slot, T *decoded, const uint32_t *leaf_words, const Stretch &keys,
                                  int lane) const {
        constexpr int bytes = DIM / 2;
        if constexpr (WHOLE && THREADS % UNITS == 0 && sizeof(T) == 2 && LEAF % (THREADS / UNITS) == 0) {
            const int unit = lane % UNITS;
#pragma unroll 1
            for (int first = 0; first < KEYS; first += LEAF) {
                const int64_t row = keys.run(first, LEAF);
                if (row == Stretch::APART || (row * bytes | LEAF * bytes) % 16 != 0) {
                    channels_one_by_one<THREADS>(slot, decoded, keys, first, LEAF, lane);
                    continue;
                }
                const uint32_t *mine = leaf_words + first / LEAF * DIM + unit * UNIT;
                float step[UNIT], least[UNIT];
#pragma unroll
                for (int i = 0; i < UNIT; i++) {
                    const Blend blend(Storage{FKV_STORAGE_INT4CHANNEL}, mine[i]);
                    step[i] = blend.step, least[i] = blend.least;
                }
#pragma unroll 2
                for (int key = first + lane / UNITS; key < first + LEAF; key += THREADS / UNITS) {
                    const Nibbles nibbles(*reinterpret_cast<const uint32_t *>(slot + key * bytes + unit * (UNIT / 2)));
                    float x[UNIT];
#pragma unroll
                    for (int i = 0; i < UNIT; i++) {
                        x[i] = fmaf(__uint_as_float(__byte_perm(Blend::ONE, nibbles.bytes(i), 0x3240 + (i / 2 << 4))), step[i], least[i]);
                    }
                    store(decoded + Place::template at<UNIT>(key, unit), x);
                }
            }
        } else {
            channels_one_by_one<THREADS>(slot, decoded, keys, 0, KEYS, lane);
        }
    }

    template <int THREADS>
    __device__ void channels_one_by_one(const unsigned char *slot, T *decoded, const Stretch &keys, int first, int count,
                                        int lane) const {
#pragma unroll 1
        for (int i = lane; i < count * UNITS; i += THREADS) {
            const int key = first + i / UNITS, unit = i % UNITS;
            float x[UNIT] = {};
            if (keys.has(key)) {
                channel_values(x, load_codes(slot + (key * UNITS + unit) * (UNIT / 2), true),
                               words + keys.panel(key) * DIM + unit * UNIT);
            }
            store(decoded + Place::template at<UNIT>(key, unit), x);
        }
    }

    // copy_all begins to copy bytes, of which there are MOST at most, N at a time.
    template <int N, int THREADS, int MOST> __device__ static void copy_all(void *to, const void *from, int bytes, int lane) {
        const SharedAt mine = shared_at(static_cast<unsigned char *>(to) + lane * N);
        const unsigned char *of = global_at(static_cast<const unsigned char *>(from) + lane * N);
        const int left = bytes - lane * N;
#pragma unroll
        for (int i = 0; i < MOST; i += THREADS * N) {
            if (i < left) copy_async<N>(mine + i, of + i, true);
        }
    }

    // one_by_one finds the row of each key of a leaf.
    template <int THREADS, int EACH> __device__ void one_by_one(unsigned char *slot, const Stretch &keys, int first, int lane) const {
        const int bytes = stored.bytes(DIM), piece = HALVES && stored.nibbles() ? 8 : 16, own = stored.words(DIM);
        uint32_t *to_words = reinterpret_cast<uint32_t *>(slot + KEYS * bytes);
#pragma unroll 1
        for (int i = lane; i < EACH * PIECES; i += THREADS) {
            const int key = first + i / PIECES, n = i % PIECES;
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
};

} // namespace fkv
