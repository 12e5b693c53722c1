// Copies of whole blocks, within a cache or to another, and of single slots within one, and attention
// mass of slots that begin anew. Bytes move in pieces of 16, or of 4 in the narrow kernels; their type does not matter.
#include "plane.cuh"
#include "run.cuh"

namespace {

using Wide = fkv::Run<uint32_t, 4>;
using Narrow = uint32_t;

constexpr unsigned THREADS = 256;
constexpr int HELD = 4; // pieces that a thread has on their way

// copy_block copies one block of one plane, whose pieces the blocks along x share.
template <class Piece> __device__ inline void copy_block(const Piece *from, Piece *to, int64_t pieces) {
    const int64_t step = static_cast<int64_t>(gridDim.x) * THREADS;
    const int64_t thread = static_cast<int64_t>(blockIdx.x) * THREADS + threadIdx.x;
    for (int64_t first = thread; first < pieces; first += HELD * step) {
        Piece held[HELD];
#pragma unroll
        for (int i = 0; i < HELD; i++) {
            if (first + i * step < pieces) {
                held[i] = from[first + i * step];
            }
        }
#pragma unroll
        for (int i = 0; i < HELD; i++) {
            if (first + i * step < pieces) {
                to[first + i * step] = held[i];
            }
        }
    }
}

template <class Piece>
__device__ inline void copy_blocks(const Piece *k, const Piece *v, Piece *to_k, Piece *to_v, const uint32_t *pairs,
                                   const fkv_copy_blocks_args &args) {
    const int64_t k_pieces = args.k_bytes / sizeof(Piece), v_pieces = args.v_bytes / sizeof(Piece);
    for (int64_t i = blockIdx.y; i < args.pairs; i += gridDim.y) {
        const int64_t from = pairs[2 * i], to = pairs[2 * i + 1];
        if (from < args.from_blocks && to < args.to_blocks) {
            copy_block(k + from * k_pieces, to_k + to * k_pieces, k_pieces);
            copy_block(v + from * v_pieces, to_v + to * v_pieces, v_pieces);
        }
    }
}

} // namespace

// Grid: x over slices of a block, 1024 pieces a slice and plane; y over pairs. Any grid
// is right. All planes are aligned to their pieces.
#define COPY_BLOCKS(name, Piece)                                                                                  \
    FKV_KERNEL(fkv_copy_blocks##name, THREADS, 0, const Piece *k, const Piece *v, Piece *to_k, Piece *to_v,       \
               const uint32_t *pairs, fkv_copy_blocks_args args) {                                                \
        copy_blocks(k, v, to_k, to_v, pairs, args);                                                               \
    }

COPY_BLOCKS(, Wide)
COPY_BLOCKS(_narrow, Narrow)

