// Storage types: conversion to and from f32, one element or 16 bytes at a time.
#pragma once

#include "kernel.cuh"

#include <type_traits>

namespace fkv {

using half = __half;
using bfloat = __nv_bfloat16;

__device__ inline float to_float(float x) { return x; }
__device__ inline float to_float(half x) { return __half2float(x); }
__device__ inline float to_float(bfloat x) { return __bfloat162float(x); }

// from_float rounds to nearest, ties to even.
template <class T> __device__ inline T from_float(float x);
template <> __device__ inline float from_float<float>(float x) { return x; }
template <> __device__ inline half from_float<half>(float x) { return __float2half_rn(x); }
template <> __device__ inline bfloat from_float<bfloat>(float x) { return __float2bfloat16_rn(x); }

// MOST_OF is the largest number of a type.
template <class T>
constexpr float MOST_OF = std::is_same_v<T, half> ? 65504.f : std::is_same_v<T, bfloat> ? 3.3895313892515355e38f : 3.4028234663852886e38f;

// Vec is 16 bytes of T: one load or store.
template <class T> struct alignas(16) Vec {
    static constexpr int N = 16 / sizeof(T);
    T at[N];
};

// pack is two elements in the order of memory.
template <class T> __device__ inline uint32_t pack(float low, float high) {
    static_assert(sizeof(T) == 2, "pairs of 16-bit elements");
    T both[2] = {from_float<T>(low), from_float<T>(high)};
    uint32_t r;
    memcpy(&r, both, sizeof r);
    return r;
}

} // namespace fkv
