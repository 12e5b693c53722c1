// The words of Metal: arithmetic, vectors, conversions, what simdgroups do together, and how a
// kernel meets its launch, against references that know nothing of lanes.
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "../../core/sanitizers.h"
#include "msl_rig.h"

namespace {

constexpr float INF = std::numeric_limits<float>::infinity();

// results are what a kernel with this body, run by one simdgroup, writes to out.
std::vector<float> results(const std::string &body, size_t count, const std::vector<float> &in = {}) {
    auto program = compile("[[max_total_threads_per_threadgroup(32)]] kernel void k(device float *out [[buffer(0)]],\n"
                           "const device float *in [[buffer(1)]], uint lane [[thread_index_in_simdgroup]]) {\n" +
                           body + "\n}");
    std::vector<float> out(count, NAN);
    demand(Run{program->find("k")}(out.data(), in.data()) == "");
    return out;
}

void test_numbers() {
    for (const char *type : {"float", "half"}) {
        std::string source = R"(
            if (lane != 0) return;
            T a = in[0], b = in[1], c = in[2];
            device float *o = out;
            *o++ = min(a, b); *o++ = max(a, b); *o++ = clamp(a, b, c); *o++ = clamp(a, T(-1), T(1));
            *o++ = fma(a, b, c); *o++ = exp2(a); *o++ = exp(a); *o++ = log(b);
            *o++ = select(a, b, a < b); *o++ = isnan(a) ? 1 : 0; *o++ = isnan(T(0) / T(0)) ? 1 : 0;
            vec<T, 3> v = vec<T, 3>(a, b, c), w = vec<T, 3>(b, a, a);
            v = max(v, w); *o++ = v.x; *o++ = v.y; *o++ = v.z;
            v = fma(v, w, vec<T, 3>(c)); *o++ = v.z;
            v = exp2(w); *o++ = v.y;
            *o++ = select(w, v, w < v).x;
            *o++ = INFINITY; *o++ = exp2(T(-INFINITY)); *o++ = log(T(0)) == -INFINITY ? 1 : 0; *o++ = max(T(-INFINITY), a);
            *o++ = rint(a); *o++ = rint(T(2.5)); *o++ = rint(-b); *o++ = fabs(v - v - c).y; *o++ = fabs(T(-INFINITY)); *o++ = isnan(T(NAN)) ? 1 : 0;
            *o++ = fast::exp2(a); *o++ = fast::exp2(T(-INFINITY)) == T(0) ? 1 : 0; // no kernel may count on it
        )";
        source = "typedef " + std::string(type) + " T;\n" + source;
        std::vector<float> in = {-1.5f, 0.75f, 2.0f};
        std::vector<float> out = results(source, 29, in);
        bool half = !strcmp(type, "half");
        auto is = [&](size_t i, double want) { demand(std::fabs(out[i] - want) <= std::fabs(want) * (half ? 1e-3 : 2e-7)); };
        double a = in[0], b = in[1], c = in[2];
        is(0, a), is(1, b), is(2, b), is(3, -1), is(4, a * b + c), is(5, std::exp2(a)), is(6, std::exp(a)), is(7, std::log(b));
        is(8, b), is(9, 0), is(10, 1), is(11, b), is(12, b), is(13, c), is(14, c * a + c), is(15, std::exp2(a));
        is(16, std::exp2(b)), demand(out[17] == INF), is(18, 0), is(19, 1), is(20, a);
        is(21, -2), is(22, 2), is(23, -1), is(24, c), demand(out[25] == INF), is(26, 1); // ties to even
        is(27, std::exp2(a)), is(28, 0);
    }
}

