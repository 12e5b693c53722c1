// Where the rows of a tile lie in shared memory.
#pragma once

#include "kernel.cuh"

namespace fkv {

// whole_lines is bytes, rounded up to lines of shared memory, of 128 bytes. Where tiles begin in the middle of one, each 128 bytes
// of a copy fall into two, and are sent in two: decode is 1.04 to 1.11 times as fast with tiles in whole lines, and on CUDA cores
// 1.2 times (H200).
constexpr int whole_lines(int bytes) { return (bytes + 127) / 128 * 128; }

// Rows is rows [DIM] one behind the other, in pieces of 16 bytes. Matrix loads, of a piece of each of 8 rows at a time, want
// them in different banks: with MIXED, of elements of 16 bits, pieces of a row change places by a number that its own
// number gives, two that share a sector of 32 bytes with each other at most. Padded rows would be in other banks,
// too, but where a row begins within a sector, each of its sectors falls into two, and was sent from L2
// twice: 1.5 times the bytes in all (H200, 27 November 2026).
template <int DIM, bool MIXED> struct Rows {
    static constexpr int PIECES = DIM / 8; // of elements of 16 bits
    static constexpr int TURNS = !MIXED ? 1 : PIECES % 8 == 0 ? 8 : PIECES % 4 == 0 ? 4 : 2; // until banks repeat
    static_assert(DIM % 16 == 0, "whole sectors");

    __device__ static int turn(int row) { return row / (8 / TURNS) % TURNS; }

    // at is where a piece of N elements begins, in elements.
    template <int N> __device__ static int at(int row, int piece) { return row * DIM + (piece ^ turn(row)) * N; }

    // column is where a piece begins in a row whose pieces change places by turn, of which base's bits are known when
    // this is compiled: then few places differ, and what is between them is a constant.
    __device__ static int column(int base, int rest) { return (base / 8 * 8 + (base % 8 ^ rest)) * 8; }
};

} // namespace fkv
