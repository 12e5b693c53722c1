// What the rows of an item see: a mask as ranges of keys, worked out once for each row.
#pragma once

#include "softmax.h"

namespace fkv {

constant constexpr uint32_t NO_BRANCH = 0xffffffff;

// lower and higher are min and max of 64 bits.
inline int64_t lower(int64_t a, int64_t b) { return a < b ? a : b; }
inline int64_t higher(int64_t a, int64_t b) { return a > b ? a : b; }

// Outlook is what one row sees: keys [low, shut), which are the first of its sequence, [begin, end), and,
// on a branch of a tree, drafts whose bits are set. Windows, chunks, edges and the ends of views are
// all in these numbers.
struct Outlook {
    int low, shut, begin, end;
    int position; // of the query, from which ALiBi counts
    float slope;
    uint32_t branch; // the row of the tree, or NO_BRANCH

    // Row r of an item; one behind its last sees nothing.
    Outlook(const thread Task &task, uint32_t r)
        : low(0), shut(0), begin(0), end(0), position(0), slope(0), branch(NO_BRANCH) {
        if (r >= task.item.rows) return;
        constant fkv_attend_args &args = *task.call.args;
        const bool older = args.flags & FKV_OLDER;
        const Row row = task.row(r);
        const int64_t drafts = int64_t(row.of.ctx) - row.of.queries;
        // Where the position is not negative it has 31 bits, and is divided as such: GPUs divide 64 slowly.
        int64_t here = drafts + row.query, first = 0, last = args.flags & FKV_NONCAUSAL ? row.of.ctx : here + 1;
        if (with_views) {
            const device uint32_t *view = task.call.views + 2 * int64_t(row.token());
            here = min(view[0], 0x7fffffffu), last = min(view[1], uint32_t(row.of.ctx));
        }
        if (with_tree) {
            const device uint32_t *bits = task.call.tree + int64_t(row.token()) * args.tree_words;
            for (uint32_t word = 0; branch == NO_BRANCH && word < args.tree_words; word++) {
                if (bits[word] != 0) branch = row.token();
            }
            if (branch != NO_BRANCH) last = lower(last, higher(drafts, 0)); // bits say the rest
            if (older || task.shared) branch = NO_BRANCH; // all drafts are from the edge on, and behind shared keys
        }
        if (args.recent > 0) {
            const uint32_t before = uint32_t(higher(here - args.recent + 1, 0));
            const uint32_t edge = before - before % args.block_size;
            if (older) {
                last = lower(last, edge);
            } else {
                first = edge;
            }
        }
        low = int(first), shut = int(higher(first, lower(last, args.sink_tokens)));
        if (args.window > 0) first = higher(first, here - args.window + 1), last = lower(last, here + args.window);
        if (args.chunk > 0) {
            const int64_t chunk = here < 0 ? -int64_t(args.chunk) : int64_t(uint32_t(here) / args.chunk * args.chunk);
            first = higher(first, chunk), last = lower(last, chunk + args.chunk);
        }
        begin = int(first), end = int(higher(first, last));
        position = int(higher(here, -int64_t(MOST_KEYS)));
        if (with_alibi) slope = task.call.alibi[row.head];
    }

    // sees is of ranges alone, and without a branch: the difference of a key below a range is beyond
    // it, as an unsigned number.
    bool sees(int key) const {
        return (uint32_t(key - low) < uint32_t(shut - low)) | (uint32_t(key - begin) < uint32_t(end - begin));
    }
};

// Tree is what rows need of the drafts of their sequence, the tokens of this call. Without one nothing of it is
// read, and compilers leave it out.
struct Tree {
    const device uint32_t *bits, *views; // of the call
    uint32_t words;                      // of a branch
    uint32_t token;                      // of the first draft
    int drafts;                          // its key

    Tree(const thread Task &task)
        : bits(task.call.tree), views(task.call.views), words(task.call.args->tree_words), token(task.own.token),
          drafts(task.drafts()) {}

