// What the tests of single kernels share: guarded memory, storage types by their
// bits, and launches. References compute in double and share no code with the kernels.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "../../abi.h"
#include "../../storage.h"
#include "../simt.h"

namespace rig {

// The current case, for messages.
inline std::string where;

[[noreturn]] inline void fail(const std::string &what) {
    std::fprintf(stderr, "FAIL %s: %s\n", where.c_str(), what.c_str());
    std::exit(1);
}

inline void demand(bool ok, const char *what) {
    if (!ok) {
        fail(what);
    }
}

inline std::mt19937_64 generator{20240607};

inline int64_t below(int64_t n) { return static_cast<int64_t>(generator() % static_cast<uint64_t>(n)); }

inline double normal() { return std::normal_distribution<double>()(generator); }

struct F16 { uint16_t bits; };
struct BF16 { uint16_t bits; };

inline double value(float x) { return x; }

inline double value(BF16 x) {
    const uint32_t bits = uint32_t{x.bits} << 16;
    float f;
    std::memcpy(&f, &bits, sizeof f);
    return f;
}

inline double value(F16 x) {
    const int exponent = x.bits >> 10 & 31, fraction = x.bits & 1023;
    const double sign = x.bits >> 15 ? -1 : 1;
    if (exponent == 31) {
        return fraction ? std::numeric_limits<double>::quiet_NaN() : sign * INFINITY;
    }
    return sign * (exponent ? std::ldexp(1024 + fraction, exponent - 25) : std::ldexp(fraction, -24));
}

// rounded is x, not a NaN, as the nearest T, ties to even; beyond the largest one it
// is an infinity.
template <class T> T rounded(double x);
template <> inline float rounded<float>(double x) { return static_cast<float>(x); }
template <> inline BF16 rounded<BF16>(double x) {
    const float f = static_cast<float>(x);
    uint32_t bits;
    std::memcpy(&bits, &f, sizeof bits);
    return {static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16)};
}
template <> inline F16 rounded<F16>(double x) {
    const uint16_t sign = std::signbit(x) ? 0x8000 : 0;
    x = std::fabs(x);
    if (x >= 65520) {
        return {static_cast<uint16_t>(sign | 0x7c00)};
    }
    const int exponent = x < std::ldexp(1, -14) ? -14 : std::ilogb(x);
    const auto units = static_cast<uint16_t>(std::nearbyint(std::ldexp(x, 10 - exponent)));
    return {static_cast<uint16_t>(sign | (((exponent + 14) << 10) + units))}; // 1024 units carry into the exponent
}

// step is the relative distance of two neighbours.
template <class T>
constexpr double step = std::is_same_v<T, float> ? 0x1p-22 : std::is_same_v<T, F16> ? 0x1p-10 : 0x1p-7;

// largest is the largest number of a type.
template <class T>
constexpr double largest = std::is_same_v<T, float> ? 0x1.fffffep127 : std::is_same_v<T, F16> ? 65504 : 0x1.fep127;

template <class T> bool same_bits(const T &a, const T &b) { return std::memcmp(&a, &b, sizeof a) == 0; }

// Memory is n elements as a device would hold them: a NaN pattern at first, and
// surrounded by pages that cannot be touched and bytes that must not change. The
// elements begin shift of them past a boundary of 16 bytes.
template <class T> class Memory {
  public:
    explicit Memory(size_t n, size_t shift = 0) : n_(n) {
        const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE)), bytes = (n + shift) * sizeof(T);
        const size_t body = (bytes + 16 + page - 1) / page * page;
        size_ = body + 2 * page;
        void *map = mmap(nullptr, size_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        demand(map != MAP_FAILED, "no memory for a test");
        map_ = static_cast<unsigned char *>(map);
        demand(mprotect(map_ + page, body, PROT_READ | PROT_WRITE) == 0, "no access to the memory of a test");
        first_ = map_ + page, last_ = map_ + page + body;
        data_ = reinterpret_cast<T *>(last_ - (bytes + 15) / 16 * 16) + shift;
        std::memset(first_, CANARY, body);
        std::memset(data_, 0xff, n * sizeof(T));
    }
    ~Memory() {
        auto *begin = reinterpret_cast<unsigned char *>(data_), *end = reinterpret_cast<unsigned char *>(data_ + n_);
        const auto changed = [](unsigned char c) { return c != CANARY; };
        demand(std::none_of(first_, begin, changed), "bytes before a buffer have changed");
        demand(std::none_of(end, last_, changed), "bytes behind a buffer have changed");
        munmap(map_, size_);
    }
    Memory(const Memory &) = delete;
    Memory &operator=(const Memory &) = delete;

    T *data() { return data_; }
    T &operator[](size_t i) { return data_[i]; }
    size_t size() const { return n_; }
    std::vector<T> copy() const { return {data_, data_ + n_}; }

    void fill() {
        for (size_t i = 0; i < n_; i++) {
            data_[i] = rounded<T>(normal());
        }
    }
    void set(const std::vector<T> &values) { std::copy(values.begin(), values.end(), data_); }

    // expect compares all elements bit by bit.
    void expect(const std::vector<T> &want, const char *what) const {
        for (size_t i = 0; i < n_; i++) {
            if (!same_bits(data_[i], want[i])) {
                fail(std::string(what) + " differs at element " + std::to_string(i) + " of " + std::to_string(n_));
            }
        }
    }

  private:
    static constexpr unsigned char CANARY = 0xa5;
    size_t n_, size_;
    unsigned char *map_, *first_, *last_;
    T *data_;
};

} // namespace rig

// The tests of single kernels are built twice, the second time for Metal's.
#ifdef FKV_METAL
#include "metal/launch.h"
#endif

namespace rig {

#ifndef FKV_METAL

// launch runs a kernel on the given grid, with threads and blocks in an order, and
// asynchronous copies late or at once, that change from call to call.
template <class Args>
void launch(const std::string &name, simt::Dim grid, std::initializer_list<const void *> buffers, Args args, const void *last = nullptr) {
    static uint64_t seed = 0;
    const simt::Kernel *kernel = simt::find(name.c_str());
    if (kernel == nullptr) {
        fail("no kernel " + name);
    }
    args.size = sizeof args;
    std::vector<const void *> pointers(buffers);
    std::vector<void *> params;
    for (auto &p : pointers) {
        params.push_back(&p);
    }
    params.push_back(&args);
    demand(kernel->count == params.size() + (last != nullptr) && kernel->sizes[params.size() - 1] == sizeof args,
           "parameters are not those of abi.h");
    if (last) {
        params.push_back(const_cast<void *>(last));
    }
    char report[1024] = "";
    simt::Dim block;
    block.x = kernel->threads;
    const simt::Launch how{kernel, grid, block, kernel->shared, params.data()};
    if (!simt::run(how, simt::Options{seed % 7, seed % 3 != 2, 2}, report, sizeof report)) {
        fail(name + ": " + report);
    }
    seed++;
}

#endif

// line is a grid of one dimension and grid one of two: a single block, an odd number,
// or more blocks than there is work.
inline simt::Dim line() {
    constexpr unsigned sizes[] = {1, 3, 41};
    simt::Dim d;
    d.x = sizes[below(3)];
    return d;
}
inline simt::Dim grid() {
    constexpr unsigned sizes[] = {1, 2, 9};
    simt::Dim d = line();
    d.y = sizes[below(3)];
    return d;
}

template <class T>
constexpr const char *type_name = std::is_same_v<T, float> ? "f32" : std::is_same_v<T, F16> ? "f16" : "bf16";

} // namespace rig