void test_integers() {
    std::vector<float> out = results(R"(
        if (lane != 0) return;
        device float *o = out;
        *o++ = ctz(40u); *o++ = ctz(0u); *o++ = ctz(ushort(0)); *o++ = ctz(1ul << 40); *o++ = popcount(0xf0f0u); *o++ = popcount(short(-1));
        *o++ = popcount(ulong(-1)); *o++ = min(-3, 2); *o++ = max(3u, 4000000000u); *o++ = clamp(7, 1, 5);
        *o++ = sizeof(long); *o++ = sizeof(ulong2); *o++ = sizeof(float3); *o++ = sizeof(half4); *o++ = alignof(bfloat4); *o++ = sizeof(size_t);
        *o++ = as_type<float>(0x40490fdbu); *o++ = as_type<half>(ushort(0x3c01)); *o++ = as_type<uint2>(half4(1, 2, 3, 4)).y == 0x44004200u;
        *o++ = sizeof(1.0); *o++ = 1.5h; *o++ = 1 / 3.0 == 1 / 3.0f; *o++ = popcount(uint2(7, 1)).x + ctz(uint2(8, 0)).y;
    )", 23);
    const float want[] = {3, 32, 16, 40, 8, 16, 64, -3, 4e9f, 5, 8, 16, 16, 8, 8, 8, 3.14159274f, 1.0009765625f, 1, 4, 1.5f, 1, 35};
    for (size_t i = 0; i < out.size(); i++)
        demand(out[i] == want[i]);
}

// Constructors of every kind, by every kind of name, and swizzles on both sides.
void test_vectors() {
    auto program = compile(R"(
        template <class T> struct Traits { using V4 = vec<T, 4>; typedef vec<T, 2> V2; };
        template <class V> V sum(V a, V b) { return V(a) + V(b.x); }
        template <class T> float4 nested(T x) { return float4(typename Traits<T>::V4(x, x, typename Traits<T>::V2(2, 3))); }
        inline float second(thread const float4 (&rows)[2]) { return rows[1].y; }
        constant float4 TABLE[2] = {{1, 2, 3, 4}, {5, 6, 7, 8}};
        [[max_total_threads_per_threadgroup(32)]] kernel void k(device float4 *out [[buffer(0)]], uint lane [[thread_index_in_simdgroup]]) {
            using Four = metal::vec<float, 4>;
            if (lane != 0) return;
            out[0] = float4(1, float2(2, 3), 4);
            out[1] = Four(7);
            out[2] = nested(half(0.5h));
            out[3] = sum(float4(1, 2, 3, 4), float4(10));
            float4 v = float4(float3(1, 2, 3), 0);
            v.zw = v.xy * 10.0;
            v.x += 0.5;
            out[4] = v.wzyx;
            float4 rows[2] = {TABLE[0], float4(uint4(9, 8, 7, 6))};
            out[5] = float4(second(rows), TABLE[1].xyz);
            out[6] = float4(int4(float4(1.9, -1.9, 0.5, 100)));
            out[7] = v /* float4( */ + float4("(}"[0] == '(' ? 1 : 2) - float4();
        }
    )");
    alignas(16) float out[8][4];
    demand(Run{program->find("k")}(&out[0][0]) == "");
    const float want[8][4] = {{1, 2, 3, 4}, {7, 7, 7, 7}, {0.5, 0.5, 2, 3}, {11, 12, 13, 14}, {20, 10, 2, 1.5}, {8, 5, 6, 7}, {1, -1, 0, 100}, {2.5, 3, 11, 21}};
    demand(!memcmp(out, want, sizeof out));
}

// A storage type, as its definition says: fraction bits and exponent range.
struct Format {
    int fraction, least, most;

    double value(uint16_t bits) const {
        int exponent = bits >> fraction & ((1 << (15 - fraction)) - 1), low = bits & ((1 << fraction) - 1);
        double magnitude;
        if (exponent == (1 << (15 - fraction)) - 1)
            magnitude = low ? std::nan("") : INF;
        else if (exponent == 0)
            magnitude = std::ldexp(low, least - fraction);
        else
            magnitude = std::ldexp(low + (1 << fraction), least - fraction + exponent - 1);
        return bits >> 15 ? -magnitude : magnitude;
    }
};

