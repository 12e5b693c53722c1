// Copies of whole blocks, within a cache, to another, or to and from memory that the host copies, and of single slots within
// one, and attention mass of slots that begin anew. Bytes move in pieces of 16, or of 4 in the narrow kernels; their type does not matter.
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

// copy_bytes copies bytes that lie alike in their pieces on both sides, which the blocks along x share: those before the first whole
// piece and behind the last one by one.
template <class Piece> __device__ inline void copy_bytes(const unsigned char *from, unsigned char *to, int64_t bytes) {
    const int64_t head = min(int64_t(-reinterpret_cast<uintptr_t>(to) % sizeof(Piece)), bytes);
    const int64_t pieces = (bytes - head) / sizeof(Piece), tail = head + pieces * sizeof(Piece);
    copy_block(reinterpret_cast<const Piece *>(from + head), reinterpret_cast<Piece *>(to + head), pieces);
    if (blockIdx.x == 0 && threadIdx.x < head) to[threadIdx.x] = from[threadIdx.x];
    if (blockIdx.x == 0 && tail + threadIdx.x < bytes) to[tail + threadIdx.x] = from[tail + threadIdx.x];
}

// copy_any takes pieces as large as both sides lie alike in.
__device__ inline void copy_any(const unsigned char *from, unsigned char *to, int64_t bytes) {
    const uintptr_t apart = reinterpret_cast<uintptr_t>(from) ^ reinterpret_cast<uintptr_t>(to);
    if (apart % sizeof(Wide) == 0) {
        copy_bytes<Wide>(from, to, bytes);
    } else if (apart % sizeof(Narrow) == 0) {
        copy_bytes<Narrow>(from, to, bytes);
    } else {
        copy_bytes<unsigned char>(from, to, bytes);
    }
}

// Plane is one of a set, whose blocks have bytes each and lie before bytes behind the beginning of those of the set.
struct Plane {
    unsigned char *at;
    int64_t bytes, before;
};

} // namespace

// Grid: x over slices of a plane's block, 1024 pieces a slice; y over planes and listed blocks. Any grid is right.
FKV_KERNEL(fkv_stage_blocks, THREADS, 0, const Plane *planes, const uint32_t *list, unsigned char *staging, fkv_stage_blocks_args args) {
    const uint32_t all = args.planes * args.listed;
    for (uint32_t i = blockIdx.y; i < all; i += gridDim.y) {
        const int64_t id = list[i / args.planes];
        const Plane plane = planes[i % args.planes];
        const int64_t first = i / args.planes * args.block_bytes + plane.before - args.begin; // of what is staged
        const int64_t skip = max(-first, int64_t{0}), bytes = min(plane.bytes, args.bytes - first) - skip;
        if (id < args.blocks && bytes > 0) {
            unsigned char *block = plane.at + id * plane.bytes + skip, *there = staging + first + skip;
            const bool back = args.flags & FKV_UNSTAGE;
            copy_any(back ? there : block, back ? block : there, bytes);
        }
    }
}

