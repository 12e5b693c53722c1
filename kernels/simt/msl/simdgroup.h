// What the threads of a simdgroup do together, and the barriers. A collective demands all
// threads of the simdgroup at the same line: hardware forgives more, but code that counts on
// it is more likely wrong than clever.
#pragma once
#pragma clang system_header

#include "table.h"
#include "vector.h"

namespace msl {

extern const Core *core;

using simt::Site;
using simt::WARP;

constexpr unsigned ALL = 0xffffffffu;

// The work of the last thread to come reads what others brought: the race check must not see it.
#define MSL_UNSEEN __attribute__((no_sanitize("thread")))

template <class T> constexpr bool is_exchangeable() {
    return sizeof(Element<T>) <= 4 && !Same<Element<T>, bool>::value;
}

// Exchange is a value, and the lane whose value is wanted.
template <class T> struct Exchange {
    T value;
    unsigned from;
    bool found; // that lane is there

    MSL_UNSEEN static void work(void *const *lanes, unsigned mask) {
        T values[WARP];
        for (unsigned l = 0; l < WARP; l++)
            if (mask >> l & 1)
                values[l] = static_cast<const Exchange *>(lanes[l])->value;
        for (unsigned l = 0; l < WARP; l++)
            if (mask >> l & 1) {
                auto &e = *static_cast<Exchange *>(lanes[l]);
                e.found = e.from < WARP && (mask >> e.from & 1);
                if (e.found)
                    e.value = values[e.from];
            }
    }
};

template <class T> inline T take(T value, unsigned from, Site site) {
    static_assert(is_exchangeable<T>(), "lanes exchange elements of at most 32 bits");
    Exchange<T> e{value, from, false};
    core->meet(ALL, &e, &Exchange<T>::work, false, site);
    if (!e.found)
        core->fault("takes the value of a lane that is not there", site);
    return e.value;
}

// Wide is where a sum of T is exact, or nearly: the hardware promises no order of its
// additions, and this has none.
template <class T, bool FLOATING = is_floating<T>()> struct WideOf { using Type = double; };
template <class T> struct WideOf<T, false> { using Type = long; };

// Reduction is a lane's value, and what becomes of all of them.
template <class T> struct Reduction {
    T value;

    MSL_UNSEEN static void sum(void *const *lanes, unsigned mask) {
        T result;
        for (int i = 0; i < Shape<T>::COUNT; i++) {
            typename WideOf<Element<T>>::Type sum = 0;
            for (unsigned l = 0; l < WARP; l++)
                if (mask >> l & 1)
                    sum += get(lanes, l, i);
            set(result, i, static_cast<Element<T>>(sum));
        }
        spread(lanes, mask, result);
    }

    MSL_UNSEEN static void max(void *const *lanes, unsigned mask) {
        T result = static_cast<const Reduction *>(lanes[__builtin_ctz(mask)])->value;
        for (int i = 0; i < Shape<T>::COUNT; i++)
            for (unsigned l = 0; l < WARP; l++)
                if (mask >> l & 1) {
                    Element<T> other = get(lanes, l, i);
                    if (at(result, i) < other)
                        set(result, i, other);
                }
        spread(lanes, mask, result);
    }

private:
    template <class V> MSL_UNSEEN static If<Shape<V>::VECTOR, Element<V>> at(const V &v, int i) { return v[i]; }
    template <class V> MSL_UNSEEN static If<!Shape<V>::VECTOR, V> at(const V &v, int) { return v; }
    template <class V, class E> MSL_UNSEEN static If<Shape<V>::VECTOR> set(V &v, int i, E e) { v[i] = e; }
    template <class V, class E> MSL_UNSEEN static If<!Shape<V>::VECTOR> set(V &v, int, E e) { v = e; }

    MSL_UNSEEN static Element<T> get(void *const *lanes, unsigned l, int i) {
        return at(static_cast<const Reduction *>(lanes[l])->value, i);
    }

    MSL_UNSEEN static void spread(void *const *lanes, unsigned mask, const T &result) {
        for (unsigned l = 0; l < WARP; l++)
            if (mask >> l & 1)
                static_cast<Reduction *>(lanes[l])->value = result;
    }
};

template <class T> inline T reduce(T value, simt::Collective work, Site site) {
    static_assert(is_exchangeable<T>(), "lanes exchange elements of at most 32 bits");
    Reduction<T> r{value};
    core->meet(ALL, &r, work, false, site);
    return r.value;
}

// Vote is a predicate, and the lanes that said yes.
struct Vote {
    bool yes;
    unsigned result;

    MSL_UNSEEN static void work(void *const *lanes, unsigned mask) {
        unsigned result = 0;
        for (unsigned l = 0; l < WARP; l++)
            if (mask >> l & 1 && static_cast<const Vote *>(lanes[l])->yes)
                result |= 1u << l;
        for (unsigned l = 0; l < WARP; l++)
            if (mask >> l & 1)
                static_cast<Vote *>(lanes[l])->result = result;
    }
};

inline unsigned vote(bool yes, Site site) {
    Vote v{yes, 0};
    core->meet(ALL, &v, &Vote::work, false, site);
    return v.result;
}

} // namespace msl

namespace metal {

// A barrier without flags orders no memory, and has no use here.
enum class mem_flags { mem_device = 1, mem_threadgroup = 2 };
constexpr mem_flags operator|(mem_flags a, mem_flags b) { return mem_flags(int(a) | int(b)); }

} // namespace metal

namespace msl {

// orders says whether a barrier orders what the race check looks at: everything, for which any
// flags do, or with MSL_ONLY the memory of that flag alone. The sanitizers skip the other.
constexpr bool orders(metal::mem_flags flags) {
#ifdef MSL_ONLY
    return int(flags) & MSL_ONLY;
#else
    return int(flags) != 0;
#endif
}

} // namespace msl

namespace metal {

inline void threadgroup_barrier(mem_flags flags, msl::Site site = {}) { msl::core->barrier(msl::orders(flags), site); }
inline void simdgroup_barrier(mem_flags flags, msl::Site site = {}) {
    msl::core->meet(msl::ALL, nullptr, nullptr, msl::orders(flags), site);
}

class simd_vote {
public:
    using vote_t = ulong;
    explicit simd_vote(vote_t vote) : vote_(vote) {}
    explicit operator vote_t() const { return vote_; }
    bool all() const { return vote_ == msl::ALL; }
    bool any() const { return vote_ != 0; }

private:
    vote_t vote_;
};

template <class T> inline T simd_shuffle(T data, ushort lane, msl::Site site = {}) { return msl::take(data, lane, site); }
template <class T> inline T simd_shuffle_xor(T data, ushort bits, msl::Site site = {}) {
    return msl::take(data, msl::core->current()->lane ^ bits, site);
}
template <class T> inline T simd_broadcast(T data, ushort lane, msl::Site site = {}) { return msl::take(data, lane, site); }
template <class T> inline msl::Number<T> simd_sum(T data, msl::Site site = {}) {
    return msl::reduce(data, &msl::Reduction<T>::sum, site);
}
template <class T> inline msl::Number<T> simd_max(T data, msl::Site site = {}) {
    return msl::reduce(data, &msl::Reduction<T>::max, site);
}
inline bool simd_any(bool yes, msl::Site site = {}) { return msl::vote(yes, site) != 0; }
inline bool simd_all(bool yes, msl::Site site = {}) { return msl::vote(!yes, site) == 0; }
inline simd_vote simd_ballot(bool yes, msl::Site site = {}) { return simd_vote(msl::vote(yes, site)); }

} // namespace metal