// Every value there and back; between neighbours rounding goes to the nearest, ties to even.
void test_conversion(const std::string &type, Format format) {
    auto program = compile("typedef " + type + R"( T;
        [[max_total_threads_per_threadgroup(32)]] kernel void widen(const device T *in [[buffer(0)]], device float4 *out [[buffer(1)]],
                                                                   uint lane [[thread_index_in_simdgroup]]) {
            for (uint i = lane; i < 16384; i += 32) out[i] = i % 2 ? float4(((const device vec<T, 4> *)in)[i]) : float4(in[4 * i], in[4 * i + 1], in[4 * i + 2], in[4 * i + 3]);
        }
        [[max_total_threads_per_threadgroup(32)]] kernel void narrow(const device float4 *in [[buffer(0)]], device T *out [[buffer(1)]],
                                                                   constant uint &n [[buffer(2)]], uint lane [[thread_index_in_simdgroup]]) {
            for (uint i = lane; i < n / 4; i += 32)
                if (i % 2)
                    ((device vec<T, 4> *)out)[i] = vec<T, 4>(in[i]);
                else
                    for (int j = 0; j < 4; j++) out[4 * i + j] = static_cast<T>(in[i][j]);
        }
    )");
    std::vector<uint16_t> bits(65536), want;
    std::vector<float> wide(65536), in;
    for (uint32_t i = 0; i < bits.size(); i++)
        bits[i] = uint16_t(i);
    demand(Run{program->find("widen")}(bits.data(), wide.data()) == "");
    for (uint32_t i = 0; i < bits.size(); i++) {
        double exact = format.value(uint16_t(i));
        demand(std::isnan(exact) ? std::isnan(wide[i]) : wide[i] == exact && std::signbit(wide[i]) == std::signbit(exact));
        if (std::isnan(exact))
            continue;
        in.push_back(wide[i]), want.push_back(uint16_t(i));
        if (std::isinf(exact))
            continue;
        double next = format.value(uint16_t(i + 1)); // away from zero; after the last number, infinity
        if (std::isinf(next))
            next = std::copysign(std::ldexp(1, format.most + 1), exact);
        float middle = float((exact + next) / 2);
        if (middle == wide[i])
            continue; // an f32 has no room between them
        in.push_back(middle), want.push_back(uint16_t(i % 2 ? i + 1 : i));
        in.push_back(std::nextafter(middle, wide[i])), want.push_back(uint16_t(i));
        in.push_back(std::nextafter(middle, middle * 2)), want.push_back(uint16_t(i + 1));
    }
    while (in.size() % 4)
        in.push_back(0), want.push_back(0);
    std::vector<uint16_t> out(in.size());
    uint32_t n = uint32_t(in.size());
    demand(Run{program->find("narrow")}(in.data(), out.data(), &n) == "");
    for (size_t i = 0; i < in.size(); i++)
        demand(out[i] == want[i]);
}

// Each operation rounds: a product, and then its sum. Where contraction is asked for, the two of
// an f32 round once, from one statement to the next and in vectors as well.
void test_rounding() {
    std::vector<float> out = results(R"(
        if (lane != 0) return;
        half a = in[0], b = in[1], c = in[2];
        out[0] = a * b + c;
        out[1] = fma(a, b, c);
        bfloat d = static_cast<bfloat>(in[3]), e = static_cast<bfloat>(in[4]);
        out[2] = d * d + e;
        out[3] = in[5] * in[5] + in[6];
        half4 v = half4(a), w = half4(c);
        out[4] = (v * half4(b) + w).z;
        out[5] = in[7] * 2 / 2; // no reassociation: overflows
    )", 6, {1.0009765625f, 1.0009765625f, -1.001953125f, 1.0078125f, -1.015625f, 1.00000012f, -1.00000024f, 3e38f});
    demand(out[0] == 0 && out[1] == std::ldexp(1.0f, -20) && out[2] == 0 && out[3] == 0 && out[4] == 0 && out[5] == INF);
    const std::string sums = R"(
        if (lane != 0) return;
        out[0] = in[0] * in[0] + in[1];
        float product = in[0] * in[0];
        out[1] = product + in[1];
        float4 v = float4(in[0]);
        v = v * v;
        out[2] = (v + float4(in[1])).w;
    )";
    const std::vector<float> in = {1.00000012f, -1.00000024f};
    demand(results(sums, 3, in) == std::vector<float>(3, 0.0f));
    if (simt::ASAN || simt::TSAN) return; // where nothing is inlined, nothing meets to be fused
#if defined(__x86_64__)
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return; // it says that it cannot
#endif
    setenv("FERRUM_SIMT_CONTRACT", "1", 1);
    demand(results(sums, 3, in) == std::vector<float>(3, std::ldexp(1.0f, -46)));
    unsetenv("FERRUM_SIMT_CONTRACT");
}

