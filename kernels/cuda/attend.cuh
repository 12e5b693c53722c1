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
    const uint32_t *table, *context_lens, *query_offsets, *work;
    const float *alibi, *sinks;
    void *out;
    float *lse, *partial, *partial_lse, *final_lse, *mass;
    const uint32_t *k_scales, *v_scales;
};

// Row is one query of one head: a row of an item.
struct Row {
    uint32_t token, head;
    int position; // of the query in its sequence; -1 where a causal query comes before it
};

// Task is what one block of the grid does: an item for a KV head, in numbers that were
// checked against the call. seq, rows and key ranges are good; base, part and parts are
// only after writable or mergeable.
struct Task {
    fkv_attend_item item;
    uint32_t kv_head, group;
    uint32_t token; // of the sequence's query 0
    int64_t queries;
    int ctx;
    Sight sight;

    // read is false where the block has nothing that it may do.
    __device__ bool read(const Operands &at, const fkv_attend_args &args, bool paged, uint32_t most_rows) {
        if (blockIdx.x >= args.items || blockIdx.y >= args.kv_heads) return false;
        const uint32_t *word = at.work + FKV_WORK_HEADER + (int64_t(args.first) + blockIdx.x) * FKV_ITEM_WORDS;
        item = {word[0], word[1], word[2], word[3], word[4], word[5], word[6], word[7]};
        if (item.seq >= args.seqs || item.rows - 1 >= most_rows) return false;
        kv_head = blockIdx.y;
        group = args.q_heads / args.kv_heads;
        token = item.seq;
        uint32_t end = item.seq + 1;
        if (at.query_offsets) {
            token = at.query_offsets[item.seq];
            end = at.query_offsets[item.seq + 1];
        }
        end = min(end, args.tokens);
        if (token >= end) return false;
        queries = end - token;
        if (int64_t(item.row) + item.rows > queries * group) return false;
        uint64_t slots = paged ? uint64_t(args.table_stride) * args.block_size : args.block_size;
        if (args.blocks == 0) slots = 0;
        if (slots > MOST_KEYS) slots = MOST_KEYS;
        ctx = min(at.context_lens[item.seq], uint32_t(slots));
        sight = Sight(args, ctx);
        return true;
    }

    // writable reports whether the rows that a part of an item writes are there.
    __device__ bool writable(const fkv_attend_args &args) const {
        if (item.parts == 1) return item.part == 0;
        return item.part < item.parts && fits(args, uint64_t(item.part) + 1);
    }

    // mergeable reports whether all parts of the item are there.
    __device__ bool mergeable(const fkv_attend_args &args) const { return item.parts > 0 && fits(args, item.parts); }

    // row is row r of the item; one beyond its last sees nothing before a causal mask.
    __device__ Row row(uint32_t r) const {
        uint32_t packed = item.row + min(r, item.rows - 1), query = packed / group;
        int64_t position = ctx - queries + query;
        if (r >= item.rows) position = -1;
        int64_t least = sight.causal ? -1 : -MOST_KEYS;
        return {token + query, kv_head * group + packed % group, int(position < least ? least : position)};
    }

    // partial is the row of the workspace that part gives row r of the item.
    __device__ int64_t partial(uint32_t part, uint32_t r, const fkv_attend_args &args) const {
        return (item.base + int64_t(part) * item.rows + r) * args.kv_heads + kv_head;
    }

    // span is the keys of the item that its rows see.
    __device__ Span span() const { return sight.span(row(0).position, row(item.rows - 1).position, item.key, item.key_end, ctx); }

  private:
    __device__ bool fits(const fkv_attend_args &args, uint64_t parts) const {
        return item.base + parts * item.rows <= uint64_t(args.partial_rows) / args.kv_heads;
    }
};

} // namespace fkv

// FKV_ATTEND_KERNEL(name, body) defines a kernel whose block runs body::run.
#define FKV_ATTEND_KERNEL(name, ...)                                                                                  \
    FKV_KERNEL(name, (__VA_ARGS__::THREADS), (__VA_ARGS__::SHARED), const void *q, const void *k, const void *v,      \
               const uint32_t *table, const uint32_t *context_lens, const uint32_t *query_offsets,                    \
               const uint32_t *work, const float *alibi, const float *sinks, void *out, float *lse, float *partial,   \
               float *partial_lse, float *final_lse, float *mass, const uint32_t *k_scales,                           \
               const uint32_t *v_scales, fkv_attend_args args) {                                                      \
        __VA_ARGS__::run({q, k, v, table, context_lens, query_offsets, work, alibi, sinks, out, lse, partial,         \
                          partial_lse, final_lse, mass, k_scales, v_scales}, args);                                   \
    }

// FKV_ATTEND_DIMS(KERNEL, ...) is KERNEL(..., kdim, vdim) for every pair of head sizes.
#define FKV_ATTEND_DIMS(KERNEL, ...)                                                                                  \
    KERNEL(__VA_ARGS__, 64, 64)                                                                                       \
    KERNEL(__VA_ARGS__, 80, 80)                                                                                       \
    KERNEL(__VA_ARGS__, 96, 96)                                                                                       \
    KERNEL(__VA_ARGS__, 128, 128)                                                                                     \
    KERNEL(__VA_ARGS__, 192, 192)                                                                                     \
    KERNEL(__VA_ARGS__, 256, 256)                                                                                     \
    KERNEL(__VA_ARGS__, 192, 128)

// FKV_ATTEND_LAYOUTS defines the paged and the contiguous kernel of a kind.
#define FKV_ATTEND_LAYOUTS(kind, body, act, kv, kdim, vdim)                                                           \
    FKV_ATTEND_KERNEL(fkv_attend_##kind##_##act##_##kv##_##kdim##_##vdim##_paged,                                     \
                      fkv::body<fkv::act, fkv::kv, kdim, vdim, true>)                                                 \
    FKV_ATTEND_KERNEL(fkv_attend_##kind##_##act##_##kv##_##kdim##_##vdim##_contiguous,                                \
                      fkv::body<fkv::act, fkv::kv, kdim, vdim, false>)
