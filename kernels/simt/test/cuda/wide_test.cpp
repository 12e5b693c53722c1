// The attention kernels of warpgroups against a softmax in double: as they are compiled, and with the other ways to bring
// tiles and to take turns.
#include "../attend_rig.h"
#include "omit_rig.h"

#include "../../../cuda/variants/wide/attend_wide.cuh"

#define FLAVOUR(name, ...) FKV_WIDE_KERNEL(fkv_attend_wide##name##_bf16_bf16_128_128, fkv::Wide<fkv::bf16, 128, 128, __VA_ARGS__>)
FLAVOUR(copy, false, true)
FLAVOUR(plain, true, false)
FLAVOUR(bare, false, false)

using namespace rig;

namespace {

// Wide is a call whose kernel takes the planes as tensor maps, too.
template <class A> struct Wide : Call<A, A> {
    explicit Wide(const Case &c) : Call<A, A>(c) {}

    const void *maps() override {
        const uint64_t rows = uint64_t(this->args.blocks) * this->c.kv_heads * this->c.block_size;
        for (auto [map, plane, dim] : {std::tuple{&maps_.keys, this->k.get(), this->c.kdim}, std::tuple{&maps_.values, this->v.get(), this->c.vdim}}) {
            *map = {static_cast<const unsigned char *>(plane->data()), dim, rows, 2 * dim, simt::TensorMap::MAGIC, {}};
        }
        return &maps_;
    }

  private:
    fkv::TensorMaps maps_{};
};

// A case has all that masks, layouts and lengths can have of a kind.
Case draw_case(int i) {
    Case c;
    c.kind = "wide", c.kdim = c.vdim = 128, c.paged = i % 4 != 3;
    c.q_heads = i % 3 == 2 ? 4 : 16, c.kv_heads = i % 3 == 2 ? 4 : 2;
    c.block_size = !c.paged ? 500 : i % 4 == 0 ? 16 : i % 4 == 1 ? 8 : 64;
    c.seqs = i % 2 ? std::vector<Sequence>{{300, 40}, {37, 37}, {17, 1}} : std::vector<Sequence>{{432, 9}, {130, 130}};
    c.parts = i % 3 == 0 ? 3 : 1;
    switch (i) {
    case 4: c.seqs = {{16, 16}, {128, 128}, {256, 30}}; break; // tiles end where sequences do
    case 5: c.window = 50, c.sink_tokens = 3; break;
    case 6: c.softcap = 20, c.alibi = true; break;
    case 7: c.sinks = true; break;
    case 8: c.views = true, c.window = 40; break;
    case 9: c.tree_words = 2; break;
    case 10: c.noncausal = true; break;
    case 11: c.chunk = 48, c.huge = true; break;
    }
    return c;
}

// The sanitizers are slow, and masks change no order of accesses.
template <class A> void all(const std::string &flavour) {
    for (int i = 0; i < 12; i += sanitized ? 4 : 1) {
        Case c = draw_case(i);
        c.flavour = flavour, c.variant = flavour.empty() ? "@wide" : "";
        where = "wide" + flavour + " " + type_name<A> + ", case " + std::to_string(i);
        for (int again = 0; again < 2; again++) { // launches differ in the order of threads, and in how late copies are
            Wide<A> call(c);
            call.attend();
            call.check();
        }
    }
}

// few is a case of several tiles, with whole leaves and edges.
void few(const std::string &flavour) {
    for (int again = 0; again < 3; again++) {
        Case c = draw_case(0);
        c.flavour = flavour, c.q_heads = 2, c.kv_heads = 1, c.seqs = {{700, 70}}, c.parts = 1;
        Wide<BF16> call(c);
        call.attend();
        call.check();
    }
}

} // namespace

int main() {
    if (!sanitized) { // without turns: a warpgroup that does not wait for its turn is only slower
        each_wait_is_needed("plain", 17, [] { few("plain"); });
        each_wait_is_needed("bare", 16, [] { few("bare"); });
    }
    for (const char *flavour : {"", "copy", "plain"}) all<BF16>(flavour);
    if (!sanitized) all<F16>("");
    std::puts("attention of warpgroups: ok");
}
