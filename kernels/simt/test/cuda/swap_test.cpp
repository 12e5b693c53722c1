// Decode over codes with swapped operands against a softmax in double: every type that it has a loop for and those that become
// elements, with the masks, layouts and lengths that may meet them.
#include "../attend_rig.h"

using namespace rig;

namespace {

struct Pair { uint32_t k, v; };
constexpr Pair PAIRS[] = {
    {FKV_STORAGE_INT8, FKV_STORAGE_INT8}, {FKV_STORAGE_INT8ASYM, FKV_STORAGE_INT8ASYM}, {FKV_STORAGE_FP8E4M3, FKV_STORAGE_FP8E4M3},
    {FKV_STORAGE_FP8E5M2, FKV_STORAGE_FP8E5M2}, {FKV_STORAGE_INT4, FKV_STORAGE_INT4}, {FKV_STORAGE_INT4G64, FKV_STORAGE_INT4G64},
    {FKV_STORAGE_INT8, FKV_STORAGE_INT4}, {FKV_STORAGE_INT4CHANNEL, FKV_STORAGE_INT8}, {FKV_STORAGE_NVFP4, FKV_STORAGE_NVFP4},
};
constexpr int LOOPS = 6; // of their own

// A case has one of the groups 1, 4, 8 and 16, and of what an item may be; which of both meet changes with shift.
Case draw_case(int i, int shift) {
    Case c;
    c.kind = "decode", c.variant = "@swap", c.kdim = c.vdim = 128;
    constexpr uint32_t GROUPS[] = {4, 8, 1, 16};
    const uint32_t group = GROUPS[(i + shift) % 4];
    c.kv_heads = group < 8 ? 2 : 1, c.q_heads = group * c.kv_heads;
    c.paged = i % 4 != 3;
    c.block_size = !c.paged ? 300 : i % 3 == 0 ? 16 : i % 3 == 1 ? 8 : 64;
    c.seqs = i % 2 ? std::vector<Sequence>{{150, 1}, {37, 3}} : std::vector<Sequence>{{257, 1}, {16, 2}, {5, 5}};
    c.parts = i % 3 == 0 ? 3 : 1;
    switch (i) {
    case 1: c.seqs = {{32, 1}, {128, 2}, {64, 1}}; break; // tiles end where sequences do
    case 2: c.window = 50, c.sink_tokens = 3; break;
    case 3: c.softcap = 20, c.alibi = true, c.table = false; break;
    case 4: c.sinks = true, c.tiny = true, c.tiny_first = 128; break; // steps grow from one tile of a warp to its next
    case 5: c.views = true, c.window = 40; break;
    case 6: c.tree_words = 2, c.views = true; break;
    case 7: c.noncausal = true, c.tiny = true; break;
    case 8: c.chunk = 48; break;
    case 9: c.recent = 40, c.older = true; break;
    case 10: c.recent = 21, c.alibi = true; break;
    case 11: c.window = 5, c.sink_tokens = 40, c.parts = 4, c.sinks = true; break;
    }
    return c;
}

} // namespace

int main() {
    int shift = 0;
    for (const Pair &of : PAIRS) {
        for (int i = 0; i < 12; i++) {
            Case c = draw_case(i, shift);
            c.k_storage = of.k, c.v_storage = of.v;
            c.exact = of.k == of.v && (of.k == FKV_STORAGE_INT8 || of.k == FKV_STORAGE_INT8ASYM);
            where = "swap " + name_of(of.k) + "/" + name_of(of.v) + ", case " + std::to_string(i) + ", group " + std::to_string(c.q_heads / c.kv_heads);
            for (int again = 0; again < (shift < LOOPS ? 2 : 1); again++) { // launches differ in the order of threads, and in how late copies are
                Call<F16, Quant> call(c);
                call.attend();
                call.check();
            }
        }
        shift++;
    }
    std::puts("attention with swapped operands: ok");
}
