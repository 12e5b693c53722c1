// The words of CUDA: conversions, shuffles, votes, matrix instructions and asynchronous
// copies, against references that know nothing of lanes.
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "../demand.h"
#include "dtype.cuh"
#include "ptx.cuh"

using namespace fkv;

FKV_KERNEL(cuda_shuffle, 64, 0, int *out, int width, int argument) {
    int me = threadIdx.x % 32, warp = threadIdx.x / 32;
    int *mine = out + 4 * threadIdx.x;
    mine[0] = __shfl_sync(FULL, 100 * warp + me, argument, width);
    mine[1] = __shfl_xor_sync(FULL, 100 * warp + me, argument, width);
    mine[2] = __shfl_up_sync(FULL, 100 * warp + me, argument, width);
    mine[3] = int(__shfl_down_sync(FULL, 1e9 * warp + me, argument, width) - 1e9 * warp) + 100 * warp;
}

FKV_KERNEL(cuda_vote, 32, 0, unsigned *out, unsigned yes) {
    bool mine = yes >> threadIdx.x & 1;
    unsigned ballot = __ballot_sync(FULL, mine);
    bool any = __any_sync(FULL, mine), all = __all_sync(FULL, mine);
    if (threadIdx.x == 7) {
        out[0] = ballot;
        out[1] = any;
        out[2] = all;
    }
}

FKV_KERNEL(cuda_absent, 32, 0, int *out) { // lane 3 is read, and does not take part
    if (threadIdx.x < 2)
        *out = __shfl_sync(3, 1, 3);
}

// d [16, 8] = c + a [16, 16] b [16, 8], all in memory; b comes through load_transposed.
template <class T> __device__ inline void product(const T *a, const T *b, const float *c, float *d) {
    __shared__ __align__(16) T tile[2][16][16];
    int lane = threadIdx.x, g = lane / 4, t = lane % 4;
    for (int i = lane; i < 256; i += 32) {
        tile[0][i / 16][i % 16] = a[i];
        tile[1][i / 16][i % 16] = i % 16 < 8 ? b[i / 16 * 8 + i % 16] : T{};
    }
    __syncwarp();
    uint32_t ra[4], rb[4];
    int matrix = lane / 8, row = lane % 8;
    load_matrices(ra, &tile[0][row + matrix % 2 * 8][matrix / 2 * 8]);
    load_transposed(rb, &tile[1][row + matrix % 2 * 8][matrix / 2 * 8]);
    float rd[4] = {c[g * 8 + 2 * t], c[g * 8 + 2 * t + 1], c[(g + 8) * 8 + 2 * t], c[(g + 8) * 8 + 2 * t + 1]};
    mma(rd, ra, rb[0], rb[1], T{});
    for (int i = 0; i < 4; i++)
        d[(g + i / 2 * 8) * 8 + 2 * t + i % 2] = rd[i];
}

FKV_KERNEL(cuda_product_half, 32, 0, const half *a, const half *b, const float *c, float *d) { product(a, b, c, d); }
FKV_KERNEL(cuda_product_bfloat, 32, 0, const bfloat *a, const bfloat *b, const float *c, float *d) { product(a, b, c, d); }

// What the destination holds before the wait, and after waits for all but one and for all.
FKV_KERNEL(cuda_copy, 1, 64, const float *in, float *out) {
    FKV_SHARED(memory);
    auto *tile = reinterpret_cast<float *>(memory);
    copy_async<16>(tile, in, true);
    copy_commit();
    copy_async<16>(tile + 4, in, false);
    copy_async<16>(tile + 8, in + 4, true);
    copy_commit();
    copy_async<16>(tile + 12, in + 8, true); // in no group
    memcpy(out, tile, 64);
    copy_wait<1>();
    memcpy(out + 16, tile, 64);
    copy_wait<0>();
    memcpy(out + 32, tile, 64);
}

// The same of copies of 4 and of 8 bytes.
FKV_KERNEL(cuda_narrow_copy, 1, 16, const float *in, float *out) {
    FKV_SHARED(memory);
    auto *tile = reinterpret_cast<float *>(memory);
    copy_async<4>(tile, in, true);
    copy_async<4>(tile + 1, in, false);
    copy_commit();
    copy_async<8>(tile + 2, in + 2, true);
    copy_commit();
    memcpy(out, tile, 16);
    copy_wait<1>();
    memcpy(out + 4, tile, 16);
    copy_wait<0>();
    memcpy(out + 8, tile, 16);
}

FKV_KERNEL(cuda_or, 64, 0, unsigned *out) { atomicOr(out, 1u << threadIdx.x % 32); }

