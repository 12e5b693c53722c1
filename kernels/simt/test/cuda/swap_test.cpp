// Swapped operands over E4M3 against a softmax in double, for each warp's own tiles.
#include "../rig.h"
#include <random>
#include "sight.cuh"
using namespace rig;
static double e4m3(unsigned c) { const int e = c >> 3 & 15, m = c & 7; const double v = e ? std::ldexp(1 + m / 8.0, e - 7) : std::ldexp(m / 8.0, -6); return c & 128 ? -v : v; }
int main() {
    std::mt19937 g(1);
    std::normal_distribution<float> normal;
    for (int count : {32, 77, 128, 300}) for (int seed = 0; seed < 3; seed++) {
        const int tiles = (count + 31) / 32;
        std::vector<unsigned char> plane(tiles * 32 * 256 + 16), codes(tiles * 32 * 256);
        unsigned char *at = reinterpret_cast<unsigned char *>((reinterpret_cast<uintptr_t>(plane.data()) + 15) / 16 * 16);
        for (auto &c : codes) { do c = g() & 0xff; while ((c & 127) > 0x48); } // small, no NaN
        for (int tile = 0; tile < tiles; tile++) for (int plane_of = 0; plane_of < 2; plane_of++) for (int r = 0; r < 32; r++) for (int piece = 0; piece < 8; piece++) {
            const int to = piece ^ (plane_of ? r / 2 % 4 * 2 : r % 2 * 4);
            std::memcpy(at + tile * 8192 + plane_of * 4096 + r * 128 + to * 16, &codes[tile * 8192 + plane_of * 4096 + r * 128 + piece * 16], 16);
        }
        std::vector<uint16_t> q(16 * 136 + 16);
        for (auto &x : q) x = __float2half_rn(normal(g)).bits;
        std::vector<float> out(128 * 32, NAN);
        fkv_attend_args args{}; args.scale = 0.05f;
        fkv::Span span{0, 0, 0, count, 0, 0, 1 << 30};
        const void *a = q.data(), *b = at, *o = out.data();
        std::vector<void *> params{&a, &b, &o, &args, &span};
        const simt::Kernel *k = simt::find("x_swapped@swap");
        char report[512] = ""; simt::Dim grid, block; block.x = 128;
        if (!simt::run({k, grid, block, k->shared, params.data()}, {uint64_t(seed), seed % 2 == 1, 2}, report, sizeof report)) { printf("FAIL %s\n", report); return 1; }
        double worst = 0;
        for (int warp = 0; warp < 4; warp++) for (int h = 0; h < 8; h++) {
            std::vector<double> w(count, 0), want(128, 0); double top = -1e300, sum = 0, error = 0, norm = 0; bool any = false;
            auto code = [&](int key, int p, int d) { return e4m3(codes[key / 32 * 8192 + p * 4096 + key % 32 * 128 + d]); };
            for (int i = 0; i < count; i++) if (i / 32 % 4 == warp) { any = true; for (int d = 0; d < 128; d++) w[i] += __half2float(__half{q[h * 136 + d]}) * code(i, 0, d); w[i] *= 0.05f; top = std::max(top, w[i]); }
            if (!any) continue;
            for (int i = 0; i < count; i++) if (i / 32 % 4 == warp) sum += w[i] = std::exp(w[i] - top);
            for (int i = 0; i < count; i++) if (i / 32 % 4 == warp) for (int d = 0; d < 128; d++) want[d] += w[i] / sum * code(i, 1, d);
            for (int d = 0; d < 128; d++) {
                const int lane = d / 16 * 4 + h / 2, n = d % 16 / 2, e = d % 2 * 2 + h % 2;
                const double x = out[(warp * 32 + lane) * 32 + n * 4 + e] - want[d]; error += x * x, norm += want[d] * want[d];
            }
            worst = std::max(worst, std::sqrt(error / norm)); if (!(error == error)) worst = 1e9;
        }
        printf("%d keys, seed %d: off by %g of the norm\n", count, seed, worst);
        if (!(worst < 2e-3)) return 1;
    }
}
