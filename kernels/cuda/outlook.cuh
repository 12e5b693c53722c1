// What the rows of an item see: a mask as ranges of keys, worked out once for each row.
#pragma once

#include "rows.cuh"
#include "softmax.cuh"

namespace fkv {

constexpr uint32_t NO_BRANCH = 0xffffffff;

// Outlook is what one row sees: keys [low, shut), which are the first of its sequence, [begin, end), and,
// on a branch of a tree, drafts whose bits are set. Windows, chunks, edges and the ends of views are
// all in these numbers.
struct alignas(16) Outlook {
    int low, shut, begin, end;
    int position; // of the query, from which ALiBi counts
    float slope;
    uint32_t branch; // the row of the tree, or NO_BRANCH
    float lse;       // for attention mass; -inf: the row counts for nothing

    Outlook() = default;

    // Row r of an item; one behind its last sees nothing.
    __device__ Outlook(const Task &task, uint32_t r) : low(0), shut(0), begin(0), end(0), position(0), slope(0), branch(NO_BRANCH), lse(-INFINITY) {
        if (r >= task.item.rows) return;
        const Operands &at = task.at;
        const fkv_attend_args &args = task.args;
        const bool older = args.flags & FKV_OLDER;
        const Row row = task.row(r);
        const int64_t drafts = int64_t(row.of.ctx) - row.of.queries;
        int64_t here = drafts + row.query, first = 0, last = args.flags & FKV_NONCAUSAL ? row.of.ctx : here + 1;
        if (at.views) {
            const uint32_t *view = at.views + 2 * int64_t(row.token());
            here = min(view[0], 0x7fffffffu), last = min(view[1], uint32_t(row.of.ctx));
        }
        for (uint32_t word = 0; at.tree && branch == NO_BRANCH && word < args.tree_words; word++) {
            if (at.tree[int64_t(row.token()) * args.tree_words + word] != 0) branch = row.token();
        }
        if (branch != NO_BRANCH) last = min(last, max(drafts, int64_t(0))); // bits say the rest
        if (older || task.shared) branch = NO_BRANCH; // all drafts are from the edge on, and behind shared keys
        if (args.recent > 0) {
            const uint32_t before = uint32_t(max(here - args.recent + 1, int64_t(0))), edge = before - before % args.block_size; // of 31 bits
            older ? last = min(last, int64_t(edge)) : first = edge;
        }
        low = int(first), shut = int(max(first, min(last, int64_t(args.sink_tokens))));
        if (args.window > 0) first = max(first, here - args.window + 1), last = min(last, here + args.window);
        if (args.chunk > 0) {
            const int64_t chunk = here < 0 ? -int64_t(args.chunk) : int64_t(uint32_t(here) / args.chunk * args.chunk);
            first = max(first, chunk), last = min(last, chunk + args.chunk);
        }
        begin = int(first), end = int(max(first, last));
        position = int(max(here, -MOST_KEYS));
        if (at.alibi) slope = at.alibi[row.head];
    }

    // sees is of ranges alone, and without a branch: the difference of a key below a range is beyond
    // it, as an unsigned number.
    __device__ bool sees(int key) const {
        return (uint32_t(key - low) < uint32_t(shut - low)) | (uint32_t(key - begin) < uint32_t(end - begin));
    }
};

// Tree is what an item needs of the drafts of its sequence, the tokens of this call.
struct alignas(16) Tree {
    const uint32_t *bits, *views; // of the call, or null
    uint32_t words;               // of a branch
    uint32_t token;               // of the first draft
    int drafts;                   // its key
    uint32_t rows;                // of the item

    __device__ bool has(uint32_t branch, int key) const {
        const uint32_t number = key - drafts;
        return number / 32 < words && bits[int64_t(branch) * words + number / 32] >> number % 32 & 1;
    }

    // position is a draft's.
    __device__ int position(int key) const {
        return views ? int(min(views[2 * (int64_t(token) + key - drafts)], 0x7fffffffu)) : key;
    }
};

// Extent is what rows see together: nobody sees a key outside of [low, shut) and [begin, end), and
// all see those of [from, to).
struct alignas(16) Extent {
    int low, shut, begin, end, from, to;
    int branches; // the first draft of a tree that a row is in; else MOST_KEYS

    // none and all tell whether none of the rows, or each, sees keys oldest to newest; not being sure, they say false.
    __device__ bool none(int oldest, int newest) const { return oldest >= shut && (oldest >= end || newest < begin); }
    __device__ bool all(int oldest, int newest) const { return oldest >= from && newest < to; }

    __device__ void add(const Outlook &row, const Task &task) {
        from = max(from, row.begin), to = min(to, row.end);
        if (row.low < row.shut) low = min(low, row.low), shut = max(shut, row.shut);
        if (row.begin < row.end) begin = min(begin, row.begin), end = max(end, row.end);
        if (row.branch != NO_BRANCH) branches = task.drafts(), begin = min(begin, branches), end = task.own.ctx;
    }

