// What every attention kernel starts from: its buffers, and the task of a threadgroup,
// read from memory that nothing here trusts.
#pragma once

#include "dtype.h"
#include "sight.h"

constant bool with_offsets [[function_constant(FKV_WITH_OFFSETS)]];
constant bool with_views [[function_constant(FKV_WITH_VIEWS)]];
constant bool with_tree [[function_constant(FKV_WITH_TREE)]];
constant bool with_alibi [[function_constant(FKV_WITH_ALIBI)]];
constant bool with_sinks [[function_constant(FKV_WITH_SINKS)]];
constant bool with_softcap [[function_constant(FKV_WITH_SOFTCAP)]];
constant bool with_final_lse [[function_constant(FKV_WITH_FINAL_LSE)]];
constant bool with_partials [[function_constant(FKV_WITH_PARTIALS)]];

// Behind the function constants of abi.h are Metal's own: how keys and values are stored, each as the
// number of its type among FKV_EACH_STORAGE, in binary. So a pipeline has the code of its own types alone,
// which as arguments would be branches for every octet.
#if FKV_QUANT
enum { KEYS_STORED_0 = FKV_CONSTANTS, KEYS_STORED_1, KEYS_STORED_2, KEYS_STORED_3,
       VALUES_STORED_0, VALUES_STORED_1, VALUES_STORED_2, VALUES_STORED_3 };
constant bool keys_stored_0 [[function_constant(KEYS_STORED_0)]];
constant bool keys_stored_1 [[function_constant(KEYS_STORED_1)]];
constant bool keys_stored_2 [[function_constant(KEYS_STORED_2)]];
constant bool keys_stored_3 [[function_constant(KEYS_STORED_3)]];
constant bool values_stored_0 [[function_constant(VALUES_STORED_0)]];
constant bool values_stored_1 [[function_constant(VALUES_STORED_1)]];
constant bool values_stored_2 [[function_constant(VALUES_STORED_2)]];
constant bool values_stored_3 [[function_constant(VALUES_STORED_3)]];
#endif

namespace fkv {

#if FKV_QUANT
// storage_of is the word of storage.h of a type by the bits of its number.
inline uint storage_of(bool one, bool two, bool four, bool eight) {
    const uint number = uint(one) | uint(two) << 1 | uint(four) << 2 | uint(eight) << 3;
    uint i = 0;
#define FKV_NUMBERED(name, word)                                                                                     \
    if (number == i++) return word;
    FKV_EACH_STORAGE(FKV_NUMBERED)
#undef FKV_NUMBERED
    return 0; // there is no such type
}
inline uint keys_storage() { return storage_of(keys_stored_0, keys_stored_1, keys_stored_2, keys_stored_3); }
inline uint values_storage() { return storage_of(values_stored_0, values_stored_1, values_stored_2, values_stored_3); }
#else
inline uint keys_storage() { return 0; }
inline uint values_storage() { return 0; }
#endif

// Stored is a plane of the cache as one KV head sees it. scales is null where it is not quantized.
struct Stored {
    const device void *data;
    const device uint *scales;
    uint32_t storage, head, heads;
};

// Call is what a call reads, in the order of abi.h; what it has not is null.
struct Call {
    const device void *q, *k, *v;
    const device uint32_t *table, *context_lens, *query_offsets, *views, *tree, *work;
    const device float *alibi, *sinks;
    const device uint *k_scales, *v_scales;
    constant fkv_attend_args *args;

    Stored keys(uint32_t head) const { return {k, k_scales, keys_storage(), head, args->kv_heads}; }
    Stored values(uint32_t head) const { return {v, v_scales, values_storage(), head, args->kv_heads}; }
};

// Results is what it writes.
struct Results {
    device void *out;
    device float *lse, *partial, *partial_lse, *final_lse;
};

// Sequence is one of the call's, in numbers that were checked against it.
struct Sequence {
    uint32_t token; // of its query 0
    int64_t queries;
    int ctx;

