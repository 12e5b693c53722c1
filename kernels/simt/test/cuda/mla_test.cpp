// The draft of latents against a softmax in double.
#include "../rig.h"
#include "hopper.h"
#include <random>
using namespace rig;
static float widen(uint16_t b) { return __bfloat162float(__nv_bfloat16{b}); }
int main() {
    std::mt19937 g(1);
    std::normal_distribution<float> normal;
    for (int count : {16, 100, 128, 300, 515}) for (int late = 0; late < 2; late++) {
        const int blocks = 40, rows = blocks * 16, heads = 128;
        std::vector<uint16_t> kv(size_t(rows) * 576 + 64), q(size_t(heads) * 576 + 64), out(size_t(heads) * 512, 0xffff);
        uint16_t *kvp = reinterpret_cast<uint16_t *>((reinterpret_cast<uintptr_t>(kv.data()) + 15) / 16 * 16), *qp = reinterpret_cast<uint16_t *>((reinterpret_cast<uintptr_t>(q.data()) + 15) / 16 * 16);
        for (size_t i = 0; i < size_t(rows) * 576; i++) kvp[i] = __float2bfloat16_rn(normal(g)).bits;
        for (size_t i = 0; i < size_t(heads) * 576; i++) qp[i] = __float2bfloat16_rn(normal(g)).bits;
        std::vector<uint32_t> table(blocks);
        for (int i = 0; i < blocks; i++) table[i] = uint32_t(i * 7 % blocks);
        std::vector<float> lse(heads, NAN);
        fkv::TensorMap map{};
        map.base = reinterpret_cast<unsigned char *>(kvp), map.columns = 576, map.rows = rows, map.pitch = 576 * 2, map.magic = simt::TensorMap::MAGIC;
        const float natural = 1 / std::sqrt(192.f), scale = natural * 1.44269504f;
        const void *a = qp, *m = &map, *t = table.data(), *o = out.data(), *l = lse.data();
        int n = count, r = rows; float sc = scale;
        std::vector<void *> params{&a, &m, &t, &o, &l, &n, &r, &sc};
        const simt::Kernel *k = simt::find("x_mla@latents");
        char report[1024] = "";
        simt::Dim grid, block; grid.x = 2, block.x = k->threads;
        if (!simt::run({k, grid, block, k->shared, params.data()}, {uint64_t(count + late), bool(late), 2}, report, sizeof report)) { printf("FAIL %d %d: %s\n", count, late, report); return 1; }
        double worst = 0, worst_lse = 0;
        for (int h = 0; h < heads; h++) {
            std::vector<double> s(count), want(512);
            double top = -1e300, sum = 0, error = 0, norm = 0;
            for (int i = 0; i < count; i++) {
                const uint16_t *key = kvp + size_t(table[i / 16] * 16 + i % 16) * 576;
                for (int d = 0; d < 576; d++) s[i] += double(widen(qp[h * 576 + d])) * widen(key[d]);
                s[i] *= natural, top = std::max(top, s[i]);
            }
            for (int i = 0; i < count; i++) sum += s[i] = std::exp(s[i] - top);
            for (int i = 0; i < count; i++) for (int d = 0; d < 512; d++) want[d] += s[i] / sum * widen(kvp[size_t(table[i / 16] * 16 + i % 16) * 576 + d]);
            for (int d = 0; d < 512; d++) { const double e = widen(out[h * 512 + d]) - want[d]; error += e * e, norm += want[d] * want[d]; }
            worst = std::max(worst, std::sqrt(error / norm)); if (!(error == error)) worst = 1e9;
            worst_lse = std::max(worst_lse, std::fabs(lse[h] - (top + std::log(sum))));
        }
        printf("count %d %s: off by %g of the norm, log-sum-exp by %g\n", count, late ? "late" : "early", worst, worst_lse);
        if (!(worst < 1e-2 && worst_lse < 1e-4)) return 1;
    }
}