void test_simdgroups() {
    auto program = compile(R"(
        [[max_total_threads_per_threadgroup(64)]] kernel void k(device float *out [[buffer(0)]], device ulong *votes [[buffer(1)]],
                uint i [[thread_index_in_threadgroup]], uint simdgroup [[simdgroup_index_in_threadgroup]], uint lane [[thread_index_in_simdgroup]]) {
            device float *o = out + 16 * i;
            float x = float(i) * 0.1f;
            *o++ = simd_sum(x);
            *o++ = simd_max(-x);
            *o++ = simd_shuffle(x, (lane * 7) % 32);
            *o++ = simd_shuffle_xor(x, 5);
            *o++ = simd_broadcast(x, 9);
            *o++ = simd_sum(int(lane) - 40);
            *o++ = simd_sum(uint(0x80000000)) == 0 ? 1 : 0;
            *o++ = simd_sum(half(0.25h));
            *o++ = simd_sum(float4(x, 1, 2, 3)).w;
            *o++ = simd_max(half2(half(lane), -2.0h)).x;
            *o++ = simd_shuffle(half4(half(lane)), 31 - lane).w;
            *o++ = simd_any(lane == 3 && simdgroup == 1) ? 1 : 0;
            *o++ = simd_all(simdgroup == 1) ? 1 : 0;
            *o++ = simd_max(static_cast<bfloat>(lane));
            *o++ = simd_shuffle_xor(uint4(i), 16).z;
            simd_vote vote = simd_ballot(lane % 3 == simdgroup);
            *o++ = vote.any() && !vote.all() ? 1 : 0;
            if (lane == 0) votes[simdgroup] = (simd_vote::vote_t)vote;
        }
    )");
    for (uint64_t seed = 0; seed < 5; seed++) {
        std::vector<float> out(64 * 16);
        uint64_t votes[2];
        demand(Run{program->find("k"), 64, {}, {}, seed}(out.data(), votes) == "");
        for (unsigned i = 0; i < 64; i++) {
            unsigned g = i / 32, lane = i % 32;
            double sum = 0;
            for (unsigned l = 0; l < 32; l++)
                sum += double(float(32 * g + l) * 0.1f);
            auto x = [&](unsigned of) { return float(32 * g + of) * 0.1f; };
            const float want[] = {float(sum), -x(0), x(lane * 7 % 32), x(lane ^ 5), x(9), float(496 - 32 * 40), 1, 8, 96, 31, float(31 - lane),
                                  float(g == 1), float(g == 1), 31, float(i ^ 16), 1};
            for (unsigned j = 0; j < 16; j++)
                demand(out[16 * i + j] == want[j]);
        }
        demand(votes[0] == 0x49249249 && votes[1] == 0x92492492);
    }
}

// The fragment map, as Apple's GPUs have it: element 2*lane+j of thread_elements is (row, column+j).
void test_fragments() {
    auto program = compile(R"(
        [[max_total_threads_per_threadgroup(32)]] kernel void k(const device float *in [[buffer(0)]], device float *out [[buffer(1)]],
                uint lane [[thread_index_in_simdgroup]]) {
            threadgroup float tile[8 * 12];
            simdgroup_matrix<float, 8, 8> m, n;
            out[lane] = n.thread_elements()[0];
            simdgroup_load(m, in + 2, 11, ulong2(1, 3));
            out[32 + 2 * lane] = m.thread_elements()[0];
            out[33 + 2 * lane] = m.thread_elements().y;
            simdgroup_load(n, in, 11, ulong2(0, 0), true);
            out[96 + 2 * lane] = n.thread_elements()[0];
            out[97 + 2 * lane] = n.thread_elements()[1];
            simdgroup_store(m, tile, 12, ulong2(4, 0), true);
            simdgroup_barrier(mem_flags::mem_threadgroup);
            for (uint i = lane; i < 64; i += 32) out[160 + i] = tile[i / 8 * 12 + 4 + i % 8];
            m = make_filled_simdgroup_matrix<float, 8, 8>(3);
            out[224 + lane] = m.thread_elements()[1];
        }
    )");
    std::vector<float> in(11 * 12), out(256);
    for (size_t i = 0; i < in.size(); i++)
        in[i] = float(i);
    demand(Run{program->find("k")}(in.data(), out.data()) == "");
    for (unsigned lane = 0; lane < 32; lane++) {
        unsigned quad = lane / 4, row = (quad & 4) + lane / 2 % 4, column = (quad & 2) * 2 + lane % 2 * 2;
        demand(std::isnan(out[lane]) && out[224 + lane] == 3);
        for (unsigned j = 0; j < 2; j++) {
            demand(out[32 + 2 * lane + j] == in[2 + (3 + row) * 11 + 1 + column + j]);
            demand(out[96 + 2 * lane + j] == in[(column + j) * 11 + row]);
        }
    }
    for (unsigned row = 0; row < 8; row++)
        for (unsigned column = 0; column < 8; column++)
            demand(out[160 + row * 8 + column] == in[2 + (3 + column) * 11 + 1 + row]);
}