    // read is false for a sequence that is not there or has no queries. slots bounds ctx.
    bool read(const thread Call &call, uint32_t seq, uint32_t slots) {
        constant fkv_attend_args &args = *call.args;
        if (seq >= args.seqs) return false;
        token = seq;
        uint32_t end = seq + 1;
        if (with_offsets) {
            token = call.query_offsets[seq];
            end = call.query_offsets[seq + 1];
        }
        end = min(end, args.tokens);
        queries = int64_t(end) - token;
        ctx = min(call.context_lens[seq], slots);
        return token < end;
    }
};

// latent reports whether keys of kdim elements are those of a latent cache: heads are no longer than 256.
constexpr bool latent(int kdim) { return kdim > 256; }

// Row is one query of one head: a row of an item.
struct Row {
    Sequence of;
    uint32_t query, head; // the query's number in its sequence

    uint32_t token() const { return of.token + query; }
};

// Task is what one threadgroup does: an item for a KV head, in numbers that were checked
// against the call. seq, rows and key ranges are good; base, part and parts are only
// after writable or mergeable.
struct Task {
    Call call;
    fkv_attend_item item;
    uint32_t kv_head, group;
    uint32_t seq;   // whose table says where the keys lie
    bool shared;    // the rows are of several sequences
    Sequence own;   // else: theirs
    uint32_t slots; // of a sequence, as far as its table goes
    int ctx;

    Task(Call c) : call(c) {}

    // read is false where the threadgroup has nothing that it may do. All of its threads call
    // it.
    bool read(Here here, uint32_t most_rows) {
        constant fkv_attend_args &args = *call.args;
        if (here.group.x >= args.items || here.group.y >= args.kv_heads) return false;
        const device uint32_t *word = call.work + FKV_WORK_HEADER + (int64_t(args.first) + here.group.x) * FKV_ITEM_WORDS;
        item = {word[0], word[1], word[2], word[3], word[4], word[5], word[6], word[7]};
        if (item.rows - 1 >= most_rows) return false;
        kv_head = here.group.y;
        group = args.q_heads / args.kv_heads;
        uint64_t most = paged ? uint64_t(args.table_stride) * args.block_size : args.block_size;
        if (args.blocks == 0) most = 0;
        slots = uint32_t(most > uint64_t(MOST_KEYS) ? uint64_t(MOST_KEYS) : most);
        seq = item.seq;
        shared = seq == FKV_MANY_SEQS;
        if (shared) {
            if (!paged || !with_partials || !read_shared(here.lane)) return false;
        } else {
            if (!own.read(call, seq, slots) || int64_t(item.row) + item.rows > own.queries * group) return false;
            ctx = own.ctx;
        }
        return true;
    }

    // writable reports whether the rows that a part of an item writes are there.
    bool writable() const {
        if (shared) return item.parts > 1;
        if (item.parts == 1) return item.part == 0;
        return with_partials && item.part < item.parts && fits(uint64_t(item.part) + 1);
    }

    // mergeable reports whether all parts of the item are there.
    bool mergeable() const { return with_partials && !shared && item.parts > 0 && fits(item.parts); }

    // row is row r of the item; one beyond its last is the last.
    Row row(uint32_t r) const {
        uint32_t packed = item.row + min(r, item.rows - 1);
        Sequence from = {};
        if (shared) {
            const device uint32_t *word = shared_row(r);
            packed = word[1];
            from.read(call, word[0], slots);
        } else {
            from = own;
        }
        return {from, packed / group, kv_head * group + packed % group};
    }

    // drafts is the key of the first token of the sequence in this call.
    int drafts() const {
        const int64_t before = own.ctx - own.queries;
        return before < 0 ? 0 : int(before);
    }

    // partial is the row of the workspace that a part gives row r of the item.
    int64_t partial(uint32_t part, uint32_t r) const {
        int64_t at_row = item.base + int64_t(part) * item.rows + r;
        if (shared) {
            const device uint32_t *word = shared_row(r);
            at_row = word[2] + int64_t(part) * word[3];
        }
        return at_row * call.args->kv_heads + kv_head;
    }

  private:
    bool fits(uint64_t parts) const {
        return item.base + parts * item.rows <= uint64_t(call.args->partial_rows) / call.args->kv_heads;
    }

    const device uint32_t *shared_row(uint32_t r) const {
        return call.work + call.args->shared_at + (int64_t(item.row) + min(r, item.rows - 1)) * FKV_ROW_WORDS;
    }

