// What every attention kernel starts from: its buffers, the names of its instances, and
// the task of a block of the grid, read from memory that nothing here trusts.
#pragma once

#include "dtype.cuh"
#include "sight.cuh"

namespace fkv {

// The storage types under the names that kernels carry.
using f16 = half;
using bf16 = bfloat;
using f32 = float;

// quant stands for all quantized types; arguments say which one a plane has.
struct quant;

// Operands are the buffers of a call in the order of abi.h.
struct Operands {
    const void *q, *k, *v;
    const uint32_t *table, *context_lens, *query_offsets, *views, *tree, *work;
    const float *alibi, *sinks;
    void *out;
    float *lse, *partial, *partial_lse, *final_lse, *mass;
    const uint32_t *k_scales, *v_scales;
};

// Sequence is one of the call's, in numbers that were checked against it.
struct Sequence {
    uint32_t token; // of its query 0
    int64_t queries;
    int ctx;

    // read is false for a sequence that is not there or has no queries. slots bounds ctx.
    __device__ bool read(const Operands &at, const fkv_attend_args &args, uint32_t seq, uint32_t slots) {
        if (seq >= args.seqs) return false;
        token = seq;
        uint32_t end = seq + 1;
        if (at.query_offsets) {
            token = at.query_offsets[seq];
            end = at.query_offsets[seq + 1];
        }
        end = min(end, args.tokens);
        queries = int64_t(end) - token;
        ctx = min(at.context_lens[seq], slots);
        return token < end;
    }
};

// Row is one query of one head: a row of an item.
struct Row {
    Sequence of;
    uint32_t query, head; // the query's number in its sequence

    __device__ uint32_t token() const { return of.token + query; }
};

// Task is what one block of the grid does: an item for a KV head, in numbers that were
// checked against the call. seq, rows and key ranges are good; base, part and parts are
// only after writable or mergeable.
struct Task {
    const Operands &at;
    const fkv_attend_args &args;
    fkv_attend_item item;
    uint32_t kv_head, group;
    uint32_t seq; // whose table says where the keys lie
    bool shared;  // the rows are of several sequences
    Sequence own; // else: theirs
    uint32_t slots; // of a sequence, as far as its table goes
    int ctx;

    __device__ Task(const Operands &operands, const fkv_attend_args &arguments) : at(operands), args(arguments) {}

    // read is false where the block has nothing that it may do. All of its threads call it.
    __device__ bool read(uint32_t most_rows) { return read_item(most_rows) && read_rows(); }

    // read_item is the first half of read, after which mergeable is known; whose the rows are takes one more
    // wait for memory, for which there may be something to do.
    __device__ bool read_item(uint32_t most_rows) {
        if (blockIdx.x >= args.items || blockIdx.y >= args.kv_heads) return false;
        const uint32_t *word = at.work + FKV_WORK_HEADER + (int64_t(args.first) + blockIdx.x) * FKV_ITEM_WORDS;
        item = {word[0], word[1], word[2], word[3], word[4], word[5], word[6], word[7]};
        if (item.rows - 1 >= most_rows) return false;
        kv_head = blockIdx.y;
        group = args.q_heads / args.kv_heads;
        uint64_t most = uint64_t(max(args.table_stride, 1u)) * args.block_size;
        if (args.blocks == 0) most = 0;
        slots = uint32_t(most > MOST_KEYS ? MOST_KEYS : most);
        seq = item.seq;
        shared = seq == FKV_MANY_SEQS;
        return true;
    }

    __device__ bool read_rows() {
        if (shared) {
            if (!paged(args) || !read_shared()) return false;
        } else {
            if (!own.read(at, args, seq, slots) || int64_t(item.row) + item.rows > own.queries * group) return false;
            ctx = own.ctx;
        }
        return true;
    }

    // writable reports whether the rows that a part of an item writes are there.
    __device__ bool writable() const {
        if (shared) return item.parts > 1;
        if (item.parts == 1) return item.part == 0;
        return item.part < item.parts && fits(uint64_t(item.part) + 1);
    }

    // mergeable reports whether all parts of the item are there.
    __device__ bool mergeable() const { return !shared && item.parts > 0 && fits(item.parts); }

