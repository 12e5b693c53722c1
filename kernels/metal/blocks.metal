// Copies of whole blocks, within a cache or to another, and of single slots within one, and attention
// mass of slots that begin anew. Bytes move in pieces of 16, or of 4 where there are no whole ones of 16; their type does not matter.
#include "plane.h"
#include "run.h"

namespace {

constant constexpr uint THREADS = 256;

// copy_blocks copies blocks piece by piece. A plane of no bytes is not there.
template <class Piece>
inline void copy_blocks(const device Piece *k, const device Piece *v, device Piece *to_k, device Piece *to_v,
                        const device uint32_t *pairs, constant fkv_copy_blocks_args &args, fkv::Here here) {
    const int64_t size = sizeof(Piece);
    const int64_t step = static_cast<int64_t>(here.groups.x) * THREADS;
    const int64_t first = static_cast<int64_t>(here.group.x) * THREADS + here.index;
    const int64_t k_pieces = args.k_bytes / size, v_pieces = args.v_bytes / size;
    for (int64_t i = here.group.y; i < args.pairs; i += here.groups.y) {
        const int64_t from = pairs[2 * i], to = pairs[2 * i + 1];
        if (from < args.from_blocks && to < args.to_blocks) {
            fkv::copy_all(k + from * k_pieces, to_k + to * k_pieces, k_pieces, first, step);
            fkv::copy_all(v + from * v_pieces, to_v + to * v_pieces, v_pieces, first, step);
        }
    }
}

} // namespace

// Grid: x over slices of a block, 1024 pieces a slice and plane; y over pairs. Any grid
// is right. All planes are aligned to 16 bytes.
[[max_total_threads_per_threadgroup(THREADS)]] kernel void
fkv_copy_blocks(const device uint4 *k [[buffer(FKV_COPY_BLOCKS_K)]],
                const device uint4 *v [[buffer(FKV_COPY_BLOCKS_V)]],
                device uint4 *to_k [[buffer(FKV_COPY_BLOCKS_TO_K)]],
                device uint4 *to_v [[buffer(FKV_COPY_BLOCKS_TO_V)]],
                const device uint32_t *pairs [[buffer(FKV_COPY_BLOCKS_PAIRS)]],
                constant fkv_copy_blocks_args &args [[buffer(FKV_COPY_BLOCKS_BUFFERS)]],
                FKV_BUILTINS) {
    copy_blocks(k, v, to_k, to_v, pairs, args, FKV_HERE);
}

// The same in pieces of 4 bytes.
[[max_total_threads_per_threadgroup(THREADS)]] kernel void
fkv_copy_blocks_narrow(const device uint *k [[buffer(FKV_COPY_BLOCKS_K)]],
                       const device uint *v [[buffer(FKV_COPY_BLOCKS_V)]],
                       device uint *to_k [[buffer(FKV_COPY_BLOCKS_TO_K)]],
                       device uint *to_v [[buffer(FKV_COPY_BLOCKS_TO_V)]],
                       const device uint32_t *pairs [[buffer(FKV_COPY_BLOCKS_PAIRS)]],
                       constant fkv_copy_blocks_args &args [[buffer(FKV_COPY_BLOCKS_BUFFERS)]],
                       FKV_BUILTINS) {
    copy_blocks(k, v, to_k, to_v, pairs, args, FKV_HERE);
}

