// Storage types: conversion to and from f32. half and bfloat are the language's own. No
// name of a type is said here, so that a compiler without bfloat takes the file too.
#pragma once

#include "kernel.h"

namespace fkv {

template <class T> inline float to_float(T x) { return static_cast<float>(x); }

// from_float rounds to nearest, ties to even: Metal's default for narrowing conversions,
// https://developer.apple.com/documentation/metal/mtlfloatingpointconversionroundingmode.
// Section 8.2 of MSL's text would let a device truncate; the conformance suite has values
// on which that shows.
template <class T> inline T from_float(float x) { return static_cast<T>(x); }

// The largest numbers of types.
constant constexpr float MOST_F32 = 3.4028234663852886e38f, MOST_F16 = 65504.0f, MOST_BF16 = 3.3895313892515355e38f;

// most_of is the largest number of a type. 257 is exact in half, but not in bfloat.
template <class T> inline float most_of() {
    return sizeof(T) == 4 ? MOST_F32 : to_float(from_float<T>(257.0f)) == 257.0f ? MOST_F16 : MOST_BF16;
}

// load4 reads four elements of device memory at once, in 8 or 16 bytes to which p is
// aligned.
template <class T> inline float4 load4(const device T *p) {
    return float4(*reinterpret_cast<const device vec<T, 4> *>(p));
}

} // namespace fkv
