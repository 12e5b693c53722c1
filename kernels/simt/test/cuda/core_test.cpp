// The core: the registry, launch shapes, barriers, meetings of lanes, copies, shared memory
// and faults.
#include <atomic>
#include <cstdio>
#include <cstring>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "../../core/copies.h"
#include "../../core/random.h"
#include "../demand.h"
#include "kernel.cuh"

namespace {

std::string run(const char *name, simt::Dim grid, simt::Dim block, size_t shared, std::vector<void *> params,
                simt::Options options = {}) {
    char report[512] = "";
    bool good = simt::run({simt::find(name), grid, block, shared, params.data()}, options, report, sizeof report);
    demand(good == (report[0] == 0));
    return report;
}

bool says(const std::string &report, const char *words) { return report.find(words) != report.npos; }

} // namespace

FKV_KERNEL(core_index, 1024, 0, uint32_t *out) {
    uint64_t block = blockIdx.x + uint64_t{gridDim.x} * (blockIdx.y + uint64_t{gridDim.y} * blockIdx.z);
    uint64_t thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    atomicAdd(&out[block * blockDim.x * blockDim.y * blockDim.z + thread], 1u);
}

FKV_KERNEL(core_order, 64, 0, uint32_t *next, uint32_t *order) {
    uint32_t at = atomicAdd(next, 1u);
    order[at] = blockIdx.x * blockDim.x + threadIdx.x;
}

FKV_KERNEL(core_parameters, 1, 0, double *out, uint8_t a, double b, uint16_t c) { *out = a + b + c; }

FKV_KERNEL(core_shared, 32, 0, uint32_t *bad, uint32_t bytes) {
    FKV_SHARED(memory);
    if (threadIdx.x == 0 && reinterpret_cast<uintptr_t>(memory) % 128 != 0)
        atomicAdd(bad, 1u);
    for (uint32_t i = threadIdx.x; i < bytes; i += blockDim.x) {
        if (memory[i] != 0xff)
            atomicAdd(bad, 1u);
        memory[i] = 0;
    }
}

FKV_KERNEL(core_halves, 64, 0, uint32_t *out) { // disjoint masks, and the whole warp between
    unsigned half = threadIdx.x % 32 < 16 ? 0x0000ffffu : 0xffff0000u;
    uint32_t sum = 0;
    for (int round = 0; round < 5; round++) {
        sum += __builtin_popcount(__ballot_sync(half, threadIdx.x % 2 == 0));
        __syncwarp();
        if (threadIdx.x % 32 < 16)
            sum += __builtin_popcount(__ballot_sync(0xffffu, true));
        __syncwarp(half);
    }
    out[threadIdx.x] = sum;
}

FKV_KERNEL(core_exit, 64, 0, uint32_t *) {
    if (threadIdx.x >= 32 || threadIdx.x == 5)
        return;
    __syncwarp();
}

FKV_KERNEL(core_outside, 32, 0, uint32_t *) { __syncwarp(0xfffffffeu); }

FKV_KERNEL(core_sites, 32, 0, uint32_t *) {
    if (threadIdx.x < 16)
        __syncwarp();
    else
        __syncwarp();
}

FKV_KERNEL(core_some_fail, 32, 0, uint32_t *) {
    if (blockIdx.x == 7 && threadIdx.x == 3)
        simt::fault("has had enough", {});
    __syncthreads();
}

