// A call of the attention kernels as a test makes it: operands that hold NaNs wherever
// no query looks, work cut at random, and the results in double.
#pragma once

#include <memory>

#include "plane.h"

namespace rig {

struct Sequence { uint32_t ctx, queries; };

// Case is the shape of a call; the rest of it is drawn at random.
struct Case {
    std::string kind; // vector, decode, prefill or wide
    uint32_t kdim, vdim;
    bool paged;
    uint32_t q_heads, kv_heads, block_size; // contiguous: slots of a sequence
    std::vector<Sequence> seqs;
    uint32_t parts = 1; // the most an item is split into
    uint32_t window = 0, sink_tokens = 0;
    uint32_t recent = 0; // 0: all keys, whether older or not
    bool older = false;
    uint32_t chunk = 0, tree_words = 0;
    bool views = false; // positions and ends of queries are drawn
    float softcap = 0;
    bool alibi = false, sinks = false, noncausal = false, table = true;
    bool huge = false; // scores are integers of up to 10000
    bool tiny = false; // two keys in three have steps and scales that are no normal halves
    uint32_t tiny_first = 0; // with tiny, the first tiny_first keys have such, too
    uint32_t k_storage = 0, v_storage = 0;
    std::string flavour, variant; // of its kernel: "copy", "@wide"
    bool exact = false;  // its scores are of keys that are not rounded

    bool latent() const { return kdim > 256; } // values are the first elements of keys

