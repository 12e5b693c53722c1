// Which keys a query sees, which of them an item walks, and where they lie.
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

// Sight is a mask without its values: the rule of who sees whom.
struct Sight {
    bool causal;
    int newest;      // without causality: the newest key
    uint32_t window; // keys that a query sees, its own included
    int sinks;       // and first keys that it sees beyond those
    bool older;      // of all these the ones before its edge, else those from it on
    int recent;      // the fewest keys from the edge on, the query's own included
    int whole;       // rounds an edge down to whole blocks; 0: every edge is 0

    Sight() thread = default;

    Sight(constant fkv_attend_args &args, int ctx)
        : causal(!(args.flags & FKV_NONCAUSAL)), newest(ctx - 1),
          window(causal && args.window > 0 && args.window < MOST_KEYS ? args.window : 2 * MOST_KEYS),
          sinks(int(min(args.sink_tokens, uint32_t(MOST_KEYS)))), older(args.flags & FKV_OLDER),
          recent(int(min(args.recent, uint32_t(MOST_KEYS)))),
          whole(args.recent > 0 && args.table_stride > 1 ? -int(args.block_size) : 0) {}

    // last is the newest key that a query sees, -1 for none.
    int last(int position) const { return causal ? position : newest; }

    // edge is where the recent keys of a query begin.
    int edge(int position) const { return max(position - recent + 1, 0) & whole; }

    // after is the lowest position of a query that sees all keys before end.
    int after(int end) const { return older ? end - 1 + recent : end - 1; }

    // sees holds for keys of the context; the difference of a key after last is negative,
    // so as an unsigned number it is beyond every window. It is said without a branch.
    bool sees(int position, int key) const {
        const int behind = last(position) - key;
        return ((uint32_t(behind) < window) | ((key < sinks) & (behind >= 0))) & ((key < edge(position)) == older);
    }

    // all reports whether all queries from position first to final see all keys from
    // low to high.
    bool all(int first, int final, int low, int high) const {
        return high <= last(first) && (uint32_t(last(final) - low) < window || high < sinks) &&
               (older ? high < edge(first) : low >= edge(final));
    }

    // none reports whether no such query sees such a key.
    bool none(int first, int final, int low, int high) const {
        return low > last(final) || (low >= sinks && last(first) - high >= 0 && uint32_t(last(first) - high) >= window) ||
               (older ? low >= edge(final) : high < edge(first));
    }

    // span is the part of [key, end) that queries first to final see together: every key
    // of it is seen by at least one, or, of older keys, one of its block is. A window that is no
    // longer than what is recent has no older keys but sinks.
    Span span(int first, int final, uint32_t key, uint32_t end, int ctx) const {
        int low = int(min(key, uint32_t(ctx))), high = min(int(min(end, uint32_t(ctx))), last(final) + 1);
        const int64_t reach = int64_t(last(first)) + 1 - window;
        int open = reach > 0 ? int(reach) : 0; // of the window
        if (older) {
            high = min(high, edge(final));
            if (window <= uint32_t(recent)) open = max(open, high);
        } else {
            low = max(low, edge(first));
        }
        const int closed = min(high, min(sinks, open)), begin = max(low, open);
        Span s = {low, max(closed - low, 0), 0, 0};
        s.hole = begin - low - s.sinks;
        s.count = s.sinks + max(high - begin, 0);
        return s;
    }
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