namespace {

constexpr int64_t COLUMNS = 8;                // that a block moves at a time: 128 bytes of a row, or 32
constexpr unsigned LANES = THREADS / COLUMNS; // threads that share a column
constexpr int64_t BATCH = LANES * HELD;       // pairs that are on their way at once

// Column is one piece of every slot, which moves without regard to the others.
template <class Piece> struct Column {
    Piece *plane;
    uint32_t head, piece, pieces; // piece of the pieces in a row of the head
};

// column_at counts the pieces of a slot's keys, head by head, and then those of its
// values.
template <class Piece>
__device__ inline Column<Piece> column_at(uint32_t i, Piece *k, Piece *v, const fkv_move_slots_args &args) {
    const uint32_t k_pieces = args.k_bytes / sizeof(Piece), v_pieces = args.v_bytes / sizeof(Piece);
    if (i < args.kv_heads * k_pieces) {
        return {k, i / k_pieces, i % k_pieces, k_pieces};
    }
    i -= args.kv_heads * k_pieces;
    return {v, i / v_pieces, i % v_pieces, v_pieces};
}

template <class Piece>
__device__ inline Piece *piece_at(const Column<Piece> &c, int64_t slot, const fkv_move_slots_args &args) {
    const fkv::Place place = fkv::place_of(slot, args.block_size);
    return c.plane + fkv::row_at(place, args.kv_heads, c.head, args.block_size) * c.pieces + c.piece;
}

// independent tells whether n pairs may all be read and then all be written: no source is
// the destination of a pair before it, and no destination is there twice. It knows
// two orders in which that is so, those that close gaps and that open them: destinations
// that rise and are not above their sources, or fall and are not below. All lanes of a warp
// ask together and get the same answer.
__device__ inline bool independent(const int64_t *pairs, unsigned n, int64_t slots) {
    bool up = true, down = true;
    for (unsigned i = threadIdx.x % 32; i < n; i += 32) {
        const int64_t from = pairs[2 * i], to = pairs[2 * i + 1];
        const int64_t before = i > 0 ? pairs[2 * i - 1] : -1;
        const bool inside = fkv::in_cache(from, slots) && fkv::in_cache(to, slots);
        up = up && inside && from >= to && (i == 0 || to > before);
        down = down && inside && from <= to && (i == 0 || to < before);
    }
    return __all_sync(fkv::FULL, up) || __all_sync(fkv::FULL, down);
}

// A block takes its own columns through all pairs, so that blocks need not wait for each
// other. It reads a batch of independent pairs and writes them after a barrier; a
// batch of others goes pair by pair, which is slow.
template <class Piece>
__device__ inline void move_slots(Piece *k, Piece *v, const int64_t *pairs, const fkv_move_slots_args &args) {
    const uint32_t columns = args.kv_heads * (args.k_bytes / sizeof(Piece) + args.v_bytes / sizeof(Piece));
    const unsigned lane = threadIdx.x / COLUMNS;
    for (int64_t first = blockIdx.x * COLUMNS; first < columns; first += gridDim.x * COLUMNS) {
        const int64_t mine = first + threadIdx.x % COLUMNS;
        const bool active = mine < columns;
        const Column<Piece> column = column_at(static_cast<uint32_t>(active ? mine : first), k, v, args);
        for (int64_t done = 0; done < args.pairs; done += BATCH) {
            const int64_t *batch = pairs + 2 * done;
            const unsigned n = static_cast<unsigned>(min(BATCH, args.pairs - done));
            if (independent(batch, n, args.slots)) {
                Piece held[HELD];
#pragma unroll
                for (int j = 0; j < HELD; j++) {
                    const unsigned i = lane + j * LANES;
                    if (active && i < n) {
                        held[j] = *piece_at(column, batch[2 * i], args);
                    }
                }
                __syncthreads();
#pragma unroll
                for (int j = 0; j < HELD; j++) {
                    const unsigned i = lane + j * LANES;
                    if (active && i < n) {
                        *piece_at(column, batch[2 * i + 1], args) = held[j];
                    }
                }
            } else if (active && lane == 0) {
                for (unsigned i = 0; i < n; i++) {
                    if (fkv::in_cache(batch[2 * i], args.slots) && fkv::in_cache(batch[2 * i + 1], args.slots)) {
                        *piece_at(column, batch[2 * i + 1], args) = *piece_at(column, batch[2 * i], args);
                    }
                }
            }
            __syncthreads();
        }
    }
}

} // namespace

// Grid: x over columns, 8 a block; a slot has kv_heads*(k_bytes + v_bytes) over the
// bytes of a piece. Any grid is right. Both planes are aligned to their pieces.
#define MOVE_SLOTS(name, Piece)                                                                                   \
    FKV_KERNEL(fkv_move_slots##name, THREADS, 0, Piece *k, Piece *v, const int64_t *pairs,                        \
               fkv_move_slots_args args) {                                                                        \
        move_slots(k, v, pairs, args);                                                                            \
    }

MOVE_SLOTS(, Wide)
MOVE_SLOTS(_narrow, Narrow)

// Grid: x over slots, y over KV heads; any grid is right.
FKV_KERNEL(fkv_clear_mass, THREADS, 0, float *mass, const int64_t *slots, fkv_clear_mass_args args) {
    const int64_t step = static_cast<int64_t>(gridDim.x) * THREADS;
    for (int64_t i = static_cast<int64_t>(blockIdx.x) * THREADS + threadIdx.x; i < args.n; i += step) {
        const int64_t slot = slots[i];
        if (!fkv::in_cache(slot, args.slots)) {
            continue;
        }
        const fkv::Place place = fkv::place_of(slot, args.block_size);
        for (uint32_t head = blockIdx.y; head < args.kv_heads; head += gridDim.y) {
            mass[fkv::row_at(place, args.kv_heads, head, args.block_size)] = 0;
        }
    }
}
