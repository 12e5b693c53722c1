// The attention kernels against a softmax in double: every kernel once, then masks,
// splits, lengths and scores at their borders, and operands full of garbage.
#include "attend_rig.h"

using namespace rig;

namespace {

// The race check is slow, and masks and lengths change no order of accesses.
#ifdef SIMT_TSAN
constexpr bool RACE_CHECK = true;
#else
constexpr bool RACE_CHECK = false;
#endif

struct Dims { uint32_t k, v; };
constexpr Dims DIMS[] = {{64, 64}, {80, 80}, {96, 96}, {112, 112}, {128, 128}, {192, 192}, {256, 256}, {192, 128}};

std::string name_of(const Case &c, const char *types) {
    return c.kind + " " + types + " " + std::to_string(c.kdim) + "/" + std::to_string(c.vdim) + (c.paged ? " paged" : " contiguous") +
           " heads " + std::to_string(c.q_heads) + "/" + std::to_string(c.kv_heads) + " window " + std::to_string(c.window) + "+" +
           std::to_string(c.sink_tokens) + (c.softcap > 0 ? " softcap" : "") + (c.alibi ? " alibi" : "") + (c.sinks ? " sinks" : "") +
           (c.noncausal ? " noncausal" : "") + (c.chunk ? " chunk " + std::to_string(c.chunk) : "") + (c.views ? " views" : "") + (c.tree_words ? " tree" : "") + (c.recent ? (c.older ? " older than " : " recent ") + std::to_string(c.recent) : "") +
           (c.k_storage ? " " + rig::name_of(c.k_storage) + "/" + rig::name_of(c.v_storage) : "") + (c.huge ? " huge" : "") + (c.tiny ? " tiny" : "") + " context " + std::to_string(c.seqs[0].ctx);
}

template <class A, class S> void check(const Case &c) {
    where = name_of(c, (std::string(type_name<A>) + "_" + type_name<S>).c_str());
    Call<A, S> call(c);
    call.attend();
    call.check();
}

// each_format runs f for the formats that a kind of kernel has.
template <class F> void each_format(const std::string &kind, F f) {
    f(F16{}, F16{});
    f(BF16{}, BF16{});
    if (kind != "prefill") {
        f(float{}, float{});
        f(float{}, F16{});
        f(float{}, BF16{});
    }
}

// The batch that every kernel is tried with: uneven, with chunks against a cached prefix.
std::vector<Sequence> mixed(const std::string &kind) {
    if (kind == "vector") {
        return {{37, 1}, {5, 2}, {130, 1}};
    }
    return kind == "decode" ? std::vector<Sequence>{{37, 1}, {70, 5}, {16, 3}} : std::vector<Sequence>{{150, 19}, {40, 40}, {17, 1}};
}

// So is the check of addresses; and each of Metal's kernels is compiled when it is first used.
#if defined(__SANITIZE_ADDRESS__) || defined(FKV_METAL)
constexpr bool SLOW = true;
#else
constexpr bool SLOW = RACE_CHECK;
#endif

// Storages are pairs of quantized types that a cache may have.
struct Storages { uint32_t k, v; };
constexpr Storages QUANTIZED[] = {
    {FKV_STORAGE_INT8, FKV_STORAGE_INT8}, {FKV_STORAGE_INT8ASYM, FKV_STORAGE_INT8ASYM}, {FKV_STORAGE_INT4, FKV_STORAGE_INT4},
    {FKV_STORAGE_INT4G64, FKV_STORAGE_INT4G64}, {FKV_STORAGE_FP8E4M3, FKV_STORAGE_FP8E4M3}, {FKV_STORAGE_FP8E5M2, FKV_STORAGE_FP8E5M2},
    {FKV_STORAGE_INT8, FKV_STORAGE_INT4}, {FKV_STORAGE_FP8E4M3, FKV_STORAGE_INT4}, {FKV_STORAGE_INT4CHANNEL, FKV_STORAGE_INT4},
    {FKV_STORAGE_INT4CHANNEL, FKV_STORAGE_INT8}, {FKV_STORAGE_MXFP4, FKV_STORAGE_MXFP4},
    {FKV_STORAGE_NVFP4, FKV_STORAGE_NVFP4},
};

// each_act runs f for the activations that a kind of kernel has beside quantized caches.
template <class F> void each_act(const std::string &kind, F f) {
    if (kind != "vector") {
        f(F16{});
        f(BF16{});
    }
    if (kind != "prefill") {
        f(float{});
    }
}

void every_kernel() {
    unsigned dims = 0;
    for (const char *kind : {"vector", "decode", "prefill"}) {
        for (Dims d : DIMS) {
            dims++;
            for (bool paged : {true, false}) {
                if (SLOW && paged != (dims % 2 == 1)) {
                    continue; // with a table and without take turns, and over the kinds each dim has both
                }
                Case c{kind, d.k, d.v, paged, 4, 2, paged ? 16u : 150u, mixed(kind)};
                c.parts = 3, c.table = below(2) != 0;
                each_format(kind, [&](auto a, auto s) { check<decltype(a), decltype(s)>(c); });
                each_act(kind, [&](auto a) {
                    static unsigned turn = 0;
                    const Storages of = QUANTIZED[turn++ % std::size(QUANTIZED)];
                    c.k_storage = of.k, c.v_storage = of.v;
                    check<decltype(a), Quant>(c);
                });
            }
        }
    }
}

// latents are caches of one plane.
void latents() {
    unsigned turn = 0;
    for (bool paged : {true, false}) {
        Case c{"decode", 576, 512, paged, 16, 1, paged ? 16u : 150u, mixed("decode")};
        c.parts = 3, c.table = below(2) != 0;
        each_format(c.kind, [&](auto a, auto s) { check<decltype(a), decltype(s)>(c); });
        for (uint32_t type : {FKV_STORAGE_INT8, FKV_STORAGE_FP8E4M3, FKV_STORAGE_INT4, FKV_STORAGE_MXFP4}) {
            if (SLOW && turn++ % 2 == paged) {
                continue;
            }
            c.k_storage = c.v_storage = type;
            each_act(c.kind, [&](auto a) { check<decltype(a), Quant>(c); });
        }
    }
    Case masked{"decode", 576, 512, true, 3, 1, 8, {{90, 4}, {33, 2}}};
    masked.window = 21, masked.sink_tokens = 3, masked.softcap = 2.5f, masked.views = true, masked.tree_words = 1;
    check<F16, F16>(masked);
    check<float, float>(masked);
}

// Every pair of types with every body, also where rows of 4-bit codes are no multiple of 16 bytes
// and groups are short, with a hole between sinks and window.
void every_storage() {
    unsigned turn = 0;
    for (const char *kind : {"vector", "decode", "prefill"}) {
        for (Storages of : QUANTIZED) {
            turn++;
            for (uint32_t dim : {80u, 96u}) {
                if (SLOW && (dim == 80) != (turn % 2 == 1)) {
                    continue; // the dims take turns
                }
                Case c{kind, dim, dim, dim == 80, 4, 2, dim == 80 ? 8u : 150u, mixed(kind)};
                c.k_storage = of.k, c.v_storage = of.v, c.window = 21, c.sink_tokens = 3, c.parts = 2;
                each_act(kind, [&](auto a) { check<decltype(a), Quant>(c); });
            }
        }
    }
}

// Every pair of types with each pair of dims of 64 and more that CUDA's decode has a loop of its own for, and with steps
// that need care there.
void fragments() {
    unsigned turn = 0;
    for (Dims d : {Dims{64, 64}, Dims{128, 128}, Dims{192, 128}, Dims{192, 192}, Dims{256, 256}}) {
        for (Storages of : QUANTIZED) {
            turn++;
            if (SLOW && turn % 3 != 0) {
                continue;
            }
            const bool paged = turn % 2 == 1;
            Case c{"decode", d.k, d.v, paged, 4, 2, paged ? 16u : 150u, mixed("decode")};
            c.k_storage = of.k, c.v_storage = of.v, c.parts = 2;
            check<F16, Quant>(c);
            c.window = 21, c.sink_tokens = 3, c.tiny = true, c.softcap = turn % 4 == 0 ? 2.5f : 0;
            check<F16, Quant>(c);
        }
    }
}

// any runs a case in one format of each body: tensor cores of both types, and f32.
void any(const Case &c) {
    check<F16, F16>(c);
    if (c.kind != "prefill") {
        check<float, float>(c);
    }
    check<BF16, BF16>(c);
}

void masks() {
    for (const char *kind : {"vector", "decode", "prefill"}) {
        for (int which = 0; which < 14; which++) {
            Case c{kind, 64, 64, which % 2 == 0, 6, 2, which % 2 ? 200u : 8u, mixed(kind)};
            c.parts = which % 3 + 1;
            c.window = which == 1 || which == 2 || which >= 6 ? uint32_t(1 + below(24)) : 0;
            c.sink_tokens = which == 2 || which >= 8 ? uint32_t(1 + below(9)) : 0;
            c.softcap = which == 3 || which >= 9 ? 2.5f : 0;
            c.alibi = which == 4 || which >= 10;
            c.sinks = which == 5 || which >= 11;
            if (which == 13) {
                c.noncausal = true, c.window = c.sink_tokens = 0;
            }
            any(c);
        }
    }
}

// older_and_recent has a part of the keys, with windows that end before the edge, at it and behind.
void older_and_recent() {
    for (const char *kind : {"vector", "decode", "prefill"}) {
        for (int which = 0; which < 16; which++) {
            Case c{kind, 64, 64, which % 8 != 3, 6, 2, which % 3 ? 16u : 8u, mixed(kind)};
            if (!c.paged) {
                c.block_size = 200;
            }
            c.parts = which % 3 + 1;
            c.recent = which % 4 == 0 ? 1 : 1 + uint32_t(below(40)), c.older = which < 8;
            c.window = which % 4 < 2 ? 0 : std::max(int(c.recent) - 8 + 12 * int(below(4)), 1);
            c.sink_tokens = which % 4 == 3 ? uint32_t(1 + below(50)) : 0;
            c.alibi = which == 5 || which == 12, c.sinks = which % 5 == 0;
            any(c);
        }
        Case wide{kind, 64, 64, true, 4, 4, 16, {{1000, 3}, {40, 1}, {300, 17}}};
        wide.parts = 5, wide.recent = 200;
        for (bool older : {false, true}) {
            wide.older = older, wide.window = 0, wide.sink_tokens = 0;
            any(wide);
            wide.window = 700, wide.sink_tokens = 100;
            any(wide);
            wide.window = 50, wide.sink_tokens = 900;
            any(wide);
        }
    }
}

// sights has queries that are anywhere in their sequences, or none of their tokens, drafts of trees, chunks and
// windows to both sides, one by one and together.
void sights() {
    for (const char *kind : {"vector", "decode", "prefill"}) {
        for (int which = 0; which < 32; which++) {
            Case c{kind, 64, 64, which % 2 == 0, 6, 2, which % 2 ? 200u : 8u, mixed(kind)};
            c.parts = which % 3 + 1;
            c.views = which % 4 < 3;
            c.tree_words = which % 3 == 1 ? 1 + uint32_t(below(3)) : 0;
            c.noncausal = !c.views && !c.tree_words && which % 8 == 3;
            c.window = which % 5 < 2 ? uint32_t(1 + below(40)) : 0;
            c.sink_tokens = c.window && which % 2 ? uint32_t(1 + below(20)) : 0;
            c.chunk = which % 5 == 2 ? uint32_t(1 + below(60)) : 0;
            c.recent = which % 5 == 3 && !c.noncausal ? uint32_t(1 + below(40)) : 0, c.older = c.recent && which % 2;
            c.alibi = which % 7 < 2, c.softcap = which % 7 == 3 ? 2.5f : 0;
            any(c);
        }
        Case wide{kind, 64, 64, true, 4, 4, 16, {{1000, 3}, {40, 1}, {300, 17}}};
        wide.parts = 5, wide.views = true;
        for (uint32_t window : {0u, 20u, 500u}) {
            wide.window = window, wide.chunk = window == 0 ? 64 : 0, wide.tree_words = window == 20;
            any(wide);
        }
    }
}

void borders() {
    for (const char *kind : {"vector", "decode", "prefill"}) {
        const uint32_t n = std::string(kind) == "prefill" ? 33 : 2;
        for (uint32_t ctx : {1u, 7u, 8u, 9u, 15u, 16u, 17u, 63u, 64u, 65u, 128u, 257u}) {
            Case c{kind, 64, 64, true, 2, 1, 8, {{ctx, std::min(ctx, n)}, {0, 1}, {ctx, 0}, {ctx, 1}, {2, 5}}};
            any(c);
            c.window = 5, c.sink_tokens = ctx % 5, c.parts = 9;
            any(c);
            c.sinks = true, c.window = 0;
            any(c);
        }
        for (uint32_t window = 1; window < 6; window++) {
            for (uint32_t sinks = 0; sinks < 7; sinks++) {
                Case small{kind, 64, 64, true, 1, 1, 4, {{9, 4}}};
                small.window = window, small.sink_tokens = sinks, small.parts = 2;
                any(small);
            }
        }
        Case wide{kind, 64, 64, true, 4, 4, 16, {{1000, n}, {40, 1}}};
        wide.window = 20, wide.sink_tokens = 4, wide.parts = 5; // a hole of hundreds of keys
        any(wide);
        wide.window = 0, wide.parts = 7;
        any(wide);
        Case many{kind, 64, 64, false, 32, 1, 70, {{70, 3}, {9, 2}}};
        any(many);
    }
}

void huge_scores() {
    for (const char *kind : {"vector", "decode", "prefill"}) {
        for (uint32_t parts : {1u, 4u}) {
            Case c{kind, 128, 128, true, 4, 2, 16, {{90, 2}, {33, 33}}};
            c.huge = true, c.parts = parts;
            any(c);
            c.alibi = true;
            any(c);
        }
    }
}

// spoil overwrites what a kernel reads from memory; it may do anything but leave its buffers
// or stop.
template <class C> void spoil(C &&call) {
    for (auto *memory : {call.work.get(), call.table.get(), call.lens.get(), call.query_offsets.get(), call.views.get(), call.tree.get()}) {
        const int64_t sound = below(3) ? 16 : 0; // of 17 words, or none at all
        for (size_t i = 0; i < memory->size(); i++) {
            if (below(sound + 1) > 0) {
                continue;
            }
            const uint32_t choices[] = {uint32_t(generator()), uint32_t(below(70)), 0xffffffff, 0x80000000, uint32_t(below(4)), (*memory)[i] + 1};
            (*memory)[i] = choices[below(6)];
        }
    }
    call.attend();
}

void garbage() {
    for (int round = 0; round < (SLOW ? 60 : 150); round++) {
        Case c{round % 3 == 0 ? "vector" : round % 3 == 1 ? "decode" : "prefill", 64, 64, round % 2 == 0, 4, 2, 16, {{16, 3}, {9, 2}}};
        c.parts = 3, c.window = round % 5, c.sink_tokens = round % 3;
        c.recent = round % 7, c.older = c.recent > 0 && round % 2 == 1;
        c.views = round % 4 < 2, c.tree_words = round % 5 == 0 ? 2 : 0, c.chunk = round % 11 == 0 ? 7 : 0;
        if (c.paged) {
            c.seqs[0].ctx = 60;
        }
        where = name_of(c, "f16_f16") + " garbage " + std::to_string(round);
        const Storages of = QUANTIZED[round % std::size(QUANTIZED)];
        Case quantized = c;
        quantized.k_storage = of.k, quantized.v_storage = of.v;
        quantized.kind = c.kind == "vector" ? "decode" : c.kind;
        spoil(Call<F16, F16>(c));
        spoil(Call<F16, Quant>(quantized));
    }
}

} // namespace

int main() {
    every_kernel();
    every_storage();
    fragments();
    latents();
    if (!RACE_CHECK) {
        masks();
        sights();
        older_and_recent();
        borders();
        huge_scores();
        garbage();
    }
    std::puts("attend: all right");
}