FKV_KERNEL(cuda_misaligned, 32, 512, const float *in, int what) {
    FKV_SHARED(memory);
    uint32_t r[4];
    if (what == 0)
        copy_async<16>(memory + 8, in, true);
    if (what == 1)
        copy_async<16>(memory, in + 1, true);
    if (what == 2)
        load_matrices(r, memory + 16 * threadIdx.x / 2);
    if (what == 3)
        copy_async<8>(memory + 4, in, true);
    if (what == 4)
        copy_async<4>(memory + 2, in, true);
}

namespace {

std::string run(const char *name, unsigned threads, size_t shared, std::vector<void *> params, bool late = true) {
    char report[256] = "";
    simt::run({simt::find(name), {}, {threads}, shared, params.data()}, {3, late, 1}, report, sizeof report);
    return report;
}

bool says(const std::string &report, const char *words) { return report.find(words) != report.npos; }

// A storage type, as its definition says: fraction bits and exponent range.
template <class T> struct Format;
template <> struct Format<half> { static constexpr int FRACTION = 10, LEAST = -14, MOST = 15; };
template <> struct Format<bfloat> { static constexpr int FRACTION = 7, LEAST = -126, MOST = 127; };

template <class T> double value(uint16_t bits) {
    constexpr int F = Format<T>::FRACTION;
    int exponent = bits >> F & ((1 << (15 - F)) - 1), fraction = bits & ((1 << F) - 1);
    double magnitude;
    if (exponent == (1 << (15 - F)) - 1)
        magnitude = fraction ? std::nan("") : std::numeric_limits<double>::infinity();
    else if (exponent == 0)
        magnitude = std::ldexp(fraction, Format<T>::LEAST - F);
    else
        magnitude = std::ldexp(fraction + (1 << F), Format<T>::LEAST - F + exponent - 1);
    return bits >> 15 ? -magnitude : magnitude;
}

// Every value there and back; between neighbours rounding goes to the nearest, ties to even.
template <class T> void test_conversion() {
    for (uint32_t bits = 0; bits < 0x10000; bits++) {
        double exact = value<T>(uint16_t(bits));
        T stored{uint16_t(bits)};
        float x = to_float(stored);
        if (std::isnan(exact)) {
            demand(std::isnan(x) && from_float<T>(x).bits == 0x7fff);
            continue;
        }
        demand(x == exact && std::signbit(x) == std::signbit(exact));
        demand(from_float<T>(x).bits == bits);
        if (std::isinf(exact))
            continue;
        uint16_t up = uint16_t(bits + 1); // away from zero; after the last number, infinity
        double next = std::isinf(value<T>(up)) ? std::copysign(std::ldexp(1, Format<T>::MOST + 1), exact) : value<T>(up);
        float middle = float((exact + next) / 2);
        if (middle == x)
            continue; // an f32 has no room between them
        demand(from_float<T>(middle).bits == (bits % 2 ? up : bits));
        demand(from_float<T>(std::nextafter(middle, x)).bits == bits);
        demand(from_float<T>(std::nextafter(middle, middle * 2)).bits == up);
    }
    float infinity = std::numeric_limits<float>::infinity();
    demand(to_float(from_float<T>(infinity)) == infinity && to_float(from_float<T>(-infinity)) == -infinity);
    demand(std::isnan(to_float(from_float<T>(std::nanf("")))));
}

void test_shuffle() {
    std::vector<int> got(64 * 4);
    for (int width : {2, 8, 32})
        for (int argument : {0, 1, 3, 8, 31}) {
            int *out = got.data();
            demand(run("cuda_shuffle", 64, 0, {&out, &width, &argument}) == "");
            for (int i = 0; i < 64; i++) {
                int warp = i / 32, me = i % 32, begin = me / width * width;
                int any = begin + argument % width, mirror = me ^ argument;
                int up = me - argument, down = me + argument;
                demand(got[4 * i] == 100 * warp + any);
                demand(got[4 * i + 1] == 100 * warp + (mirror < begin + width ? mirror : me));
                demand(got[4 * i + 2] == 100 * warp + (up >= begin ? up : me));
                demand(got[4 * i + 3] == 100 * warp + (down < begin + width ? down : me));
            }
        }
    int *out = got.data();
    demand(says(run("cuda_absent", 32, 0, {&out}), "takes the value of a lane that does not take part"));
}

void test_vote() {
    for (unsigned yes : {0u, 1u, 0x80000000u, 0x12345678u, 0xffffffffu}) {
        unsigned got[3], *out = got;
        demand(run("cuda_vote", 32, 0, {&out, &yes}) == "");
        demand(got[0] == yes && got[1] == (yes != 0) && got[2] == (yes == FULL));
    }
}

template <class T> void test_product(const char *kernel) {
    std::mt19937 generator(7);
    std::normal_distribution<float> normal;
    for (int round = 0; round < 20; round++) {
        std::vector<T> a(16 * 16), b(16 * 8);
        std::vector<float> c(16 * 8), d(16 * 8);
        for (T &x : a)
            x = from_float<T>(normal(generator));
        for (T &x : b)
            x = from_float<T>(normal(generator));
        for (float &x : c)
            x = normal(generator);
        T *pa = a.data(), *pb = b.data();
        float *pc = c.data(), *pd = d.data();
        demand(run(kernel, 32, 0, {&pa, &pb, &pc, &pd}) == "");
        for (int i = 0; i < 16; i++)
            for (int j = 0; j < 8; j++) {
                double sum = c[i * 8 + j];
                for (int k = 0; k < 16; k++)
                    sum += value<T>(a[i * 16 + k].bits) * value<T>(b[k * 8 + j].bits);
                demand(std::abs(d[i * 8 + j] - sum) <= 1e-7 * std::max(1.0, std::abs(sum)));
            }
    }
}

void test_copy() {
    alignas(16) float in[12];
    for (int i = 0; i < 12; i++)
        in[i] = float(i + 1);
    for (bool late : {true, false}) {
        float got[48], *pin = in, *out = got;
        demand(run("cuda_copy", 1, 64, {&pin, &out}, late) == "");
        for (int look = 0; look < 3; look++) // before a wait, after that of the first group, after that of both
            for (int i = 0; i < 16; i++) {
                bool here = !late || (i < 4 ? look >= 1 : i < 12 ? look >= 2 : false);
                float want = i < 4 ? in[i] : i < 8 ? 0 : in[i - 4];
                float x = got[16 * look + i];
                demand(here ? x == want : std::isnan(x));
            }
    }
    for (bool late : {true, false}) {
        float got[12], *pin = in, *out = got;
        demand(run("cuda_narrow_copy", 1, 16, {&pin, &out}, late) == "");
        for (int look = 0; look < 3; look++)
            for (int i = 0; i < 4; i++) {
                bool here = !late || look >= (i < 2 ? 1 : 2);
                demand(here ? got[4 * look + i] == (i == 1 ? 0 : in[i]) : std::isnan(got[4 * look + i]));
            }
    }
    float *pin = in;
    for (int what = 0; what < 5; what++) {
        std::string report = run("cuda_misaligned", 32, 512, {&pin, &what});
        std::string of = what < 3 ? "16" : what == 3 ? "8" : "4";
        demand(says(report, ("not a multiple of " + of + ", at kernels/simt/test/cuda/cuda_test.cpp:").c_str()));
    }
}

// Each operation is rounded by itself, also where the compiler knows a product and a sum in one.
void test_arithmetic() {
    float a = 1 + 0x1p-13f, b = 1 - 0x1p-13f;
    demand(__fsub_rn(__fmul_rn(a, b), 1) == 0); // the product is 1 - 2^-26, and rounds to 1
    demand(__fdiv_rn(1, 3) == float(1 / 3.));
    demand(__byte_perm(0x33221100, 0x77665544, 0x7052) == 0x77005522);
    demand(__float_as_uint(-2) == 0xc0000000 && __uint_as_float(0x3fc00000) == 1.5f);
    unsigned bits = 0, *out = &bits;
    demand(run("cuda_or", 64, 0, {&out}) == "");
    demand(bits == 0xffffffff);
}

void test_exp2() {
    demand(exp2_fast(-std::numeric_limits<float>::infinity()) == 0);
    for (float x = -20; x < 20; x += 0.37f)
        demand(std::abs(exp2_fast(x) / std::exp2(double(x)) - 1) < 1e-6);
}

// A product with a sum is rounded once: no half is nearer to the exact one, and of two as near it is the even one.
void test_fused() {
    std::mt19937 random(11);
    auto finite = [&] {
        uint16_t bits;
        do {
            bits = uint16_t(random());
        } while ((bits & 0x7c00) == 0x7c00);
        return bits;
    };
    for (int i = 0; i < 300000; i++) {
        uint16_t a = finite(), b = finite(), c = finite();
        double exact = double(__half2float({a})) * __half2float({b}) + __half2float({c});
        if (std::fabs(exact) > 65504) continue; // half the way to the next there is infinity
        uint16_t got = uint16_t(fused(a, b, c, half()));
        double off = std::fabs(__half2float({got}) - exact);
        for (int step : {-1, 1}) {
            uint16_t other = uint16_t(got + step);
            if ((got & 0x7fff) == 0 && step < 0) other = (got ^ 0x8000) + 1; // on the other side of zero
            double there = std::fabs(__half2float({other}) - exact);
            demand(off < there || (off == there && got % 2 == 0));
        }
    }
}

} // namespace

int main() {
    test_conversion<half>();
    test_conversion<bfloat>();
    test_shuffle();
    test_vote();
    test_product<half>("cuda_product_half");
    test_product<bfloat>("cuda_product_bfloat");
    test_copy();
    test_arithmetic();
    test_exp2();
    test_fused();
    return 0;
}
