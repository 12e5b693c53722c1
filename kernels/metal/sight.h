// Which keys an item walks, and where they lie.
#pragma once

#include "kernel.h"

constant bool paged [[function_constant(FKV_PAGED)]];

namespace fkv {

// MOST_KEYS bounds a context, so that positions and tile numbers fit 32 bits. No device
// has memory for as many keys of one head.
constant constexpr uint32_t MOST_KEYS = 1 << 30;

// Span is positions [begin, begin+sinks) and, after a hole, [begin+sinks+hole, …),
// count in all: walked by number, so that no tile is spent on the hole.
struct Span {
    int begin, sinks, hole, count;

    int at(int i) const { return begin + i + (i < sinks ? 0 : hole); }
};

// Pages finds a sequence's keys in a plane. paged is a constant of the pipeline, so the
// other way costs nothing.
struct Pages {
    const device uint32_t *table; // of the sequence
    uint32_t blocks, heads, head, shift;
    int64_t own;   // contiguous: line of the keys
    int64_t begin; // and row of the first one

    Pages(const device uint32_t *tables, constant fkv_attend_args &args, uint32_t seq, uint32_t kv_head)
        : table(with_table ? tables + int64_t(seq) * args.table_stride : nullptr), blocks(args.blocks),
          heads(args.kv_heads), head(kv_head), shift(ctz(args.block_size)), own(0), begin(0) {
        if (paged) return;
        uint32_t block = seq;
        if (with_table) block = *table;
        own = int64_t(clamped(block)) * heads + head;
        begin = own * args.block_size;
    }

    // row is how many rows [dim] of the plane come before the key's.
    int64_t row(int key) const {
        if (!paged) return begin + key;
        const int64_t block = clamped(table[uint32_t(key) >> shift]);
        return ((block * heads + head) << shift) + (key & ((1 << shift) - 1));
    }

    // line is how many heads of blocks come before the one that has the row.
    int64_t line(int64_t row) const { return paged ? row >> shift : own; }

  private:
    uint32_t clamped(uint32_t block) const { return block < blocks ? block : blocks - 1; }
};

} // namespace fkv
