// Rows that become quantized, or stop being it, in registers: a lane holds an octet of a row,
// and a simdgroup as many rows as there are lanes for. Of a row of a latent cache, which is longer, a simdgroup
// has one, and a lane an octet of each deck.
#pragma once

#include "codes.h"
#include "plane.h"
#include "rope.h"

namespace fkv {

constant constexpr uint MOST_DIM = LANES * OCTET; // of a row, and of a deck of a long one

// DECKS is how many a row has. The last deck of a long one is what rotates.
#if FKV_LONG_ROWS
constant constexpr int DECKS = 3;
#else
constant constexpr int DECKS = 1;
#endif

// Seat is a lane's place in the rows of a simdgroup. Lanes of a row are a power of two; those
// behind its end take part in all that lanes do together.
struct Seat {
    uint lanes;     // of a row
    uint rows, row; // how many there are, and which one is the lane's
    uint octets;    // of a row
    uint octet;     // the one of the row that the lane holds
    bool taken;     // there is such a one

    Seat(uint dim, uint lane)
        : lanes(dim > 128 ? 32 : dim > 64 ? 16 : 8), rows(LANES / lanes), row(lane / lanes), octets(dim / OCTET),
          octet(lane % lanes), taken(octet < octets) {}

    // in_deck is the lane's place in a deck of its row.
    Seat in_deck(uint deck) const {
        Seat other = *this;
        other.octet = octet + deck * LANES;
        other.taken = other.octet < octets;
        return other;
    }
};

// load_octet and store_octet move an octet's elements, 16 bytes at a time where from and to
// are aligned to that.
template <class T> inline void load_octet(thread float (&x)[OCTET], const device T *from, bool aligned) {
    if (aligned) {
        const Run<T, OCTET> run = load_run<OCTET>(from);
#pragma unroll
        for (uint i = 0; i < OCTET; i++) x[i] = to_float(run.at[i]);
        return;
    }
#pragma unroll
    for (uint i = 0; i < OCTET; i++) x[i] = to_float(from[i]);
}

template <class T> inline void store_octet(device T *to, const thread float (&x)[OCTET], bool aligned) {
    Run<T, OCTET> run;
#pragma unroll
    for (uint i = 0; i < OCTET; i++) run.at[i] = from_float<T>(x[i]);
    if (aligned) {
        store_run<OCTET>(to, run);
        return;
    }
#pragma unroll
    for (uint i = 0; i < OCTET; i++) to[i] = run.at[i];
}

// turn_octet rotates rows. The other element of a pair may be any lane's, so the rows pass
// through memory of the simdgroup, MOST_DIM elements.
inline void turn_octet(thread float (&x)[OCTET], Seat seat, Turn t, threadgroup float *memory) {
    if (t.pairs == 0) return;
    threadgroup float *row = memory + seat.row * seat.lanes * OCTET;
    simdgroup_barrier(mem_flags::mem_threadgroup); // the rows before have been read
#pragma unroll
    for (uint i = 0; i < OCTET; i++) row[seat.octet * OCTET + i] = x[i];
    simdgroup_barrier(mem_flags::mem_threadgroup);
#pragma unroll
    for (uint i = 0; i < OCTET; i++) {
        const uint dim = seat.octet * OCTET + i;
        if (dim >= 2 * t.pairs) continue;
        const bool low = t.interleaved ? dim % 2 == 0 : dim < t.pairs;
        const uint pair = t.interleaved ? dim / 2 : low ? dim : dim - t.pairs;
        const float other = row[t.interleaved ? dim ^ 1 : low ? dim + t.pairs : pair];
        const float cos = t.angles[2 * pair], sin = t.angles[2 * pair + 1] * t.sign;
        x[i] = (low ? x[i] * cos - other * sin : other * sin + x[i] * cos) * t.magnitude;
    }
}

// bound brings what is beyond a magnitude to it.
inline void bound(thread float (&x)[OCTET], float most) {
#pragma unroll
    for (uint i = 0; i < OCTET; i++) x[i] = bounded(x[i], most);
}

// hadamard multiplies rows with the orthonormal Walsh-Hadamard matrix, in blocks of the largest
// power of two that divides dim (backend.Plane). Blocks of more than an octet go on
// between lanes; all lanes call it.
inline void hadamard(thread float (&x)[OCTET], uint dim, uint lane) {
    const uint size = 1u << ctz(dim);
#pragma unroll
    for (uint apart = 1; apart < OCTET; apart *= 2) {
#pragma unroll
        for (uint i = 0; i < OCTET; i++) {
            if (i & apart) continue;
            const float a = x[i], b = x[i + apart];
            x[i] = a + b, x[i + apart] = a - b;
        }
    }
    for (uint apart = 1; apart < size / OCTET; apart *= 2) {
#pragma unroll
        for (uint i = 0; i < OCTET; i++) {
            const float other = simd_shuffle_xor(x[i], apart);
            x[i] = lane & apart ? other - x[i] : x[i] + other;
        }
    }
    // 1/√size, rounded once: a power of two, and for odd powers 1/√2 of one.
    const uint half_log = ctz(size) / 2;
    const float shrink = (ctz(size) % 2 ? 0.70710678118654752f : 1.0f) / float(1u << half_log);
#pragma unroll
    for (uint i = 0; i < OCTET; i++) x[i] *= shrink;
}

// reach_together is the reach of a lane's octet and of those that share its scale; all lanes
// call it.
inline float4 reach_together(const thread float (&x)[OCTET], Seat seat, Coding coding) {
    float4 reach = NO_REACH;
#pragma unroll
    for (uint i = 0; i < OCTET; i++) reach = seat.taken ? max(reach, reach_of(x[i])) : reach;
    const uint lanes = coding.scales == 0 ? 1 : min(1u << coding.group, seat.lanes);
    for (uint apart = 1; apart < lanes; apart *= 2) reach = max(reach, simd_shuffle_xor(reach, apart));
    return reach;
}

// gathered is the word of the bytes of an octet's group and the three that share it; all lanes call
// it. Groups behind the row's last one have 0.
inline uint gathered(uint byte, Seat seat, Coding coding) {
    uint word = seat.taken ? byte << coding.place(seat.octet) : 0;
    for (uint apart = 1u << coding.group; apart < min(1u << coding.shift, seat.lanes); apart *= 2) {
        word |= simd_shuffle_xor(word, apart);
    }
    return word;
}

// put_codes stores a lane's octet, scaled by words.
inline void put_codes(Codes<uint> to, int64_t row, uint octet, const thread float (&x)[OCTET], uint4 low,
                      uint4 high) {
    const Coding c = to.coding;
    const uint a = Scale(c, low).codes(c, float4(x[0], x[1], x[2], x[3]));
    const uint b = Scale(c, high).codes(c, float4(x[4], x[5], x[6], x[7]));
    if (c.bits == 8) {
        *reinterpret_cast<device uint2 *>(to.octet(row, octet)) = uint2(a, b);
    } else {
        *to.octet(row, octet) = a | b << 16;
    }
}

// get_plain and put_plain move an octet of a plane of floats, whose elements lie in place of codes.
// No compiler needs a bfloat for that: it is the upper half of a float.
template <class Word> inline void get_plain(thread float (&x)[OCTET], Codes<Word> from, int64_t row, uint octet) {
    const int64_t at = (row * from.octets + octet) * OCTET;
    const device ushort *halves = reinterpret_cast<const device ushort *>(from.words) + at;
    if (from.coding.storage & FKV_F32) {
        load_octet(x, reinterpret_cast<const device float *>(from.words) + at, true);
    } else if (from.coding.storage & FKV_F16) {
        load_octet(x, reinterpret_cast<const device half *>(halves), true);
    } else {
#pragma unroll
        for (uint i = 0; i < OCTET; i++) x[i] = as_type<float>(uint(halves[i]) << 16);
    }
}

inline void put_plain(Codes<uint> to, int64_t row, uint octet, const thread float (&x)[OCTET]) {
    const int64_t at = (row * to.octets + octet) * OCTET;
    device ushort *halves = reinterpret_cast<device ushort *>(to.words) + at;
    if (to.coding.storage & FKV_F32) {
        store_octet(reinterpret_cast<device float *>(to.words) + at, x, true);
    } else if (to.coding.storage & FKV_F16) {
        store_octet(reinterpret_cast<device half *>(halves), x, true);
    } else {
#pragma unroll
        for (uint i = 0; i < OCTET; i++) { // to nearest, ties to even; NaN stays one
            const uint bits = as_type<uint>(x[i]), rounded = bits + 0x7fffu + (bits >> 16 & 1u);
            halves[i] = ushort((isnan(x[i]) ? bits | 0x400000u : rounded) >> 16);
        }
    }
}

// get_octet is what an octet of a row is worth. line is as for Codes::channels.
template <class Word> inline void get_octet(thread float (&x)[OCTET], Codes<Word> from, int64_t row, int64_t line, uint octet) {
    if (from.coding.plain()) {
        get_plain(x, from, row, octet);
    } else {
        from.decode(x, from.template fetch<OCTET>(row, line, octet), 0, octet);
    }
}

// put_octets stores rows whose scales are theirs or their head's, or floats, which have none. All
// lanes call it; there says whether the lane's row is to be stored. It returns false where an octet is
// to be quantized and not finite.
inline bool put_octets(Codes<uint> to, int64_t row, Seat seat, bool there, thread float (&x)[DECKS][OCTET],
                       bool saturate) {
    const Coding c = to.coding;
    float4 reach[DECKS];
#pragma unroll
    for (int deck = 0; deck < DECKS; deck++) {
        const Seat at = seat.in_deck(deck);
        if (c.plain() && there && at.taken) put_plain(to, row, at.octet, x[deck]);
        reach[deck] = c.plain() ? NO_REACH : reach_together(x[deck], at, c);
    }
    if (c.plain()) return true;
    if (1u << c.group > LANES) { // all decks share the scale
#pragma unroll
        for (int deck = 1; deck < DECKS; deck++) reach[0] = max(reach[0], reach[deck]);
#pragma unroll
        for (int deck = 1; deck < DECKS; deck++) reach[deck] = reach[0];
    }
    bool finite = true;
#pragma unroll
    for (int deck = 0; deck < DECKS; deck++) {
        const Seat at = seat.in_deck(deck);
        const uint made = c.by_head() ? 0 : word_of(c, reach[deck], saturate, to.factor);
        const uint whole = c.quarters() ? gathered(made, at, c) : made;
        if (there && at.taken) {
            device uint *scale = to.scale(row, at.octet);
            const uint word = c.by_head() ? *scale : c.quarters() ? to.step(made) : made;
            if (!c.by_head() && at.octet % (1u << c.shift) == 0) *scale = whole;
#pragma unroll
            for (uint i = 0; i < OCTET; i++) x[deck][i] = storable(c, x[deck][i], reach[deck], saturate);
            const uint4 words = uint4(word);
            put_codes(to, row, at.octet, x[deck], words, words);
            finite = finite && (saturate || is_finite(reach[deck]));
        }
    }
    return finite;
}

// report adds what one lane found to the status word of the stream, of which most calls have
// nothing to say; all lanes call it.
inline void report(device atomic_uint *status, uint of, bool finite, uint lane) {
    const bool bad = simd_any(!finite);
    if (bad && lane == 0) atomic_fetch_or_explicit(status, of, memory_order_relaxed);
}

} // namespace fkv
