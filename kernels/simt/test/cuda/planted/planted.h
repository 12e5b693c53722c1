// Kernels with one bug each, and their correct twins, for tests of the detectors. Each
// kernel computes the same: out[block*THREADS + i] is the sum over tiles of
// in[tile*THREADS + THREADS-1-i], so that every thread needs what another one loaded.
#pragma once

#include "ptx.cuh"

constexpr int THREADS = 64, TILES = 4;

// PLANTED defines the kernels bug_name and fix_name from a template name<bool BUG>.
#define PLANTED(name, shared)                                                                     \
    FKV_KERNEL(bug_##name, THREADS, shared, const float *in, float *out) { name<true>(in, out); } \
    FKV_KERNEL(fix_##name, THREADS, shared, const float *in, float *out) { name<false>(in, out); }