    uint32_t rows() const {
        const uint32_t wide = latent() ? FKV_WIDE_LATENT_ROWS : FKV_WIDE_ROWS;
        return kind == "vector" ? FKV_VECTOR_ROWS : kind == "decode" ? FKV_DECODE_ROWS : kind == "wide" ? wide : FKV_PREFILL_ROWS;
    }
};

constexpr float NO_WEIGHT = -std::numeric_limits<float>::infinity();

// limit is how far a row may be from the reference, as a part of its norm.
template <class A> constexpr double limit = std::is_same_v<A, float> ? 1e-5 : std::is_same_v<A, F16> ? 2e-3 : 1e-2;

// blended tells whether kernels make elements of codes with one rounding that at has not (see Plane).
// Those of channels they make either way, and from integers elements that are not rounded at all or are products of
// what was, so there log-sum-exps and masses are further off.
#ifdef FKV_METAL
template <class A, class S> constexpr bool blended = false;
#else
template <class A, class S> constexpr bool blended = std::is_same_v<S, Quant> && !std::is_same_v<A, float>;
#endif

// Call is a case with its operands.
template <class A, class S> class Call {
  public:
    explicit Call(const Case &of) : c(of) {
        args = {};
        args.flags = (c.noncausal ? FKV_NONCAUSAL : 0) | (c.older ? FKV_OLDER : 0);
        args.seqs = uint32_t(c.seqs.size());
        offsets.push_back(0);
        uint32_t longest = 0, blocks = 3;
        bool single = true;
        for (Sequence s : c.seqs) {
            offsets.push_back(offsets.back() + s.queries);
            longest = std::max(longest, s.ctx);
            blocks += c.paged ? (s.ctx + c.block_size - 1) / c.block_size : 1;
            single = single && s.queries == 1;
        }
        args.tokens = offsets.back();
        args.q_heads = c.q_heads, args.kv_heads = c.kv_heads, args.k_dim = c.kdim, args.v_dim = c.vdim;
        args.blocks = blocks, args.block_size = c.block_size;
        args.table_stride = c.paged ? std::max(2u, longest / c.block_size + 2) : 1;
        args.window = c.window, args.sink_tokens = c.sink_tokens, args.recent = c.recent;
        args.chunk = c.chunk, args.tree_words = c.tree_words;
        args.scale = c.huge ? 1 : 1 / std::sqrt(float(c.kdim));
        args.softcap = c.softcap;
        args.q_stride = int64_t(c.q_heads) * c.kdim + 16 * below(2);
        args.out_stride = int64_t(c.q_heads) * c.vdim + 16 * below(2);
        const size_t slots = size_t(blocks) * c.kv_heads * c.block_size;
        args.k_storage = c.k_storage, args.v_storage = c.v_storage;
        q = make<A>(args.tokens * args.q_stride);
        k = std::make_unique<Plane<S>>(Shape{blocks, c.kv_heads, c.block_size, c.kdim}, c.k_storage);
        v = std::make_unique<Plane<S>>(Shape{blocks, c.kv_heads, c.block_size, c.latent() ? 16 : c.vdim}, c.v_storage);
        if constexpr (std::is_same_v<S, Quant>) {
            for (Plane<S> *of : {k.get(), v.get()}) { // the backend takes any
                if (below(2) && (by_head(of->storage) || minifactors(of->storage)))
                    of->set_scale(below(c.kv_heads), below(2) ? 0 : -0.4f);
            }
        }
        out = make<A>(args.tokens * args.out_stride);
        lse = make<float>(args.tokens * c.q_heads), final_lse = make<float>(args.tokens * c.q_heads);
        slopes = make<float>(c.q_heads), sinks = make<float>(c.q_heads), mass = make<float>(slots);
        table = make<uint32_t>(size_t(args.seqs) * args.table_stride);
        lens = make<uint32_t>(args.seqs), query_offsets = make<uint32_t>(args.seqs + 1);
        views = make<uint32_t>(2 * args.tokens), tree = make<uint32_t>(size_t(args.tokens) * c.tree_words);
        with_offsets = !single || below(2);
        look();
        fill();
        cut();
    }

    // attend runs the items, merges those that were split, and adds the mass.
    void attend() {
        const std::string types = std::string(type_name<A>) + "_" + type_name<S>;
        const std::string dims = std::to_string(c.kdim) + "_" + std::to_string(c.vdim);
        args.first = 0, args.items = items;
        run("fkv_attend_" + c.kind + c.flavour + "_" + types + "_" + dims + c.variant, maps());
        args.first = items, args.items = merges;
        if (merges > 0) {
            run(std::string("fkv_attend_merge_") + type_name<A>);
        }
        args.first = 0, args.items = items;
        run("fkv_attend_mass_" + types + "_" + dims);
    }

    // maps are the planes as copies of boxes take them; null where the kernel has none.
    virtual const void *maps() { return nullptr; }

    void run(const std::string &name, const void *last = nullptr) {
#ifndef FKV_METAL
        const simt::Kernel *kernel = simt::find(name.c_str());
        demand(kernel == nullptr || kernel->shared <= (last ? 227 : 99) << 10, "more shared memory than a block may have on sm_86, or with maps on sm_90");
#endif
        simt::Dim grid;
        grid.x = std::max(args.items, 1u), grid.y = c.kv_heads;
        launch(name, grid, {q->data(), k->data(), (c.latent() ? k : v)->data(), c.paged || c.table ? table->data() : nullptr, lens->data(),
                            with_offsets ? query_offsets->data() : nullptr, c.views ? views->data() : nullptr,
                            c.tree_words ? tree->data() : nullptr, work->data(), c.alibi ? slopes->data() : nullptr,
                            c.sinks ? sinks->data() : nullptr, out->data(), lse->data(), partial->data(), partial_lse->data(),
                            final_lse->data(), mass->data(), k->scales(), (c.latent() ? k : v)->scales()}, args, last);
    }

    // check compares everything that attend wrote with the reference.
    void check() {
        std::vector<double> want_mass(mass->size(), 0);
        for (uint32_t seq = 0; seq < args.seqs; seq++) {
            for (uint32_t i = 0; i < c.seqs[seq].queries; i++) {
                for (uint32_t head = 0; head < c.q_heads; head++) {
                    check_row(seq, i, head, want_mass);
                }
            }
        }
        for (size_t i = 0; i < want_mass.size(); i++) {
            const double got = (*mass)[i];
            if (!(std::fabs(got - before_mass[i] - want_mass[i]) <= 2e-5 + mass_limit() * want_mass[i])) {
                fail("mass of slot " + std::to_string(i) + " grew by " + std::to_string(got - before_mass[i]) + ", want " + std::to_string(want_mass[i]));
            }
        }
    }

    Case c;
    fkv_attend_args args;
    uint32_t items = 0, merges = 0;
    bool with_offsets;
    std::vector<uint32_t> offsets;
    std::unique_ptr<Memory<A>> q, out;
    std::unique_ptr<Plane<S>> k, v;
    std::unique_ptr<Memory<float>> lse, final_lse, slopes, sinks, mass, partial, partial_lse;
    std::unique_ptr<Memory<uint32_t>> table, lens, query_offsets, views, tree, work;

  private:
    template <class T> static std::unique_ptr<Memory<T>> make(size_t n) { return std::make_unique<Memory<T>>((n + 15) / 16 * 16); }

    // look draws positions and ends, and the trees of some sequences.
    void look() {
        for (uint32_t seq = 0; seq < args.seqs; seq++) {
            const int64_t ctx = c.seqs[seq].ctx, queries = c.seqs[seq].queries, drafts = ctx - queries;
            const bool grows = c.tree_words > 0 && queries <= 32 * c.tree_words && drafts >= 0 && below(4) > 0;
            for (int64_t i = 0; i < queries; i++) {
                const uint32_t token = offsets[seq] + uint32_t(i), kind = below(4);
                int64_t at = drafts + i, to = c.noncausal ? ctx : at + 1;
                const bool branch = grows && below(6) > 0;
                if (c.views && branch) {
                    at = drafts + below(i + 1), to = at + 1;
                } else if (c.views) {
                    at = kind > 1 ? int64_t(below(ctx + 20)) : std::max(at, int64_t(0));
                    to = kind == 0 ? at + 1 : kind == 1 ? at + 1 + below(9) : kind == 2 ? ctx : below(ctx + 1);
                }
                at_.push_back(at), end_.push_back(std::min(to, ctx)), branch_.push_back(branch);
                (*views)[2 * token] = uint32_t(at), (*views)[2 * token + 1] = uint32_t(end_.back());
                for (uint32_t word = 0; word < c.tree_words; word++) {
                    (*tree)[size_t(token) * c.tree_words + word] = 0;
                }
                for (int64_t j = 0; branch && j <= i; j++) {
                    (*tree)[size_t(token) * c.tree_words + j / 32] |= uint32_t(j == i || below(2)) << j % 32;
                }
            }
        }
    }

    // draft is the number of a key among the drafts that query i of a sequence has bits for, or -1.
    int64_t draft(uint32_t seq, uint32_t i, uint32_t key) const {
        return branch_[offsets[seq] + i] ? std::max(int64_t(key) - c.seqs[seq].ctx + c.seqs[seq].queries, int64_t(-1)) : -1;
    }

    // position is where ALiBi has the key.
    int64_t position(uint32_t seq, uint32_t i, uint32_t key) const {
        const int64_t j = draft(seq, i, key);
        return j >= 0 && c.views ? at_[offsets[seq] + j] : key;
    }

    bool sees(uint32_t seq, uint32_t i, uint32_t key) const {
        const uint32_t token = offsets[seq] + i;
        const int64_t at = at_[token], k = key, j = draft(seq, i, key);
        if (j >= 0) {
            return !c.older && ((*tree)[size_t(token) * c.tree_words + j / 32] >> j % 32 & 1);
        }
        if (c.recent > 0 && (k < std::max(at + 1 - c.recent, int64_t(0)) / c.block_size * c.block_size) != c.older) {
            return false;
        }
        if (c.chunk > 0 && (at < 0 || k / c.chunk != at / c.chunk)) {
            return false;
        }
        return k < end_[token] && (c.window == 0 || k < c.sink_tokens || (at - k < c.window && k - at < c.window));
    }

    // seen reports whether a query sees a key, or, of older ones, one of its block.
    bool seen(uint32_t seq, uint32_t key) const {
        const uint32_t block = c.older ? c.block_size : 1, from = key / block * block;
        for (uint32_t k = from; k < from + block; k++) {
            for (uint32_t i = 0; i < c.seqs[seq].queries; i++) {
                if (sees(seq, i, k)) {
                    return true;
                }
            }
        }
        return false;
    }

    size_t slot(uint32_t seq, uint32_t head, uint32_t key) const {
        const uint32_t block = blocks_of[seq][c.paged ? key / c.block_size : 0];
        return (size_t(block) * c.kv_heads + head) * c.block_size + (c.paged ? key % c.block_size : key);
    }

    // fill leaves NaNs in slots, and garbage in table entries, that no query sees.
    void fill() {
        const int most = c.huge ? 9 : 0;
        for (size_t i = 0; i < q->size(); i++) {
            (*q)[i] = rounded<A>(c.huge ? double(below(2 * most + 1) - most) : normal());
        }
        for (uint32_t h = 0; h < c.q_heads; h++) {
            (*slopes)[h] = std::exp2(-1.f - float(h % 8));
            (*sinks)[h] = h % 5 == 4 ? NO_WEIGHT : float(3 * normal());
        }
        std::vector<uint32_t> free(args.blocks);
        for (uint32_t i = 0; i < args.blocks; i++) {
            free[i] = i;
        }
        std::shuffle(free.begin(), free.end(), generator);
        for (uint32_t seq = 0; seq < args.seqs; seq++) {
            const uint32_t ctx = c.seqs[seq].ctx, used = c.paged ? (ctx + c.block_size - 1) / c.block_size : 1;
            (*lens)[seq] = ctx, (*query_offsets)[seq] = offsets[seq];
            blocks_of.emplace_back();
            for (uint32_t b = 0; b < used; b++) {
                blocks_of[seq].push_back(c.paged || c.table ? free.back() : seq);
                free.pop_back();
            }
            for (uint32_t key = 0; key < ctx; key++) {
                if (!seen(seq, key)) {
                    continue;
                }
                (*table)[size_t(seq) * args.table_stride + (c.paged ? key / c.block_size : 0)] = blocks_of[seq][c.paged ? key / c.block_size : 0];
                for (uint32_t head = 0; head < c.kv_heads; head++) {
                    k->draw(slot(seq, head, key), most);
                    v->draw(slot(seq, head, key));
                    if constexpr (std::is_same_v<S, Quant>) {
                        if (c.tiny && (key % 3 != 0 || key < c.tiny_first)) {
                            k->shrink(slot(seq, head, key)), v->shrink(slot(seq, head, key));
                        }
                    }
                }
            }
        }
        (*query_offsets)[args.seqs] = args.tokens;
        for (size_t i = 0; i < mass->size(); i++) {
            (*mass)[i] = float(below(4));
        }
        before_mass = mass->copy();
    }

    // cut makes the work: tiles of rows, their keys in one to parts parts, some without keys.
    void cut() {
        std::vector<fkv_attend_item> all, split;
        uint32_t base = 0;
        for (uint32_t seq = 0; seq < args.seqs; seq++) {
            const uint32_t rows = c.seqs[seq].queries * (c.q_heads / c.kv_heads), ctx = c.seqs[seq].ctx;
            for (uint32_t row = 0, n; row < rows; row += n) {
                n = std::min(c.rows(), rows - row);
                if (below(4) == 0) {
                    n = 1 + uint32_t(below(n));
                }
                const uint32_t parts = 1 + uint32_t(below(c.parts));
                std::vector<uint32_t> ends;
                for (uint32_t p = 1; p < parts; p++) {
                    ends.push_back(uint32_t(below(ctx + 1)));
                }
                ends.push_back(ctx + uint32_t(below(3))); // what is no key does not count
                std::sort(ends.begin(), ends.end());
                for (uint32_t p = 0, key = 0; p < parts; key = ends[p++]) {
                    all.push_back({seq, row, n, key, ends[p], base, p, parts});
                }
                if (parts > 1) {
                    split.push_back({seq, row, n, 0, ctx, base, 0, parts});
                    base += parts * n;
                }
            }
        }
        std::shuffle(all.begin(), all.end(), generator);
        items = uint32_t(all.size()), merges = uint32_t(split.size());
        all.insert(all.end(), split.begin(), split.end());
        args.partial_rows = int64_t(base) * c.kv_heads;
        partial = std::make_unique<Memory<float>>(args.partial_rows * c.vdim);
        partial_lse = std::make_unique<Memory<float>>(args.partial_rows);
        work = std::make_unique<Memory<uint32_t>>(FKV_WORK_HEADER + all.size() * FKV_ITEM_WORDS);
        std::memcpy(work->data() + FKV_WORK_HEADER, all.data(), all.size() * sizeof all[0]);
    }

    bool either() const { return blended<A, S> && !small_floats(c.k_storage); }
    double lse_limit() const { return either() && !c.exact ? limit<A> / (nibbles(c.k_storage) && c.variant == "@swap" ? 3 : 4) : 2e-5; } // zero points of groups are rounded, too
    double mass_limit() const { return either() ? limit<A> / 2 : 1e-4; }

    // used is a stored value as kernels calculate with it: what was quantized is rounded to A, less what CUDA's
    // kernels leave out of elements and multiply products with.
    static double used(Plane<S> &of, size_t row, uint32_t d) {
        if constexpr (std::is_same_v<S, Quant>) {
            return blended<A, S> ? value(rounded<A>(of.blended(row, d))) * of.left_out(row) : value(rounded<A>(of.at(row, d)));
        } else {
            return of.at(row, d);
        }
    }

    void check_row(uint32_t seq, uint32_t i, uint32_t head, std::vector<double> &want_mass) {
        const uint32_t ctx = c.seqs[seq].ctx, kv_head = head / (c.q_heads / c.kv_heads), token = offsets[seq] + i;
        std::vector<double> scores(ctx, NO_WEIGHT), want(c.vdim);
        double top = c.sinks ? (*sinks)[head] : NO_WEIGHT, sum = 0, norm = 0, error = 0;
        for (uint32_t key = 0; key < ctx; key++) {
            if (!sees(seq, i, key)) {
                continue;
            }
            double s = 0;
            for (uint32_t d = 0; d < c.kdim; d++) {
                s += value((*q)[token * args.q_stride + head * c.kdim + d]) * (c.exact ? k->at(slot(seq, kv_head, key), d) : used(*k, slot(seq, kv_head, key), d));
            }
            s *= args.scale;
            if (c.softcap > 0) {
                s = c.softcap * std::tanh(s / c.softcap);
            }
            if (c.alibi) {
                s += double((*slopes)[head]) * double(position(seq, i, key) - at_[token]);
            }
            scores[key] = s;
            top = std::max(top, s);
        }
        if (top > NO_WEIGHT) {
            sum = c.sinks ? std::exp((*sinks)[head] - top) : 0;
            for (double s : scores) {
                sum += std::exp(s - top);
            }
        }
        const double want_lse = sum > 0 ? top + std::log(sum) : NO_WEIGHT;
        for (uint32_t key = 0; key < ctx; key++) {
            if (scores[key] == NO_WEIGHT) {
                continue;
            }
            const double p = std::exp(scores[key] - want_lse);
            want_mass[slot(seq, kv_head, key)] += p;
            for (uint32_t d = 0; d < c.vdim; d++) {
                want[d] += p * used(c.latent() ? *k : *v, slot(seq, kv_head, key), d);
            }
        }
        for (uint32_t d = 0; d < c.vdim; d++) {
            const double difference = value((*out)[token * args.out_stride + head * c.vdim + d]) - want[d];
            error += difference * difference, norm += want[d] * want[d];
        }
        const std::string row = "sequence " + std::to_string(seq) + " query " + std::to_string(i) + " head " + std::to_string(head);
        error = std::sqrt(error), norm = std::sqrt(norm);
        if (!(error <= limit<A> * std::max(norm, 1e-3))) {
            fail(row + ": off by " + std::to_string(error / norm) + " of its norm " + std::to_string(norm));
        }
        for (const Memory<float> *at : {lse.get(), final_lse.get()}) {
            const double got = const_cast<Memory<float> &>(*at)[token * c.q_heads + head];
            if (!(got == want_lse || std::fabs(got - want_lse) <= lse_limit() + 0x1p-23 * std::fabs(want_lse))) { // a product and a sum
                fail(row + ": log-sum-exp " + std::to_string(got) + ", want " + std::to_string(want_lse));
            }
        }
    }

    std::vector<std::vector<uint32_t>> blocks_of; // as the table would have them, without garbage
    std::vector<float> before_mass;
    std::vector<int64_t> at_, end_; // of each token
    std::vector<bool> branch_;      // is it on one of a tree
};

} // namespace rig
