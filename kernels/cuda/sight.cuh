// Which keys a query sees, which of them an item walks, and where they lie.
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
struct Span {
    int begin, sinks, hole, count;
    int shut, closed;

    __device__ int at(int i) const { return begin + i + (i < sinks ? 0 : hole); }

    __device__ bool has(int i) const { return i < count && uint32_t(at(i) - shut) >= uint32_t(closed); }
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

    Sight() = default;

    __device__ Sight(const fkv_attend_args &args, int ctx)
        : causal(!(args.flags & FKV_NONCAUSAL)), newest(ctx - 1),
          window(causal && args.window > 0 && args.window < MOST_KEYS ? args.window : uint32_t(2 * MOST_KEYS)),
          sinks(int(min(args.sink_tokens, uint32_t(MOST_KEYS)))), older(args.flags & FKV_OLDER),
          recent(int(min(args.recent, uint32_t(MOST_KEYS)))),
          whole(args.recent > 0 && paged(args) ? -int(args.block_size) : 0) {}

    // last is the newest key that a query sees, -1 for none.
    __device__ int last(int position) const { return causal ? position : newest; }

    // edge is where the recent keys of a query begin.
    __device__ int edge(int position) const { return max(position - recent + 1, 0) & whole; }

    // after is the lowest position of a query that sees all keys before end.
    __device__ int after(int end) const { return older ? end - 1 + recent : end - 1; }

    // sees holds for keys of the context; the difference of a key after last is negative,
    // so as an unsigned number it is beyond every window. It is said without a branch.
    __device__ bool sees(int position, int key) const {
        int behind = last(position) - key;
        return ((uint32_t(behind) < window) | ((key < sinks) & (behind >= 0))) & ((key < edge(position)) == older);
    }

    // all reports whether all queries from position first to final see all keys from
    // low to high.
    __device__ bool all(int first, int final, int low, int high) const {
        return high <= last(first) && (uint32_t(last(final) - low) < window || high < sinks) &&
               (older ? high < edge(first) : low >= edge(final));
    }

    // none reports whether no such query sees such a key.
    __device__ bool none(int first, int final, int low, int high) const {
        return low > last(final) || (low >= sinks && last(first) - high >= 0 && uint32_t(last(first) - high) >= window) ||
               (older ? low >= edge(final) : high < edge(first));
    }

    // span is the part of [key, end) that queries first to final see together: every key
    // of it is seen by at least one, or, of older keys, one of its block is. A window that is no
    // longer than what is recent has no older keys but sinks.
    __device__ Span span(int first, int final, uint32_t key, uint32_t end, int ctx) const {
        int low = int(min(key, uint32_t(ctx))), high = min(int(min(end, uint32_t(ctx))), last(final) + 1);
        int64_t reach = int64_t(last(first)) + 1 - window;
        int open = reach > 0 ? int(reach) : 0; // of the window
        if (older) {
            high = min(high, edge(final));
            if (window <= uint32_t(recent)) open = max(open, high);
        } else {
            low = max(low, edge(first));
        }
        int closed = max(min(high, min(sinks, open)), low), begin = max(low, open);
        if (high <= closed) begin = closed; // sinks alone, and maybe not all of them
        Span s = {low, 0, 0, 0, closed, begin - closed};
        if (s.closed > 0) {
            closed = min((closed + LEAF - 1) / LEAF * LEAF, begin);
            begin = max(begin / LEAF * LEAF, closed);
        }
        s.sinks = closed - low;
        s.hole = begin - closed;
        s.count = s.sinks + max(high - begin, 0);
        return s;
    }
};

// Pages finds a sequence's keys in a plane. Both layouts are one walk: a context in one block is
// one page, whose block was looked up before.
struct Pages {
    const uint32_t *table; // of the sequence; nullptr: it lies in one block,
    uint32_t first;        // this one
    uint32_t blocks, heads, head, block_size, shift;

    __device__ Pages(const uint32_t *tables, const fkv_attend_args &args, uint32_t seq, uint32_t kv_head)
        : table(paged(args) ? tables + int64_t(seq) * args.table_stride : nullptr), first(tables && !table ? tables[seq] : seq),
          blocks(args.blocks), heads(args.kv_heads), head(kv_head), block_size(args.block_size),
          shift(table ? __ffs(int(args.block_size)) - 1 : 31) {}

    // row is how many rows [dim] of the plane come before the key's.
    __device__ int64_t row(int key) const { return panel(key) * block_size + offset(key); }

    // together reports whether n keys from one on lie one behind the other.
    __device__ bool together(int key, int n) const { return offset(key) + n <= block_size; }

    // panel is how many [block_size, dim] of the plane, one for a block and head, come before
    // the one that the key is in.
    __device__ int64_t panel(int key) const {
        const uint32_t block = table ? table[uint32_t(key) >> shift] : first;
        return int64_t(block < blocks ? block : blocks - 1) * heads + head;
    }

  private:
    // offset is the key's slot in its block.
    __device__ uint32_t offset(int key) const { return uint32_t(key) & ((1u << shift) - 1); }
};

} // namespace fkv
