// The attention kernel of warpgroups over latents against a softmax in double.
#include "../attend_rig.h"
#include "omit_rig.h"

#include "hopper.cuh"

using namespace rig;

namespace {

// A case has all that masks, layouts and lengths can have of a kind.
constexpr int CASES = 13;
Case draw_case(int i) {
    Case c;
    c.kind = "wide", c.variant = "@latents", c.kdim = 576, c.vdim = 512, c.paged = i % 4 != 3;
    c.q_heads = i % 3 == 2 ? 6 : 16, c.kv_heads = i % 3 == 2 ? 2 : 1;
    c.block_size = !c.paged ? 300 : i % 4 == 0 ? 16 : i % 4 == 1 ? 8 : 64;
    c.seqs = i % 2 ? std::vector<Sequence>{{200, 5}, {37, 3}, {17, 1}} : std::vector<Sequence>{{275, 3}, {30, 9}};
    c.parts = i % 3 == 0 ? 3 : 1;
    switch (i) {
    case 2: c.q_heads = 80, c.kv_heads = 1, c.seqs = {{140, 2}}; break; // items with rows of two queries
    case 4: c.seqs = {{16, 3}, {128, 3}, {256, 4}}; break;              // tiles and pairs end where sequences do
    case 5: c.window = 50, c.sink_tokens = 3; break;
    case 6: c.softcap = 20, c.alibi = true; break;
    case 7: c.sinks = true; break;
    case 8: c.views = true, c.window = 40; break;
    case 9: c.tree_words = 2; break;
    case 10: c.noncausal = true; break;
    case 11: c.chunk = 48, c.huge = true; break;
    case 12: c.recent = 40; break;
    }
    return c;
}

// Latent is a call whose kernel takes the plane as a tensor map, too.
struct Latent : Call<BF16, BF16> {
    using Call::Call;

    const void *maps() override {
        const uint64_t rows = uint64_t(args.blocks) * c.kv_heads * c.block_size;
        maps_.keys = {reinterpret_cast<const unsigned char *>(k->data()), c.kdim, rows, 2 * c.kdim, simt::TensorMap::MAGIC, {}};
        return &maps_;
    }

  private:
    fkv::TensorMaps maps_{};
};

void check(int i) {
    const Case c = draw_case(i);
    where = "wide, latents, case " + std::to_string(i);
    for (int again = 0; again < 3; again++) { // launches differ in the order of threads, and in how late copies are
        Latent call(c);
        call.attend();
        call.check();
    }
}

} // namespace

int main() {
    if (!sanitized) each_wait_is_needed("latents", 10, [] { check(0); });
    for (int i = 0; i < CASES; i += sanitized ? 4 : 1) check(i);
    std::puts("attention of warpgroups over latents: ok");
}
