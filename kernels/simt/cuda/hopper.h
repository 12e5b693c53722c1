// The twins of kernels/cuda/hopper.cuh, with the same meaning, and as late as the hardware may be. barrier_ready, proxy_fence and the
// counts of registers have no effect here: where one is missing no test finds it.
#pragma once

#include "../core/tensormap.h"
#include "ptx.h"

inline int __popc(unsigned x) { return __builtin_popcount(x); }

namespace simt { // as hopper.cpp knows them, whatever kernels call their namespace

struct alignas(8) Barrier {
    uint16_t count, missing; // arrivals
    int16_t blocks16;        // bytes under way, in units of 16
    uint16_t phase;
};

} // namespace simt

namespace fkv {

using simt::Barrier, simt::TensorMap;

struct TensorMaps { TensorMap keys, values; };

} // namespace fkv

namespace simt {

// Product of a warpgroup: what a thread brings.
struct Group {
    float *d;
    const uint32_t *a; // null: the matrix is in shared memory
    uint64_t a_tile, b_tile;
    unsigned n;
    bool more, bf16, transposed;
    unsigned char *shared;
    bool late;
};

void read_operands(const Group &group, unsigned thread); // for the race check: a share of them
void begin_product(void *const *threads, unsigned);
void fence_products(void *const *, unsigned);
void commit_products(void *const *, unsigned);
template <unsigned PENDING> void end_products(void *const *, unsigned);
void retire(unsigned group, unsigned pending);
void begin(Barrier *b, uint32_t count);
void expect(Barrier *b, uint32_t bytes);
void later(Barrier *b, void *to, const TensorMap *map, int column, int row);
void later(Barrier *b, Copy copy);
void later_arrive(Barrier *b);
bool land_one(Barrier *b); // what is under way for a barrier; false: nothing
void arrive(Barrier *b, int blocks16);
bool turned(Barrier *b, uint32_t parity); // with all that came before

inline unsigned group_of() { return current->index.x / 128; }

} // namespace simt

namespace fkv {

inline uint32_t shared_address(const void *p) {
    const unsigned char *base = simt::current->around->shared;
    return uint32_t(static_cast<const unsigned char *>(p) - base) + uint32_t(reinterpret_cast<uintptr_t>(base) & 1023);
}

inline void barrier_init(Barrier &b, uint32_t count) { simt::begin(&b, count); }
inline void barrier_ready() {}
inline void barrier_arrive(Barrier &b, Site site = {}) {
    if (!simt::omit(site)) simt::arrive(&b, 0);
}
inline void barrier_arrive_expect(Barrier &b, uint32_t bytes, Site site = {}) {
    if (bytes % 16 != 0) simt::fault("expects bytes that are no multiple of 16", site);
    simt::expect(&b, bytes);
}
inline void barrier_copies(Barrier &b, Site = {}) {
    simt::close_copies();
    simt::Copy copy;
    while (simt::take_copy(0, copy)) simt::later(&b, copy);
    simt::later_arrive(&b);
    if (!simt::current->around->late_copies)
        while (simt::land_one(&b)) {}
}
inline void barrier_observe(Barrier &b, uint32_t parity, Site site = {}) {
    while (!simt::turned(&b, parity & 1)) {
        if (!simt::land_one(&b)) simt::pause(site);
    }
}
inline void barrier_wait(Barrier &b, uint32_t parity, Site site = {}) {
    if (!simt::omit(site)) barrier_observe(b, parity, site);
}
inline void proxy_fence() {}
inline void copy_box(void *to, const TensorMap *map, int column, int row, Barrier &b, Site site = {}) {
    require_aligned(to, 128, "copies a box to an address that is not a multiple of 128", site);
    if (map->magic != simt::TensorMap::MAGIC) simt::fault("copies a box by what is no tensor map", site);
    std::memset(to, 0xff, 64 * 16 * 2);
    simt::later(&b, to, map, column, row);
    if (!simt::current->around->late_copies)
        while (simt::land_one(&b)) {}
}
template <int THREADS> inline void named_barrier(int id, bool waits, Site site) {
    static_assert(THREADS % 32 == 0, "named barriers count whole warps");
    if (id < 1) simt::fault("names the barrier of __syncthreads", site);
    simt::count(id, THREADS, waits, site);
}
template <int THREADS> inline void some_sync(int id, Site site = {}) {
    if (!simt::omit(site)) named_barrier<THREADS>(id, true, site);
}
template <int THREADS> inline void some_arrive(int id, Site site = {}) { named_barrier<THREADS>(id, false, site); }
template <int N> inline void registers_less() {}
template <int N> inline void registers_more() {}

inline void with_group(void *brought, simt::Work work, Site site) { simt::gather(simt::group_of(), 128, simt::current->index.x % 128, brought, work, site); }
inline void wgmma_fence(Site site = {}) {
    if (!simt::omit(site)) with_group(nullptr, &simt::fence_products, site);
}
inline void wgmma_commit(Site site = {}) { with_group(nullptr, &simt::commit_products, site); }
template <int PENDING> inline void wgmma_wait(Site site = {}) {
    if (simt::omit(site)) return;
    with_group(nullptr, &simt::end_products<PENDING>, site);
}

template <int N> inline void product_of_group(float (&d)[N], const uint32_t *a, uint64_t a_tile, uint64_t b_tile, bool more, bool bf16, bool transposed, Site site) {
    simt::Group g{d, a, a_tile, b_tile, 2 * N, more, bf16, transposed, simt::current->around->shared, simt::current->around->late_copies};
    simt::read_operands(g, simt::current->index.x % 128);
    with_group(&g, &simt::begin_product, site);
}
template <int N> inline void wgmma_keys(float (&d)[N], uint64_t a, uint64_t b, int more, __half, Site site = {}) { product_of_group(d, nullptr, a, b, more, false, false, site); }
template <int N> inline void wgmma_keys(float (&d)[N], uint64_t a, uint64_t b, int more, __nv_bfloat16, Site site = {}) { product_of_group(d, nullptr, a, b, more, true, false, site); }
template <int N> inline void wgmma_values(float (&d)[N], const uint32_t (&a)[4], uint64_t b, __half, Site site = {}) { product_of_group(d, a, 0, b, true, false, true, site); }
template <int N> inline void wgmma_values(float (&d)[N], const uint32_t (&a)[4], uint64_t b, __nv_bfloat16, Site site = {}) { product_of_group(d, a, 0, b, true, true, true, site); }
template <int N> inline void wgmma_both(float (&d)[N], uint64_t a, uint64_t b, __half, Site site = {}) { product_of_group(d, nullptr, a, b, true, false, true, site); }
template <int N> inline void wgmma_both(float (&d)[N], uint64_t a, uint64_t b, __nv_bfloat16, Site site = {}) { product_of_group(d, nullptr, a, b, true, true, true, site); }
template <int N> inline void hold(float (&)[N]) {}
template <int N> inline void hold(uint32_t (&)[N][4]) {}

} // namespace fkv

namespace simt {
template <unsigned PENDING> void end_products(void *const *, unsigned) { retire(group_of(), PENDING); }
} // namespace simt