    // row is row r of the item; one beyond its last is the last.
    __device__ Row row(uint32_t r) const {
        uint32_t packed = item.row + min(r, item.rows - 1);
        Sequence from = {};
        if (shared) {
            const uint32_t *word = shared_row(r);
            packed = word[1];
            from.read(at, args, word[0], slots);
        } else {
            from = own;
        }
        return {from, packed / group, kv_head * group + packed % group};
    }

    // drafts is the key of the first token of the sequence in this call.
    __device__ int drafts() const { return int(max(own.ctx - own.queries, int64_t(0))); }

    // partial is the row of the workspace that part gives row r of the item.
    __device__ int64_t partial(uint32_t part, uint32_t r) const {
        int64_t at_row = item.base + int64_t(part) * item.rows + r;
        if (shared) {
            const uint32_t *word = shared_row(r);
            at_row = word[2] + int64_t(part) * word[3];
        }
        return at_row * args.kv_heads + kv_head;
    }

  private:
    __device__ bool fits(uint64_t parts) const {
        return (item.base + parts * item.rows) * args.kv_heads <= uint64_t(args.partial_rows);
    }

    __device__ const uint32_t *shared_row(uint32_t r) const {
        return at.work + args.shared_at + (int64_t(item.row) + min(r, item.rows - 1)) * FKV_ROW_WORDS;
    }

    // read_shared is read for an item of several sequences: the lanes look at its rows.
    __device__ bool read_shared() {
        if (int64_t(item.row) + item.rows > args.shared_rows) return false;
        bool good = true;
        for (uint32_t r = threadIdx.x % 32; r < item.rows; r += 32) {
            const uint32_t *word = shared_row(r);
            const uint64_t partial = word[2] + uint64_t(item.part) * word[3], rows = args.partial_rows; // of as many as fit memory
            good = good && own.read(at, args, word[0], slots) && word[1] < own.queries * group && partial < rows && (partial + 1) * args.kv_heads <= rows;
        }
        seq = *shared_row(0);
        ctx = int(min(item.key_end, slots));
        return __all_sync(FULL, good);
    }
};

} // namespace fkv

// FKV_ATTEND_KERNEL(name, body) defines a kernel whose block runs body::run.
#define FKV_ATTEND_KERNEL(name, ...)                                                                                  \
    FKV_KERNEL_OF(name, (__VA_ARGS__::THREADS), (__VA_ARGS__::SHARED), (__VA_ARGS__::BLOCKS), const void *q,          \
                  const void *k, const void *v, const uint32_t *table, const uint32_t *context_lens,                  \
                  const uint32_t *query_offsets, const uint32_t *views, const uint32_t *tree, const uint32_t *work,   \
                  const float *alibi, const float *sinks, void *out, float *lse, float *partial, float *partial_lse,  \
                  float *final_lse, float *mass, const uint32_t *k_scales, const uint32_t *v_scales,                  \
                  fkv_attend_args args) {                                                                             \
        __VA_ARGS__::run({q, k, v, table, context_lens, query_offsets, views, tree, work, alibi, sinks, out, lse,     \
                          partial, partial_lse, final_lse, mass, k_scales, v_scales}, args);                          \
    }

// FKV_ATTEND_DIMS(KERNEL, ...) is KERNEL(..., kdim, vdim) for every pair of head sizes.
#define FKV_ATTEND_DIMS(KERNEL, ...)                                                                                  \
    KERNEL(__VA_ARGS__, 64, 64)                                                                                       \
    KERNEL(__VA_ARGS__, 80, 80)                                                                                       \
    KERNEL(__VA_ARGS__, 96, 96)                                                                                       \
    KERNEL(__VA_ARGS__, 112, 112)                                                                                     \
    KERNEL(__VA_ARGS__, 128, 128)                                                                                     \
    KERNEL(__VA_ARGS__, 192, 192)                                                                                     \
    KERNEL(__VA_ARGS__, 256, 256)                                                                                     \
    KERNEL(__VA_ARGS__, 192, 128)

// FKV_ATTEND_KIND defines the kernel of a kind.
#define FKV_ATTEND_KIND(kind, body, act, kv, kdim, vdim)                                                              \
    FKV_ATTEND_KERNEL(fkv_attend_##kind##_##act##_##kv##_##kdim##_##vdim, fkv::body<fkv::act, fkv::kv, kdim, vdim>)