namespace {

constant constexpr uint COLUMNS = 8;                 // that a threadgroup moves at a time
constant constexpr uint SHARERS = THREADS / COLUMNS; // threads of a column
constant constexpr int HELD = 4;                     // pieces that a thread has on their way
constant constexpr int64_t BATCH = SHARERS * HELD;   // pairs that are on their way at once

// Column is one piece of every slot, which moves without regard to the others.
template <class Piece> struct Column {
    device Piece *plane;
    uint32_t head, piece, pieces; // piece of the pieces in a row of the head
};

// column_at counts the pieces of a slot's keys, head by head, and then those of its
// values.
template <class Piece>
inline Column<Piece> column_at(uint32_t i, device Piece *k, device Piece *v, constant fkv_move_slots_args &args) {
    const uint32_t size = sizeof(Piece), k_pieces = args.k_bytes / size, v_pieces = args.v_bytes / size;
    if (i < args.kv_heads * k_pieces) {
        return Column<Piece>{k, i / k_pieces, i % k_pieces, k_pieces};
    }
    i -= args.kv_heads * k_pieces;
    return Column<Piece>{v, i / v_pieces, i % v_pieces, v_pieces};
}

template <class Piece>
inline device Piece *piece_at(Column<Piece> c, int64_t slot, constant fkv_move_slots_args &args) {
    const fkv::Place place = fkv::place_of(slot, args.block_size);
    return c.plane + fkv::row_at(place, args.kv_heads, c.head, args.block_size) * c.pieces + c.piece;
}

// independent tells whether n pairs may all be read and then all be written: no source is
// the destination of a pair before it, and no destination is there twice. It knows
// two orders in which that is so, those that close gaps and that open them: destinations
// that rise and are not above their sources, or fall and are not below. All lanes of a
// simdgroup ask together and get the same answer, as do all simdgroups.
inline bool independent(const device int64_t *pairs, uint n, int64_t slots, uint lane) {
    bool up = true, down = true;
    for (uint i = lane; i < n; i += fkv::LANES) {
        const int64_t from = pairs[2 * i], to = pairs[2 * i + 1];
        const int64_t before = i > 0 ? pairs[2 * i - 1] : -1;
        const bool inside = fkv::in_cache(from, slots) && fkv::in_cache(to, slots);
        up = up && inside && from >= to && (i == 0 || to > before);
        down = down && inside && from <= to && (i == 0 || to < before);
    }
    const bool all_up = simd_all(up), all_down = simd_all(down);
    return all_up || all_down;
}

// move_slots moves slots piece by piece. A threadgroup takes its own columns through all pairs,
// so that threadgroups need not wait for each other. It reads a batch of independent pairs and
// writes them after a barrier; a batch of others goes pair by pair, which is slow. A plane of no
// bytes is not there.
template <class Piece>
inline void move_slots(device Piece *k, device Piece *v, const device int64_t *pairs,
                       constant fkv_move_slots_args &args, fkv::Here here) {
    const uint32_t size = sizeof(Piece), columns = args.kv_heads * (args.k_bytes / size + args.v_bytes / size);
    const uint sharer = here.index / COLUMNS;
    const int64_t step = static_cast<int64_t>(here.groups.x) * COLUMNS;
    for (int64_t first = static_cast<int64_t>(here.group.x) * COLUMNS; first < columns; first += step) {
        const int64_t mine = first + here.index % COLUMNS;
        const bool active = mine < columns;
        const Column<Piece> column = column_at(static_cast<uint32_t>(active ? mine : first), k, v, args);
        for (int64_t done = 0; done < args.pairs; done += BATCH) {
            const device int64_t *batch = pairs + 2 * done;
            const uint n = static_cast<uint>(args.pairs - done < BATCH ? args.pairs - done : BATCH);
            const bool together = independent(batch, n, args.slots, here.lane);
            Piece held[HELD];
#pragma unroll
            for (int j = 0; j < HELD; j++) {
                const uint i = sharer + j * SHARERS;
                if (together && active && i < n) {
                    held[j] = *piece_at(column, batch[2 * i], args);
                }
            }
            threadgroup_barrier(mem_flags::mem_device);
#pragma unroll
            for (int j = 0; j < HELD; j++) {
                const uint i = sharer + j * SHARERS;
                if (together && active && i < n) {
                    *piece_at(column, batch[2 * i + 1], args) = held[j];
                }
            }
            if (!together && active && sharer == 0) {
                for (uint i = 0; i < n; i++) {
                    if (fkv::in_cache(batch[2 * i], args.slots) && fkv::in_cache(batch[2 * i + 1], args.slots)) {
                        *piece_at(column, batch[2 * i + 1], args) = *piece_at(column, batch[2 * i], args);
                    }
                }
            }
            threadgroup_barrier(mem_flags::mem_device);
        }
    }
}

} // namespace

// Grid: x over columns, 8 a threadgroup; a slot has kv_heads*(k_bytes + v_bytes)/16. Any
// grid is right. Both planes are aligned to 16 bytes.
[[max_total_threads_per_threadgroup(THREADS)]] kernel void
fkv_move_slots(device uint4 *k [[buffer(FKV_MOVE_SLOTS_K)]],
               device uint4 *v [[buffer(FKV_MOVE_SLOTS_V)]],
               const device int64_t *pairs [[buffer(FKV_MOVE_SLOTS_PAIRS)]],
               constant fkv_move_slots_args &args [[buffer(FKV_MOVE_SLOTS_BUFFERS)]],
               FKV_BUILTINS) {
    move_slots(k, v, pairs, args, FKV_HERE);
}

// The same in pieces of 4 bytes.
[[max_total_threads_per_threadgroup(THREADS)]] kernel void
fkv_move_slots_narrow(device uint *k [[buffer(FKV_MOVE_SLOTS_K)]],
                      device uint *v [[buffer(FKV_MOVE_SLOTS_V)]],
                      const device int64_t *pairs [[buffer(FKV_MOVE_SLOTS_PAIRS)]],
                      constant fkv_move_slots_args &args [[buffer(FKV_MOVE_SLOTS_BUFFERS)]],
                      FKV_BUILTINS) {
    move_slots(k, v, pairs, args, FKV_HERE);
}

// Grid: x over slots, y over KV heads; any grid is right.
[[max_total_threads_per_threadgroup(THREADS)]] kernel void
fkv_clear_mass(device float *mass [[buffer(FKV_CLEAR_MASS_MASS)]],
               const device int64_t *slots [[buffer(FKV_CLEAR_MASS_SLOTS)]],
               constant fkv_clear_mass_args &args [[buffer(FKV_CLEAR_MASS_BUFFERS)]],
               FKV_BUILTINS) {
    const fkv::Here here = FKV_HERE;
    const int64_t step = static_cast<int64_t>(here.groups.x) * THREADS;
    for (int64_t i = static_cast<int64_t>(here.group.x) * THREADS + here.index; i < args.n; i += step) {
        const int64_t slot = slots[i];
        if (!fkv::in_cache(slot, args.slots)) {
            continue;
        }
        const fkv::Place place = fkv::place_of(slot, args.block_size);
        for (uint32_t head = here.group.y; head < args.kv_heads; head += here.groups.y) {
            mass[fkv::row_at(place, args.kv_heads, head, args.block_size)] = 0;
        }
    }
}
