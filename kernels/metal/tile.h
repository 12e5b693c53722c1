// How keys and values are loaded, and the tiles of them that the simdgroups of a threadgroup
// share.
#pragma once

#include "attend.h"
#include "codes.h"
#include "run.h"

namespace fkv {

// Plane is a plane of S, of which kernels with activations of T load N elements at a time.
// Tiles of it have elements of Type.
template <class T, class S> struct Plane {
    using Type = S;
    enum : int { N = 16 / sizeof(S) };

    const device uint4 *vectors;

    Plane(Stored from, int) : vectors(static_cast<const device uint4 *>(from.data)) {}

    // load is vector i of a row [DIM].
    template <int DIM> uint4 load(const thread Pages &, int64_t row, int i) const {
        return vectors[row * (DIM / N) + i];
    }

    // numbers and put make numbers, or elements of a tile, of what was loaded, or of zeros; i as
    // it was there.
    void numbers(thread float *x, uint4 bits, int) const {
        S elements[N];
        unpack(bits, elements);
#pragma unroll
        for (int i = 0; i < N; i++) x[i] = to_float(elements[i]);
    }
    void put(threadgroup S *to, uint4 bits, int) const { *reinterpret_cast<threadgroup uint4 *>(to) = bits; }
};

// Of a quantized plane it is octets of codes, which become elements of T in tiles.
template <class T> struct Plane<T, Quantized> {
    using Type = T;
    enum : int { N = OCTET, PIECE = 16 / sizeof(T) };

    Codes<const uint> codes;

    Plane(Stored from, int dim)
        : codes(static_cast<const device uint *>(from.data), from.scales, from.storage, dim, from.head) {}

    template <int DIM> uint4 load(const thread Pages &pages, int64_t row, int i) const {
        return codes.fetch(row, pages.line(row), i);
    }

    // numbers rounds to T as put does: all kernels find the same scores, so attention mass,
    // for which a second one looks at the keys, is a share of what the first one summed.
    void numbers(thread float *x, uint4 bits, int i) const {
        codes.decode(x, bits, i);
#pragma unroll
        for (int j = 0; j < N; j++) x[j] = to_float(from_float<T>(x[j]));
    }
    void put(threadgroup T *to, uint4 bits, int i) const {
        float x[N];
        T elements[N];
        codes.decode(x, bits, i);
#pragma unroll
        for (int j = 0; j < N; j++) elements[j] = from_float<T>(x[j]);
#pragma unroll
        for (int j = 0; j < N; j += PIECE) *reinterpret_cast<threadgroup uint4 *>(to + j) = packed(elements + j);
    }
};

// Stream brings the tiles of a walk, KEYS rows of keys and then of values each, through
// threadgroup memory, so that each row of the cache is read once; with VDIM 0 keys alone.
// All threads of the threadgroup call the same methods. Rows have PAD elements behind
// them, so that matrix loads of 8 rows hit all banks. What is no key of the span reads
// as 0.
//
// Half a tile is a step. Apple's GPUs have no copy that runs by itself, so a step's loads
// go to registers while the one before is computed, and from there to a slot. With two
// slots the one to fill is never in use, and a step costs one barrier.
template <class Cached, int KDIM, int VDIM, int KEYS, int THREADS, int PAD> struct Stream {
    using S = typename Cached::Type;
    enum : int {
        N = Cached::N, // elements of a load
        MOST_DIM = KDIM > VDIM ? KDIM : VDIM,
        SLOT = KEYS * (MOST_DIM + PAD),
        SLOTS = 2 * SLOT * sizeof(S) <= 20 << 10 ? 2 : 1, // more would leave a core one threadgroup
        BYTES = SLOTS * SLOT * sizeof(S),
        KEY_STRIDE = KDIM + PAD,
        VALUE_STRIDE = VDIM + PAD,
        LOADS = (KEYS * (MOST_DIM / N) + THREADS - 1) / THREADS, // of a thread for a step
        AHEAD = LOADS < 4 ? LOADS : 4,                           // as registers allow
    };

    threadgroup S *memory;
    Cached keys_from, values_from;
    Pages pages;
    Span span;
    int thread_index;
    int tile = 0; // number in the span of the first key of the step that is under way
    int slot = 0; // that it goes to
    uint4 held[AHEAD];

    // A stream begins to load at once.
    Stream(threadgroup void *shared, Cached k, Cached v, Pages p, Span s, int thread_at)
        : memory(static_cast<threadgroup S *>(shared)), keys_from(k), values_from(v), pages(p), span(s),
          thread_index(thread_at) {
        fetch<KDIM>(keys_from);
    }

    // keys is the tile's keys [KEYS, KEY_STRIDE], good until the next step.
    const threadgroup S *keys() {
        const threadgroup S *here = place<KDIM>(keys_from);
        if (VDIM == 0) tile += KEYS;
        fetch<VDIM ? VDIM : KDIM>(VDIM ? values_from : keys_from);
        return here;
    }

    // values is its values [KEYS, VALUE_STRIDE], and the end of the tile.
    const threadgroup S *values() {
        const threadgroup S *here = place<VDIM>(values_from);
        tile += KEYS;
        fetch<KDIM>(keys_from);
        return here;
    }

  private:
    // load is load number i of the step's KEYS rows.
    template <int DIM> uint4 load(const thread Cached &plane, int i) const {
        const int n = tile + i / (DIM / N);
        if (n >= span.count) return uint4(0);
        return plane.template load<DIM>(pages, pages.row(span.at(n)), i % (DIM / N));
    }

    template <int DIM> void fetch(const thread Cached &plane) {
#pragma unroll
        for (int j = 0; j < AHEAD; j++) {
            const int i = j * THREADS + thread_index;
            if (i < KEYS * (DIM / N)) held[j] = load<DIM>(plane, i);
        }
    }

    // place ends the loads of a step; what registers had no room for is loaded now.
    template <int DIM> const threadgroup S *place(const thread Cached &plane) {
        if (SLOTS == 1) threadgroup_barrier(mem_flags::mem_threadgroup); // the step before is over
        threadgroup S *to = memory + slot * SLOT;
#pragma unroll
        for (int j = 0; j < LOADS; j++) {
            const int i = j * THREADS + thread_index;
            if (i >= KEYS * (DIM / N)) continue;
            const uint4 bits = j < AHEAD ? held[j < AHEAD ? j : 0] : load<DIM>(plane, i);
            plane.put(to + i / (DIM / N) * (DIM + PAD) + i % (DIM / N) * N, bits, i % (DIM / N));
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
        slot = SLOTS - 1 - slot;
        return to;
    }
};

} // namespace fkv