    bool has(uint32_t branch, int key) const {
        const uint32_t number = key - drafts;
        return number / 32 < words && (bits[int64_t(branch) * words + number / 32] >> number % 32 & 1) != 0;
    }

    // position is a draft's.
    int position(int key) const {
        return with_views ? int(min(views[2 * (int64_t(token) + key - drafts)], 0x7fffffffu)) : key;
    }
};

// Lookout is the row that a lane looks after, and the tree that it may be in.
struct Lookout {
    Outlook row;
    Tree tree;

    Lookout(const thread Task &task, uint32_t r) : row(task, r), tree(task) {}

    // score is what the row gives to number i of a span for its product with the key, -inf where it does not see it.
    float score(float product, Scoring scoring, Span span, int i) const {
        const int key = span.at(i);
        bool seen = row.sees(key) & (i < span.count);
        int position = key;
        if (with_tree && row.branch != NO_BRANCH && i < span.count && key >= tree.drafts) {
            seen = tree.has(row.branch, key);
            position = tree.position(key);
        }
        const float score = scoring.score(product, row.slope, position - row.position);
        return seen ? score : NEG_INF;
    }
};

// asked reports whether a span may have keys that none of the rows that meet them sees: with views, whose ranges may
// lie apart, and of drafts. Their values, which may be anything, are left out then; of the keys scores are.
inline bool asked() { return with_views || with_tree; }

constant constexpr uint ALL_SEEN = 0xffffffff; // of keys, a bit each

// least is the smallest of all lanes' numbers.
inline int least(int x) { return -simd_max(-x); }

// Extent is what rows see together: nobody sees a key outside of [low, shut) and [begin, end), and
// all see those of [from, to).
struct Extent {
    int low, shut, begin, end, from, to;

    Extent() : low(MOST_KEYS), shut(0), begin(MOST_KEYS), end(0), from(0), to(MOST_KEYS) {}

    // of is that of all rows of an item, which the lanes of a simdgroup look at.
    static Extent of(const thread Task &task, uint lane) {
        Extent all;
        for (uint32_t r = lane; r < task.item.rows; r += LANES) all.add(Outlook(task, r), task);
        return all.joined();
    }

    // around is that of the rows that the lanes look after, if they are there.
    static Extent around(Outlook row, bool there, const thread Task &task) {
        Extent all;
        if (there) all.add(row, task);
        return all.joined();
    }

    // none and all tell whether none of the rows, or each, sees keys oldest to newest; not being sure, they say false.
    bool none(int oldest, int newest) const { return oldest >= shut && (oldest >= end || newest < begin); }
    bool all(int oldest, int newest) const { return oldest >= from && newest < to; }

  private:
    void add(Outlook row, const thread Task &task) {
        from = max(from, row.begin), to = min(to, row.end);
        if (row.low < row.shut) low = min(low, row.low), shut = max(shut, row.shut);
        if (row.begin < row.end) begin = min(begin, row.begin), end = max(end, row.end);
        if (with_tree && row.branch != NO_BRANCH) begin = min(begin, task.drafts()), end = task.own.ctx;
    }

    Extent joined() const {
        Extent all;
        all.low = least(low), all.shut = simd_max(shut);
        all.begin = least(begin), all.end = simd_max(end);
        all.from = simd_max(from), all.to = least(to);
        return all;
    }
};

// span_of is the keys of an item that its rows see. All lanes of a simdgroup call it.
inline Span span_of(const thread Task &task, uint lane) {
    const Extent all = Extent::of(task, lane);
    const int from = int(min(task.item.key, uint32_t(task.ctx))), to = int(min(task.item.key_end, uint32_t(task.ctx)));
    int low = max(from, all.low), closed = min(to, all.shut);
    if (closed <= low) low = closed = from; // none of the first keys
    int begin = max(closed, all.begin), high = min(to, all.end);
    if (high <= begin) begin = high = closed; // none of the others
    return {low, closed - low, begin - closed, closed - low + high - begin};
}

} // namespace fkv