    // join makes it that of all lanes of a warp.
    __device__ void join() {
#pragma unroll 1
        for (int apart = 16; apart > 0; apart /= 2) {
            low = min(low, __shfl_xor_sync(FULL, low, apart)), shut = max(shut, __shfl_xor_sync(FULL, shut, apart));
            begin = min(begin, __shfl_xor_sync(FULL, begin, apart)), end = max(end, __shfl_xor_sync(FULL, end, apart));
            from = max(from, __shfl_xor_sync(FULL, from, apart)), to = min(to, __shfl_xor_sync(FULL, to, apart));
            branches = min(branches, __shfl_xor_sync(FULL, branches, apart));
        }
    }
};

// Lookout is the outlooks of an item's rows in shared memory, with the extents of 16 rows each: a loop has no
// registers for them.
struct Lookout {
    static constexpr int STRIP = 16, EXTENTS = int(sizeof(Tree)), SPAN = EXTENTS + FKV_WIDE_ROWS / STRIP * int(sizeof(Extent)),
                         PAGES = SPAN + int(sizeof(Span)),
                         FIRST = PAGES + int(sizeof(Pages));

    unsigned char *memory;

    // bytes is whole lines of shared memory, for the sake of what is copied behind them.
    static constexpr int bytes(int rows) { return whole_lines(FIRST + rows * int(sizeof(Outlook))); }

    __device__ Tree &tree() const { return *reinterpret_cast<Tree *>(memory); }
    __device__ Extent &extent(int r) const { return reinterpret_cast<Extent *>(memory + EXTENTS)[r / STRIP]; }
    __device__ Span &span() const { return *reinterpret_cast<Span *>(memory + SPAN); } // where a kernel keeps them
    __device__ Pages &pages() const { return *reinterpret_cast<Pages *>(memory + PAGES); }
    __device__ Outlook &row(int r) const { return reinterpret_cast<Outlook *>(memory + FIRST)[r]; }

    // look works rows [first, first+ROWS) of an item out, for a warp, and returns their extent; with keep all that
    // is kept here, for the block after a barrier.
    template <int ROWS> __device__ Extent look(const Task &task, uint32_t first, bool keep) const {
        Extent all = {int(MOST_KEYS), 0, int(MOST_KEYS), 0, 0, int(MOST_KEYS), int(MOST_KEYS)};
#pragma unroll 1
        for (uint32_t r = first + threadIdx.x % 32; r < first + ROWS; r += 32) {
            const Outlook of(task, r);
            if (keep) row(r) = of;
            if (r < task.item.rows) all.add(of, task);
        }
        all.join();
        if (keep && ROWS <= STRIP && threadIdx.x % 32 == 0) extent(first) = all;
        return all;
    }

    // note keeps what the rows have in common: a thread's work.
    __device__ void note(const Task &task) const {
        tree() = {task.at.tree, task.at.views, task.args.tree_words, task.own.token, task.drafts(), task.item.rows};
    }

    // score is what row r gives to number i of a span for its product with the key, -inf where it does not see it.
    __device__ float score(float product, const Scoring &scoring, int r, const Span &span, int i) const {
        const Outlook &from = row(r);
        const int key = span.at(i);
        bool seen = from.sees(key) & (i < span.count);
        int position = key;
        if (from.branch != NO_BRANCH && i < span.count && key >= tree().drafts) {
            seen = tree().has(from.branch, key);
            position = tree().position(key);
        }
        const float score = scoring.score(product, from.slope, position - from.position);
        return seen ? score : NEG_INF;
    }

    // anybody reports whether a row of the item sees a key of the context.
    __device__ bool anybody(int key) const {
        for (uint32_t r = 0; r < tree().rows; r++) {
            const Outlook &from = row(r);
            if (from.sees(key) || (from.branch != NO_BRANCH && key >= tree().drafts && tree().has(from.branch, key))) return true;
        }
        return false;
    }
};

// apart reports whether rows, whose outlooks are kept, see ranges of keys with keys between them that none of
// them sees. It is so with views alone. All threads of a block call it: what a ring asks of rows is kept after it.
__device__ inline bool apart(const Task &task, const Lookout &lookout) {
    if (task.at.views || task.at.tree) __syncthreads();
    if (!task.at.views || (task.args.window | task.args.chunk | task.args.recent) == 0) return false;
    bool found = false;
    for (uint32_t r = threadIdx.x % 32; r < task.item.rows; r += 32) {
        const Outlook mine = lookout.row(r);
        bool low = mine.low < mine.shut, begin = mine.begin < mine.end; // which are yet to be met from below
        bool lowest = true, first = true;
        for (uint32_t other = 0; other < task.item.rows; other++) {
            const Outlook &row = lookout.row(other);
            if (row.low < min(row.shut, mine.low)) lowest = false, low = low && row.shut < mine.low;
            if (row.begin < min(row.end, mine.begin)) first = false, begin = begin && row.end < mine.begin;
        }
        found = found || (low && !lowest) || (begin && !first);
    }
    return __any_sync(FULL, found);
}

// span_of is the keys of an item that are in an extent of all of its rows, whose outlooks are kept.
__device__ inline Span span_of(const Task &task, const Extent &all, const Lookout &lookout) {
    const int from = int(min(task.item.key, uint32_t(task.ctx))), to = int(min(task.item.key_end, uint32_t(task.ctx)));
    int low = max(from, all.low), closed = min(to, all.shut);
    if (closed <= low) low = closed = from; // none of the first keys
    int begin = max(closed, all.begin), high = min(to, all.end);
    if (high <= begin) begin = high = closed; // none of the others
    Span s = {low, 0, 0, 0, closed, begin - closed, apart(task, lookout) ? 0 : all.branches};
    if (s.closed > 0) {
        closed = min((closed + LEAF - 1) / LEAF * LEAF, begin);
        begin = max(begin / LEAF * LEAF, closed);
    }
    s.sinks = closed - low;
    s.hole = begin - closed;
    s.count = s.sinks + max(high - begin, 0);
    return s;
}

} // namespace fkv