    // read_shared is read for an item of several sequences: the lanes look at its rows.
    bool read_shared(uint lane) {
        constant fkv_attend_args &args = *call.args;
        if (int64_t(item.row) + item.rows > args.shared_rows) return false;
        bool good = true;
        for (uint32_t r = lane; r < item.rows; r += LANES) {
            const device uint32_t *word = shared_row(r);
            good = good && own.read(call, word[0], slots) && word[1] < own.queries * group &&
                   word[2] + uint64_t(item.part) * word[3] < uint64_t(args.partial_rows) / args.kv_heads;
        }
        seq = *shared_row(0);
        ctx = int(min(item.key_end, slots));
        return simd_all(good);
    }
};

// query is row r of the item in Q, whose type is T.
template <class T> inline const device T *query(const thread Call &call, Row row) {
    constant fkv_attend_args &args = *call.args;
    return static_cast<const device T *>(call.q) + row.token() * args.q_stride + int64_t(row.head) * args.k_dim;
}

} // namespace fkv

// The scales of a quantized cache, which others do not have.
#if FKV_QUANT
#define FKV_ATTEND_SCALES                                                                                            \
    const device uint *k_scales [[buffer(FKV_ATTEND_KSCALES)]],                                                      \
        const device uint *v_scales [[buffer(FKV_ATTEND_VSCALES)]],
#define FKV_SCALES k_scales, v_scales
#else
#define FKV_ATTEND_SCALES
#define FKV_SCALES nullptr, nullptr
#endif

// FKV_ATTEND_KERNEL(threads, parameters) begins the definition of the instance's kernel;
// parameters are what it writes: FKV_ATTEND_RESULTS, but for attention mass. In its body
// FKV_CALL and FKV_WRITES are made of them.
#define FKV_ATTEND_KERNEL(threads, ...)                                                                              \
    [[max_total_threads_per_threadgroup(threads)]] kernel void FKV_NAME(                                             \
        const device void *q [[buffer(FKV_ATTEND_Q)]], const device void *k [[buffer(FKV_ATTEND_K)]],                \
        const device void *v [[buffer(FKV_ATTEND_V)]],                                                               \
        const device uint32_t *table [[buffer(FKV_ATTEND_TABLE), function_constant(with_table)]],                    \
        const device uint32_t *context_lens [[buffer(FKV_ATTEND_CONTEXT_LENS)]],                                     \
        const device uint32_t *query_offsets [[buffer(FKV_ATTEND_QUERY_OFFSETS), function_constant(with_offsets)]],  \
        const device uint32_t *views [[buffer(FKV_ATTEND_VIEWS), function_constant(with_views)]],                    \
        const device uint32_t *tree [[buffer(FKV_ATTEND_TREE), function_constant(with_tree)]],                       \
        const device uint32_t *work [[buffer(FKV_ATTEND_WORK)]],                                                     \
        const device float *alibi [[buffer(FKV_ATTEND_ALIBI), function_constant(with_alibi)]],                       \
        const device float *sinks [[buffer(FKV_ATTEND_SINKS), function_constant(with_sinks)]],                       \
        FKV_ATTEND_SCALES __VA_ARGS__,                                                                               \
        constant fkv_attend_args &args [[buffer(FKV_ATTEND_BUFFERS)]], FKV_BUILTINS)

#define FKV_ATTEND_RESULTS                                                                                           \
    device void *out [[buffer(FKV_ATTEND_OUT)]],                                                                     \
        device float *lse [[buffer(FKV_ATTEND_LSE), function_constant(with_lse)]],                                   \
        device float *partial [[buffer(FKV_ATTEND_PARTIAL), function_constant(with_partials)]],                      \
        device float *partial_lse [[buffer(FKV_ATTEND_PARTIAL_LSE), function_constant(with_partials)]],              \
        device float *final_lse [[buffer(FKV_ATTEND_FINAL_LSE), function_constant(with_final_lse)]]

#define FKV_CALL                                                                                                     \
    fkv::Call{q, k, v, with_table ? table : nullptr, context_lens, with_offsets ? query_offsets : nullptr,           \
              with_views ? views : nullptr, with_tree ? tree : nullptr, work, with_alibi ? alibi : nullptr,          \
              with_sinks ? sinks : nullptr, FKV_SCALES, &args}

#define FKV_WRITES                                                                                                   \
    fkv::Results{out, with_lse ? lse : nullptr, with_partials ? partial : nullptr,                                   \
                 with_partials ? partial_lse : nullptr, with_final_lse ? final_lse : nullptr}
