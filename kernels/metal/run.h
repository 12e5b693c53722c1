// Runs of elements: how the kernels that move data load, convert and store them.
#pragma once

#include "dtype.h"

namespace fkv {

// run_width is the elements of a run that fills 16 bytes of the narrower of two types.
template <class A, class B> constexpr int run_width() {
    return 16 / (sizeof(A) < sizeof(B) ? sizeof(A) : sizeof(B));
}

// Run is W elements that lie in a row: one, which moves by itself, or as many as fill
// pieces of 16 bytes.
template <class T, int W> struct Run {
    enum { IN_PIECE = 16 / sizeof(T), PIECES = W / IN_PIECE };
    T at[W];
};

// A piece of 16 bytes is loaded and stored as a uint4, which is one instruction for
// certain: of an array or a struct in memory the compiler may make an access for each
// element, and MSL has no vector of eight halves. In registers the two are the same.
inline void unpack(uint4 bits, thread float *x) {
    const float4 four = as_type<float4>(bits);
    x[0] = four.x, x[1] = four.y, x[2] = four.z, x[3] = four.w;
}
template <class T> inline void unpack(uint4 bits, thread T *x) {
    const vec<T, 4> low = as_type<vec<T, 4>>(bits.xy), high = as_type<vec<T, 4>>(bits.zw);
    x[0] = low.x, x[1] = low.y, x[2] = low.z, x[3] = low.w;
    x[4] = high.x, x[5] = high.y, x[6] = high.z, x[7] = high.w;
}

inline uint4 packed(const thread float *x) { return as_type<uint4>(float4(x[0], x[1], x[2], x[3])); }
template <class T> inline uint4 packed(const thread T *x) {
    const vec<T, 4> low = {x[0], x[1], x[2], x[3]}, high = {x[4], x[5], x[6], x[7]};
    return uint4(as_type<uint2>(low), as_type<uint2>(high));
}

template <int W, class T> inline Run<T, W> load_run(const device T *p) {
    Run<T, W> run;
    if (W == 1) {
        run.at[0] = *p;
        return run;
    }
#pragma unroll
    for (int i = 0; i < Run<T, W>::PIECES; i++) {
        unpack(reinterpret_cast<const device uint4 *>(p)[i], run.at + i * Run<T, W>::IN_PIECE);
    }
    return run;
}

template <int W, class T> inline void store_run(device T *p, const thread Run<T, W> &run) {
    if (W == 1) {
        *p = run.at[0];
        return;
    }
#pragma unroll
    for (int i = 0; i < Run<T, W>::PIECES; i++) {
        reinterpret_cast<device uint4 *>(p)[i] = packed(run.at + i * Run<T, W>::IN_PIECE);
    }
}

// copy_run moves one run from memory to memory.
template <int W, class From, class To> inline void copy_run(const device From *from, device To *to) {
    const Run<From, W> x = load_run<W>(from);
    Run<To, W> y;
#pragma unroll
    for (int i = 0; i < W; i++) {
        y.at[i] = from_float<To>(to_float(x.at[i]));
    }
    store_run<W>(to, y);
}

// Where the types are the same it keeps the bits, those of a NaN too.
template <int W, class T> inline void copy_run(const device T *from, device T *to) {
    if (W == 1) {
        *to = *from;
        return;
    }
#pragma unroll
    for (int i = 0; i < Run<T, W>::PIECES; i++) {
        reinterpret_cast<device uint4 *>(to)[i] = reinterpret_cast<const device uint4 *>(from)[i];
    }
}

// copy_all copies n elements. The threads that share them begin at a first of their own
// and go on by step.
template <class T> inline void copy_all(const device T *from, device T *to, int64_t n, int64_t first, int64_t step) {
    enum { HELD = 4 }; // elements that a thread has on their way
    for (; first < n; first += HELD * step) {
        T held[HELD];
#pragma unroll
        for (int i = 0; i < HELD; i++) {
            if (first + i * step < n) {
                held[i] = from[first + i * step];
            }
        }
#pragma unroll
        for (int i = 0; i < HELD; i++) {
            if (first + i * step < n) {
                to[first + i * step] = held[i];
            }
        }
    }
}

} // namespace fkv
