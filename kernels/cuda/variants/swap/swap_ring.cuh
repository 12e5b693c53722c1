// The stream of codes through shared memory, in pieces that change places.
#pragma once

#include "swap_codes.cuh"

namespace fkv {

// Pieces is Ring for a warp and codes of Keys and Values: half a tile of 32 keys is a step, and of three slots one is in
// use while two are under way. Rows that are no key of the span, or that nobody sees, are zeros.
template <class Keys, class Values> struct Pieces {
    static constexpr int SLOTS = 3, SLOT = whole_lines(SWAP_KEYS * (SWAP_DIM + 4)), BYTES = SLOTS * SLOT;
    static constexpr int SHARE = SWAP_KEYS / LEAF, SIZE = 32 / SHARE; // lanes of a leaf
    static constexpr uint32_t APART = uint32_t(Stretch::APART);
    static_assert(SHARE == 2 && LEAF == 16, "two leaves, and halves of a warp");

    unsigned char *memory;
    const Operands &at;
    const fkv_attend_args &args;
    const Pages &pages;
    const Span &span;
    int lane, tile, stride, slot = 0;
    uint32_t row = APART; // where this lane's leaf of the keys that were begun last lies: rows of 64 bytes and more are fewer than 2^32
    uint32_t block = 0;           // of its leaf of those after them, looked up a tile ahead: that takes long

    __device__ Pieces(unsigned char *shared, const Operands &operands, const fkv_attend_args &arguments, const Pages &p, const Span &s,
                      int thread, int first, int step)
        : memory(shared), at(operands), args(arguments), pages(p), span(s), lane(thread), tile(first), stride(step) {
        look(tile + stride);
    }

    // keys and values are a tile's, good until the next step; values are its end. The first tile is one before those that are
    // there, and begins the copy of the first of them: so the code of copies is there once.
    __device__ const unsigned char *keys() { return arrived<0>(); }
    __device__ const unsigned char *values() {
        const unsigned char *here = arrived<1>();
        tile += stride;
        return here;
    }

  private:
    template <int PLANE> __device__ const unsigned char *arrived() {
        copy_wait<SLOTS - 2>();
        __syncwarp();
        load<PLANE>(slot == 0 ? SLOTS - 1 : slot - 1, tile + stride);
        const unsigned char *here = memory + slot * SLOT;
        slot = slot == SLOTS - 1 ? 0 : slot + 1;
        return here;
    }

    __device__ Stretch stretch(int of) const { return {pages, span, of * SWAP_KEYS}; }
    __device__ int leaf() const { return lane / SIZE * LEAF; }

    __device__ void look(int of) {
        const Stretch keys = stretch(of);
        if (keys.any()) block = keys.block(leaf());
    }

    // load begins to copy a plane of a tile; one after the last is an empty group. Values are begun next after their keys, and lie
    // in the same row.
    template <int PLANE> __device__ void load(int to, int of) {
        const Stretch keys = stretch(of);
        if (keys.any()) {
            if (PLANE == 0) {
                row = uint32_t(keys.run(leaf(), LEAF, block));
                look(of + stride);
                copy<Keys>(memory + to * SLOT, at.k, at.k_scales, args.k_storage, keys);
            } else {
                copy<Values>(memory + to * SLOT, at.v, at.v_scales, args.v_storage, keys);
            }
        }
        copy_commit();
    }

    template <class Plane> __device__ void copy(unsigned char *to, const void *plane, const uint32_t *scales, uint32_t storage, const Stretch &keys) const {
        constexpr int STEPS = LEAF * Plane::ROW / (SIZE * 16); // of two lines each
        const int own = Plane::words_of(storage), line = lane % SIZE / 8, piece = lane % 8;
        const unsigned char *codes = static_cast<const unsigned char *>(plane);
        unsigned char *to_codes = to + leaf() * Plane::ROW;
        uint32_t *to_words = reinterpret_cast<uint32_t *>(to + SWAP_KEYS * Plane::ROW) + leaf() * own;
        if (row != APART) {
            const int64_t from_row = row;
            const SharedAt mine = shared_at(to_codes + line * 128);
            const unsigned char *from = global_at(codes + from_row * Plane::ROW + lane % SIZE * 16);
#pragma unroll
            for (int i = 0; i < STEPS; i++) copy_async<16>(mine + (i * 256 + (piece ^ Plane::turn(i * 2 + line)) * 16), from + i * 256, true);
#pragma unroll
            for (int i = lane % SIZE; i < LEAF * (Plane::ROW < SWAP_DIM ? 4 : 1); i += SIZE) {
                if (i < LEAF * own) copy_async<4>(to_words + i, scales + from_row * own + i, true);
            }
            return;
        }
#pragma unroll 1
        for (int i = lane % SIZE; i < LEAF * Plane::ROW / 16; i += SIZE) { // each row where it lies
            const int key = i / (Plane::ROW / 16), n = i % (Plane::ROW / 16), number = keys.first + leaf() + key;
            const bool valid = keys.has(leaf() + key);
            const int64_t from = valid ? pages.row(span.at(number)) : 0;
            copy_async<16>(to_codes + i / 8 * 128 + (i % 8 ^ Plane::turn(i / 8)) * 16, codes + from * Plane::ROW + n * 16, valid);
            if (n < own) copy_async<4>(to_words + key * own + n, scales + from * own + n, valid);
        }
    }
};

} // namespace fkv
