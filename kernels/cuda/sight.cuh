// Which keys an item walks, and where they lie.
#pragma once

#include "kernel.cuh"

namespace fkv {

// MOST_KEYS bounds a context, so that positions and tile numbers fit 32 bits. No device
// has memory for as many keys of one head.
constexpr int64_t MOST_KEYS = 1 << 30;

constexpr int LEAF = FKV_LEAF_KEYS;

// paged tells whether a sequence lies in blocks of a power of two slots; else in one, of any number.
__device__ inline bool paged(const fkv_attend_args &args) { return args.table_stride > 1; }

// Span is positions [begin, begin+sinks) and, after a hole, [begin+sinks+hole, …),
// count in all: walked by number, so that no tile is spent on the hole. Leaves at its edges are
// whole, with keys [shut, shut+closed) that are not part of it.
struct alignas(16) Span {
    int begin, sinks, hole, count;
    int shut, closed;
    int asked; // from this key on rows are asked, since none may see it

    __device__ int at(int i) const { return begin + i + (i < sinks ? 0 : hole); }

    __device__ bool has(int i) const { return i < count && uint32_t(at(i) - shut) >= uint32_t(closed); }
};

// Pages finds a sequence's keys in a plane. Both layouts are one walk: a context in one block is
// one page, whose block was looked up before.
struct alignas(16) Pages {
    const uint32_t *table; // of the sequence; nullptr: it lies in one block,
    uint32_t first;        // this one
    uint32_t blocks, heads, head, block_size, shift;

    __device__ Pages(const uint32_t *tables, const fkv_attend_args &args, uint32_t seq, uint32_t kv_head)
        : table(paged(args) ? tables + int64_t(seq) * args.table_stride : nullptr), first(tables && !table ? tables[seq] : seq),
          blocks(args.blocks), heads(args.kv_heads), head(kv_head), block_size(args.block_size),
          shift(table ? __ffs(int(args.block_size)) - 1 : 31) {}

    // row is how many rows [dim] of the plane come before the key's, whose block is at hand or looked up.
    __device__ int64_t row(int key, uint32_t block) const { return panel_of(block) * block_size + offset(key); }
    __device__ int64_t row(int key) const { return row(key, block(key)); }

    // block is a key's, as the table has it: a load of hundreds of cycles.
    __device__ uint32_t block(int key) const { return table ? table[uint32_t(key) >> shift] : first; }

    // together reports whether n keys from one on lie one behind the other.
    __device__ bool together(int key, int n) const { return offset(key) + n <= block_size; }

    // panel is how many [block_size, dim] of the plane, one for a block and head, come before
    // the one that the key is in.
    __device__ int64_t panel(int key) const { return panel_of(block(key)); }

  private:
    __device__ int64_t panel_of(uint32_t block) const { return int64_t(block < blocks ? block : blocks - 1) * heads + head; }

    // offset is the key's slot in its block.
    __device__ uint32_t offset(int key) const { return uint32_t(key) & ((1u << shift) - 1); }
};

} // namespace fkv
