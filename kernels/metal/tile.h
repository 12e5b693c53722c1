// How keys and values are loaded, and the tiles of them that the simdgroups of a threadgroup
// share.
#pragma once

#include "attend.h"
#include "codes.h"
#include "run.h"

namespace fkv {

// Elements is 16 bytes of a plane of floats.
struct Elements {
    uint4 bits;

    static Elements none() { return {uint4(0)}; }
    void keep(bool there) { bits = there ? bits : uint4(0); } // without a branch
};

// Plane is a plane of S, of which kernels with activations of T load Held<W>, W elements, at a time.
// Tiles of it have elements of Type.
template <class T, class S> struct Plane {
    using Type = S;
    enum : int { N = 16 / sizeof(S) }; // elements that a lane of a team multiplies together
    template <int W> using Held = Elements;

    const device uint4 *vectors;

    Plane(Stored from, int) : vectors(static_cast<const device uint4 *>(from.data)) {}

    // width is the elements of a load for tiles of so many rows [dim], which threads share.
    static constexpr int width(int, int, int) { return N; }

    // load is number i of a row [DIM].
    template <int DIM, int W> Elements load(const thread Pages &, int64_t row, int i) const {
        return {vectors[row * (DIM / N) + i]};
    }

    // numbers and put make numbers, or elements of a tile, of what was loaded; i as it was there.
    template <int W> void numbers(thread float *x, const thread Elements &held, int) const {
        S elements[N];
        unpack(held.bits, elements);
#pragma unroll
        for (int i = 0; i < N; i++) x[i] = to_float(elements[i]);
    }
    template <int W> void put(threadgroup S *to, const thread Elements &held, int, uint) const {
        *reinterpret_cast<threadgroup uint4 *>(to) = held.bits;
    }
};

// Of a quantized plane it is chunks of codes, which become elements of T in tiles.
template <class T> struct Plane<T, Quantized> {
    using Type = T;
    enum : int { N = OCTET, PIECE = 16 / sizeof(T) };
    template <int W> using Held = Chunk<W>;

    Codes<const uint> codes;

    Plane(Stored from, int dim)
        : codes(static_cast<const device uint *>(from.data), from.scales, from.storage, dim, from.head, from.heads) {}

    // The most elements that leave no thread without a load and fill rows; of tiles of f32 few, because a
    // thread stores them one behind the other.
    static constexpr int width(int rows, int dim, int threads) {
        return sizeof(T) == 2 && dim % 32 == 0 && rows * dim >= 32 * threads   ? 32
               : sizeof(T) == 2 && dim % 16 == 0 && rows * dim >= 16 * threads ? 16
                                                                               : 8;
    }

    template <int DIM, int W> Chunk<W> load(const thread Pages &pages, int64_t row, int i) const {
        static_assert(DIM % W == 0 && W <= int(MOST_CHUNK), "whole chunks");
        return codes.template fetch<W>(row, pages.line(row), i);
    }

    // numbers rounds to T as put does: all kernels find the same scores, so attention mass,
    // for which a second one looks at the keys, is a share of what the first one summed.
    template <int W> void numbers(thread float *x, const thread Chunk<W> &held, int i) const {
#pragma unroll
        for (int o = 0; o < W / N; o++) codes.decode(x + o * N, held, o, i * (W / N) + o);
#pragma unroll
        for (int j = 0; j < W; j++) x[j] = to_float(from_float<T>(x[j]));
    }

    // put begins with octet first, modulo their number, and goes on around: chosen by the thread, so that
    // no two of those that store together use one bank.
    template <int W> void put(threadgroup T *to, Chunk<W> held, int i, uint first) const {
        held.turn(first, codes.coding.bits == 8);
#pragma unroll
        for (int o = 0; o < W / N; o++) {
            const int at = (o + first) % (W / N);
            float x[N];
            T elements[N];
            codes.decode(x, held, o, i * (W / N) + at);
#pragma unroll
            for (int j = 0; j < N; j++) elements[j] = from_float<T>(x[j]);
#pragma unroll
            for (int j = 0; j < N; j += PIECE) {
                *reinterpret_cast<threadgroup uint4 *>(to + at * N + j) = packed(elements + j);
            }
        }
    }
};

// Stream brings the tiles of a walk, KEYS rows of keys and then of values each, through
// threadgroup memory, so that each row of the cache is read once; with VDIM 0 keys alone, whose
// first elements are values, if there are any.
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
        MOST_DIM = KDIM > VDIM ? KDIM : VDIM,
        N = Cached::width(KEYS, VDIM == 0 || KDIM < VDIM ? KDIM : VDIM, THREADS), // elements of a load
        SLOT = KEYS * (MOST_DIM + PAD),
        SLOTS = 2 * SLOT * sizeof(S) <= 20 << 10 ? 2 : 1, // more would leave a core one threadgroup
        BYTES = SLOTS * SLOT * sizeof(S),
        KEY_STRIDE = KDIM + PAD,
        VALUE_STRIDE = (VDIM ? VDIM : KDIM) + PAD,
        LOADS = (KEYS * (MOST_DIM / N) + THREADS - 1) / THREADS, // of a thread for a step
        AHEAD = LOADS < 4 ? LOADS : 4,                           // as registers allow
        ROWS_KEPT = KDIM == VDIM && AHEAD <= 2, // a thread's values lie in the rows of its keys
    };
    static_assert(KDIM % N == 0 && VDIM % N == 0, "rows of whole loads");
    using Held = typename Cached::template Held<N>;

    threadgroup S *memory;
    Cached keys_from, values_from;
    Pages pages;
    Span span;
    int thread_index;
    int tile = 0; // number in the span of the first key of the step that is under way
    int slot = 0; // that it goes to
    Held held[AHEAD];
    int64_t rows[AHEAD]; // that it is of, -1 for none

    // A stream begins to load at once.
    Stream(threadgroup void *shared, Cached k, Cached v, Pages p, Span s, int thread_at)
        : memory(static_cast<threadgroup S *>(shared)), keys_from(k), values_from(v), pages(p), span(s),
          thread_index(thread_at) {
        fetch<KDIM, false>(keys_from);
    }

    // keys is the tile's keys [KEYS, KEY_STRIDE], good until the next step.
    const threadgroup S *keys() {
        const threadgroup S *here = place<KDIM>(keys_from);
        if (VDIM == 0) tile += KEYS;
        fetch<VDIM ? VDIM : KDIM, VDIM != 0 && ROWS_KEPT>(VDIM ? values_from : keys_from);
        return here;
    }

    // values is its values [KEYS, VALUE_STRIDE], and the end of the tile.
    const threadgroup S *values() {
        if (VDIM == 0) return memory + (SLOTS - 1 - slot) * SLOT; // where the keys are
        const threadgroup S *here = place<VDIM ? VDIM : KDIM>(values_from);
        tile += KEYS;
        fetch<KDIM, false>(keys_from);
        return here;
    }

  private:
    // load is load number i of the step's KEYS rows, and row the one that it is of.
    template <int DIM> Held load(const thread Cached &plane, int i, thread int64_t &row) const {
        const int n = tile + i / (DIM / N);
        row = -1;
        if (n >= span.count) return Held::none();
        row = pages.row(span.at(n));
        return plane.template load<DIM, N>(pages, row, i % (DIM / N));
    }

    // fetch begins the loads of a step, KEPT: of the rows of the step before.
    template <int DIM, bool KEPT> void fetch(const thread Cached &plane) {
#pragma unroll
        for (int j = 0; j < AHEAD; j++) {
            const int i = j * THREADS + thread_index;
            if (i >= KEYS * (DIM / N)) continue;
            if (!KEPT) {
                held[j] = load<DIM>(plane, i, rows[j]);
            } else {
                held[j] = rows[j] < 0 ? Held::none() : plane.template load<DIM, N>(pages, rows[j], i % (DIM / N));
            }
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
            int64_t row;
            const Held one = j < AHEAD ? held[j < AHEAD ? j : 0] : load<DIM>(plane, i, row);
            const int key = i / (DIM / N), at = i % (DIM / N);
            plane.template put<N>(to + key * (DIM + PAD) + at * N, one, at, uint(i * N / 64 - key));
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
        slot = SLOTS - 1 - slot;
        return to;
    }
};

} // namespace fkv