namespace {

void test_registry() {
    const simt::Kernel *first;
    size_t count = simt::kernels(&first);
    demand(count >= 8);
    for (size_t i = 0; i + 1 < count; i++)
        demand(strcmp(first[i].name, first[i + 1].name) < 0);
    demand(simt::find("core_nothing") == nullptr);
    const simt::Kernel *k = simt::find("core_parameters");
    demand(k && k->threads == 1 && k->shared == 0 && k->count == 4);
    demand(k->sizes[0] == 8 && k->sizes[1] == 1 && k->sizes[2] == 8 && k->sizes[3] == 2);
    double out = 0, b = 0.5, *p = &out;
    uint8_t a = 3;
    uint16_t c = 1000;
    demand(run("core_parameters", {}, {}, 0, {&p, &a, &b, &c}) == "");
    demand(out == 1003.5);
}

// Every thread of every block runs once, whatever the shape, the seed and the workers.
void test_shapes() {
    struct Shape {
        simt::Dim grid, block;
    } shapes[] = {{{1}, {1}}, {{1}, {33}}, {{3, 2, 2}, {4, 3, 5}}, {{97}, {31}}, {{2}, {1024}}, {{5, 7}, {8, 8}}};
    for (const Shape &s : shapes)
        for (uint64_t seed : {0, 1, 99})
            for (unsigned workers : {0u, 1u, 3u}) {
                std::vector<uint32_t> seen(size_t{s.grid.x} * s.grid.y * s.grid.z * s.block.x * s.block.y * s.block.z);
                uint32_t *out = seen.data();
                demand(run("core_index", s.grid, s.block, 0, {&out}, {seed, false, workers}) == "");
                for (uint32_t n : seen)
                    demand(n == 1);
            }
    uint32_t *none = nullptr;
    demand(says(run("core_index", {0}, {1}, 0, {&none}), "without blocks or threads"));
    demand(says(run("core_index", {1}, {1, 0}, 0, {&none}), "without blocks or threads"));
}

std::vector<uint32_t> order(uint64_t seed) {
    std::vector<uint32_t> order(4 * 64);
    uint32_t count = 0, *next = &count, *out = order.data();
    demand(run("core_order", {4}, {64}, 0, {&next, &out}, {seed, false, 1}) == "");
    return order;
}

// A seed gives one order, another seed another, none the natural one.
void test_order() {
    std::vector<uint32_t> natural(4 * 64);
    for (uint32_t i = 0; i < natural.size(); i++)
        natural[i] = i;
    demand(order(0) == natural);
    std::set<std::vector<uint32_t>> all;
    for (uint64_t seed = 0; seed < 10; seed++) {
        demand(order(seed) == order(seed));
        all.insert(order(seed));
    }
    demand(all.size() == 10);
}

void test_shared() {
    uint32_t bad = 0, *p = &bad;
    for (uint32_t bytes : {0u, 1u, 127u, 128u, 129u, 4096u, 100000u, 64u})
        demand(run("core_shared", {3}, {32}, bytes, {&p, &bytes}) == "");
    demand(bad == 0);
}

void test_meetings() {
    std::vector<uint32_t> sums(64);
    uint32_t *out = sums.data();
    for (uint64_t seed = 0; seed < 10; seed++) {
        demand(run("core_halves", {1}, {64}, 0, {&out}, {seed, false, 1}) == "");
        for (unsigned i = 0; i < 64; i++)
            demand(sums[i] == (i % 32 < 16 ? 5 * (8 + 16) : 5 * 8));
    }
}

// After a fault the next launch finds everything in order.
void test_faults() {
    uint32_t *none = nullptr;
    for (uint64_t seed = 0; seed < 5; seed++) {
        std::string report = run("core_exit", {1}, {64}, 0, {&none}, {seed, false, 1});
        demand(says(report, "kernel core_exit, block (0,0,0)") && says(report, "33 have returned"));
        demand(says(report, "31 wait for lanes of their warp at kernels/simt/test/cuda/core_test.cpp:"));
        demand(says(run("core_outside", {1}, {32}, 0, {&none}, {seed, false, 1}), "not in the mask"));
        demand(says(run("core_sites", {1}, {32}, 0, {&none}, {seed, false, 1}), "lanes of its mask wait at"));
        demand(says(run("core_some_fail", {20}, {32}, 0, {&none}, {seed, false, 0}), "block (7,0,0): thread (3,0,0) has had enough"));
        demand(run("core_some_fail", {7}, {32}, 0, {&none}, {seed, false, 0}) == "");
    }
    char cut[8] = "";
    void *params[] = {&none};
    demand(!simt::run({simt::find("core_outside"), {}, {32}, 0, params}, {}, cut, sizeof cut));
    demand(strcmp(cut, "kernel ") == 0);
    demand(!simt::run({simt::find("core_outside"), {}, {32}, 0, params}, {}, nullptr, 0));
}

// Launches from many threads at once do not meet.
void test_concurrent() {
    std::vector<std::thread> callers;
    std::atomic<int> wrong{0};
    for (int caller = 0; caller < 4; caller++)
        callers.emplace_back([&, caller] {
            for (uint64_t seed = 0; seed < 20; seed++) {
                std::vector<uint32_t> seen(50 * 96);
                uint32_t *out = seen.data();
                void *params[] = {&out};
                char report[64];
                if (!simt::run({simt::find("core_index"), {50}, {96}, 0, params}, {seed, false, unsigned(caller)}, report, sizeof report))
                    wrong++;
                for (uint32_t n : seen)
                    wrong += n != 1;
            }
        });
    for (std::thread &t : callers)
        t.join();
    demand(wrong == 0);
}

// A wait for all but n groups hands out the copies of the older ones, in order.
void test_copies() {
    for (unsigned pending = 0; pending < 4; pending++) {
        simt::Copies copies;
        simt::Copy copy;
        char memory[64];
        demand(!copies.take(pending, copy));
        for (int group = 0; group < 5; group++) { // group g has g copies
            for (int i = 0; i < group; i++)
                copies.begin({memory + group, nullptr, 16});
            copies.close();
        }
        copies.begin({memory + 60, nullptr, 4}); // in an open group, which no wait covers
        for (int group = 0; group < 5 - int(pending); group++)
            for (int i = 0; i < group; i++) {
                demand(copies.take(pending, copy));
                demand(copy.to == memory + group);
            }
        demand(!copies.take(pending, copy));
        copies.clear();
        copies.close();
        demand(!copies.take(0, copy));
    }
}

void test_random() {
    simt::Random random(5), off;
    demand(random.on() && !off.on() && !off.fork(3).on());
    std::set<uint32_t> seen;
    for (int i = 0; i < 1000; i++) {
        uint32_t n = random.pick(10);
        demand(n < 10);
        seen.insert(n);
        demand(off.pick(10) == 0);
    }
    demand(seen.size() == 10);
    demand(random.pick(1) == 0);
}

} // namespace

int main() {
    test_registry();
    test_shapes();
    test_order();
    test_shared();
    test_meetings();
    test_faults();
    test_concurrent();
    test_copies();
    test_random();
    return 0;
}
