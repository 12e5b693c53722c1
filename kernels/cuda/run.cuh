// Runs of elements: how the kernels that move data load, convert and store them.
#pragma once

#include <type_traits>

#include "dtype.cuh"

namespace fkv {

// Run is W elements that lie in a row. It moves in loads and stores of 16 bytes, or
// of all its bytes where they are fewer, and is aligned to that.
template <class T, int W> struct alignas(sizeof(T) * W < 16 ? sizeof(T) * W : 16) Run {
    T at[W];
};

// wide is the elements of a run that fills 16 bytes of the narrower of two types.
template <class A, class B> constexpr int wide = 16 / (sizeof(A) < sizeof(B) ? sizeof(A) : sizeof(B));

template <int W, class T> __device__ inline Run<T, W> load_run(const T *p) {
    return *reinterpret_cast<const Run<T, W> *>(p);
}

template <int W, class T> __device__ inline void store_run(T *p, const Run<T, W> &run) {
    *reinterpret_cast<Run<T, W> *>(p) = run;
}

// store writes N elements as T.
template <int N, class T> __device__ inline void store(T *to, const float (&x)[N]) {
    Run<T, N> run;
#pragma unroll
    for (int i = 0; i < N; i++) run.at[i] = from_float<T>(x[i]);
    store_run(to, run);
}

// convert keeps the bits where the types are the same, those of a NaN too.
template <class To, class From> __device__ inline To convert(From x) {
    if constexpr (std::is_same_v<To, From>) {
        return x;
    } else {
        return from_float<To>(to_float(x));
    }
}

// copy_run moves one run from memory to memory.
template <int W, class From, class To> __device__ inline void copy_run(const From *from, To *to) {
    const Run<From, W> x = load_run<W>(from);
    Run<To, W> y;
#pragma unroll
    for (int i = 0; i < W; i++) {
        y.at[i] = convert<To>(x.at[i]);
    }
    store_run<W>(to, y);
}

// aligned tells whether all of the pointers are good for runs of 16 bytes. A null
// pointer is.
template <class... T> __device__ inline bool aligned(const T *...p) {
    return (reinterpret_cast<uintptr_t>(p) | ...) % 16 == 0;
}

} // namespace fkv