void test_products(const std::string &type, Format format) {
    auto program = compile("typedef " + type + R"( T;
        [[max_total_threads_per_threadgroup(32)]] kernel void k(const device T *a [[buffer(0)]], const device T *b [[buffer(1)]],
                const device float *c [[buffer(2)]], device float *out [[buffer(3)]]) {
            simdgroup_matrix<T, 8, 8> x, y;
            simdgroup_matrix<float, 8, 8> z;
            simdgroup_load(x, a, 8);
            simdgroup_load(y, b, 8);
            simdgroup_load(z, c);
            simdgroup_multiply_accumulate(z, x, y, z);
            simdgroup_store(z, out, 8);
            simdgroup_multiply(z, x, y);
            simdgroup_store(z, out + 64, 8);
        }
    )");
    std::mt19937 random(7);
    for (int round = 0; round < 20; round++) {
        uint16_t a[64], b[64];
        float c[64], out[128];
        for (int i = 0; i < 64; i++) {
            for (uint16_t *m : {a, b}) { // of magnitude 2^-4 to 2^4
                int bias = 1 - format.least;
                m[i] = uint16_t((random() & 0x8000) | (unsigned(bias - 4 + int(random() % 8)) << format.fraction) |
                                (random() & ((1u << format.fraction) - 1)));
            }
            c[i] = float(int(random() % 2000) - 1000) / 64;
        }
        demand(Run{program->find("k")}(a, b, c, out) == "");
        for (int row = 0; row < 8; row++)
            for (int column = 0; column < 8; column++) {
                double sum = 0;
                for (int k = 0; k < 8; k++)
                    sum += format.value(a[row * 8 + k]) * format.value(b[k * 8 + column]);
                demand(out[row * 8 + column] == float(sum + c[row * 8 + column]));
                demand(out[64 + row * 8 + column] == float(sum));
            }
    }
}

void test_atomics() {
    auto program = compile(R"(
        [[max_total_threads_per_threadgroup(128)]] kernel void k(device float *sum [[buffer(0)]], device atomic_uint *count [[buffer(1)]],
                uint i [[thread_index_in_threadgroup]]) {
            float before = atomic_fetch_add_explicit((device atomic_float *)sum, 0.5f, memory_order_relaxed);
            if (before >= 0) atomic_fetch_add_explicit(count, i, memory_order_relaxed);
            atomic_fetch_or_explicit(count + 1, 1u << i % 7, memory_order_relaxed);
        }
    )");
    float sum = 0;
    uint32_t count[2] = {0, 0x180};
    demand(Run{program->find("k"), 128, {5}}(&sum, count) == "");
    demand(sum == 320 && count[0] == 5 * 127 * 64 && count[1] == 0x1ff);
}

} // namespace

int main() {
    constexpr Format HALF{10, -14, 15}, BFLOAT{7, -126, 127};
    test_numbers();
    test_integers();
    test_vectors();
    test_conversion("half", HALF);
    test_conversion("bfloat", BFLOAT);
    test_rounding();
    test_simdgroups();
    test_fragments();
    test_products("half", HALF);
    test_products("bfloat", BFLOAT);
    test_atomics();
    return 0;
}