namespace {

constexpr unsigned MOVERS = 512;             // threads of a block that moves slots
constexpr unsigned COLUMNS = 2;              // that it moves at a time: 32 bytes of a row, or 8
constexpr unsigned LANES = MOVERS / COLUMNS; // threads that share a column
constexpr int SHARE = 8;                     // pairs that each of them has on their way
constexpr unsigned BATCH = LANES * SHARE;    // pairs that are on their way at once
constexpr unsigned FEW = 16;                 // pairs that rather go one by one

// Column is one piece of every slot, which moves without regard to the others.
template <class Piece> struct Column {
    Piece *plane;
    uint32_t head, piece, pieces; // piece of the pieces in a row of the head

    // at is the piece of a slot whose first head's row is given.
    __device__ Piece *at(int64_t row, uint32_t block_size) const {
        return plane + (row + static_cast<int64_t>(head) * block_size) * pieces + piece;
    }
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

// Pairs is what a block knows of the pairs of a batch: the rows of their slots, each that of the first head, or -1 where
// one of the two is outside of the cache; and destinations by a hash of them.
struct Pairs {
    static constexpr unsigned BUCKETS = 2048, DEEP = 8; // destinations that a bucket has room for: few fill one

    int64_t from[BATCH], to[BATCH];
    uint32_t filled[BUCKETS];
    uint16_t bucket[BUCKETS][DEEP];
    uint32_t late[BATCH / 32]; // bits of pairs that have to wait for one before

    __device__ static uint32_t hash(int64_t row) { return static_cast<uint32_t>(row) * 0x9e3779b1u >> 21; }

    // read begins a batch of n pairs.
    __device__ void read(const int64_t *pairs, unsigned n, const fkv_move_slots_args &args) {
        for (unsigned i = threadIdx.x; i < BUCKETS; i += MOVERS) filled[i] = 0;
        for (unsigned i = threadIdx.x; i < n; i += MOVERS) {
            const int64_t source = pairs[2 * i], slot = pairs[2 * i + 1];
            const bool inside = fkv::in_cache(source, args.slots) && fkv::in_cache(slot, args.slots);
            from[i] = inside ? row_of(source, args) : -1;
            to[i] = inside ? row_of(slot, args) : -1;
        }
    }

    // independent is how many of n pairs, from the first on, may all be read and then all be written: no source is
    // the destination of a pair before it, and no destination is there twice. Where a bucket has no room
    // for a destination, that is taken for one that is. All threads ask together and get the same answer.
    __device__ unsigned independent(unsigned n) {
        constexpr int EACH = BATCH / MOVERS; // pairs of a thread
        bool wait[EACH];
        __syncthreads();
#pragma unroll
        for (int j = 0; j < EACH; j++) {
            const unsigned i = threadIdx.x + j * MOVERS;
            wait[j] = false;
            if (i >= n || to[i] < 0) continue;
            const uint32_t b = hash(to[i]), place = atomicAdd(&filled[b], 1);
            wait[j] = place >= DEEP;
            if (!wait[j]) bucket[b][place] = static_cast<uint16_t>(i);
        }
        __syncthreads();
#pragma unroll
        for (int j = 0; j < EACH; j++) {
            const unsigned i = threadIdx.x + j * MOVERS;
            if (i < n && to[i] >= 0) wait[j] = wait[j] || written(from[i], i) || written(to[i], i);
            const unsigned mask = __ballot_sync(fkv::FULL, wait[j]);
            if (threadIdx.x % 32 == 0) late[i / 32] = mask;
        }
        __syncthreads();
        unsigned found = n;
        for (unsigned i = threadIdx.x % 32; i < BATCH / 32; i += 32) {
            if (late[i] != 0) found = min(found, i * 32 + __ffs(late[i]) - 1);
        }
#pragma unroll
        for (int apart = 16; apart > 0; apart /= 2) found = min(found, __shfl_xor_sync(fkv::FULL, found, apart));
        return found;
    }

  private:
    __device__ static int64_t row_of(int64_t slot, const fkv_move_slots_args &args) {
        return fkv::row_at(fkv::place_of(slot, args.block_size), args.kv_heads, 0, args.block_size);
    }

    // written tells whether a pair before number i has a destination.
    __device__ bool written(int64_t row, unsigned i) const {
        const uint32_t b = hash(row), n = min(filled[b], uint32_t{DEEP});
        bool found = false;
#pragma unroll 1 // few have more than one
        for (uint32_t place = 0; place < n; place++) {
            const unsigned other = bucket[b][place];
            found = found || (other < i && to[other] == row);
        }
        return found;
    }
};

// A block takes its own columns through all pairs, so that blocks need not wait for each
// other. It reads as many pairs as are independent, writes them after a barrier, and goes on with the next;
// where these are few, some go one by one, which is slow.
template <class Piece>
__device__ inline void move_slots(Piece *k, Piece *v, const int64_t *pairs, const fkv_move_slots_args &args) {
    FKV_SHARED(shared);
    Pairs &batch = *reinterpret_cast<Pairs *>(shared);
    const uint32_t columns = args.kv_heads * (args.k_bytes / sizeof(Piece) + args.v_bytes / sizeof(Piece));
    const unsigned lane = threadIdx.x / COLUMNS;
    for (int64_t first = blockIdx.x * COLUMNS; first < columns; first += gridDim.x * COLUMNS) {
        const int64_t mine = first + threadIdx.x % COLUMNS;
        const bool active = mine < columns;
        const Column<Piece> column = column_at(static_cast<uint32_t>(active ? mine : first), k, v, args);
        for (int64_t done = 0; done < args.pairs;) {
            unsigned n = static_cast<unsigned>(min(int64_t{BATCH}, args.pairs - done));
            batch.read(pairs + 2 * done, n, args);
            const unsigned together = batch.independent(n);
            if (together > FEW || together == n) {
                n = together;
                Piece held[SHARE];
#pragma unroll
                for (int j = 0; j < SHARE; j++) {
                    const unsigned i = lane + j * LANES;
                    if (active && i < n && batch.from[i] >= 0) held[j] = *column.at(batch.from[i], args.block_size);
                }
                __syncthreads();
#pragma unroll
                for (int j = 0; j < SHARE; j++) {
                    const unsigned i = lane + j * LANES;
                    if (active && i < n && batch.to[i] >= 0) *column.at(batch.to[i], args.block_size) = held[j];
                }
            } else {
                n = min(n, FEW);
                for (unsigned i = 0; active && lane == 0 && i < n; i++) {
                    if (batch.to[i] >= 0) *column.at(batch.to[i], args.block_size) = *column.at(batch.from[i], args.block_size);
                }
            }
            done += n;
            __syncthreads();
        }
    }
}

} // namespace

// Grid: x over columns, 2 a block; a slot has kv_heads*(k_bytes + v_bytes) over the
// bytes of a piece. Any grid is right. Both planes are aligned to their pieces.
#define MOVE_SLOTS(name, Piece)                                                                                   \
    FKV_KERNEL(fkv_move_slots##name, MOVERS, sizeof(Pairs), Piece *k, Piece *v, const int64_t *pairs,             \
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
