// Matrices of 8x8 elements, two of which each thread of a simdgroup holds.
#pragma once
#pragma clang system_header

#include "simdgroup.h"

namespace metal {

// simdgroup_matrix begins as NaN, as if it held what was left in its registers.
template <class T, int COLUMNS, int ROWS> class simdgroup_matrix {
    static_assert(COLUMNS == 8 && ROWS == 8, "simdgroup matrices are 8x8");
    static_assert(msl::is_floating<T>(), "simdgroup matrices are of floating-point numbers");

public:
    using storage_type = vec<T, 2>;

    simdgroup_matrix() : elements_((storage_type)(T(__builtin_nanf("")))) {}
    storage_type &thread_elements() { return elements_; }
    const storage_type &thread_elements() const { return elements_; }

private:
    storage_type elements_; // (row, column) and (row, column + 1) of msl::Place
};

typedef simdgroup_matrix<float, 8, 8> simdgroup_float8x8;
typedef simdgroup_matrix<half, 8, 8> simdgroup_half8x8;
#if __METAL_VERSION__ >= 310
typedef simdgroup_matrix<bfloat, 8, 8> simdgroup_bfloat8x8;
#endif

} // namespace metal

namespace msl {

template <class T> using Matrix = metal::simdgroup_matrix<T, 8, 8>;

// Place is where a lane's first element lies; the second is in the next column. Metal does
// not document it; it is what is seen on every GPU so far.
struct Place {
    unsigned row, column;

    MSL_UNSEEN explicit Place(unsigned lane) {
        unsigned quad = lane / 4;
        row = (quad & 4) + lane / 2 % 4;
        column = (quad & 2) * 2 + lane % 2 * 2;
    }
};

// Product is a lane's share of d = a b + c. The products are exact and so, nearly always, is
// their sum: the device promises no order, and this has none.
template <class D, class A, class B, class C> struct Product {
    metal::vec<D, 2> d;
    metal::vec<A, 2> a;
    metal::vec<B, 2> b;
    metal::vec<C, 2> c;

    MSL_UNSEEN static void work(void *const *lanes, unsigned) {
        double a[8][8], b[8][8];
        for (unsigned l = 0; l < WARP; l++) {
            const auto &p = *static_cast<const Product *>(lanes[l]);
            Place at(l);
            for (unsigned i = 0; i < 2; i++) {
                a[at.row][at.column + i] = double(p.a[i]);
                b[at.row][at.column + i] = double(p.b[i]);
            }
        }
        for (unsigned l = 0; l < WARP; l++) {
            auto &p = *static_cast<Product *>(lanes[l]);
            Place at(l);
            for (unsigned i = 0; i < 2; i++) {
                double sum = 0;
                for (unsigned k = 0; k < 8; k++)
                    sum += a[at.row][k] * b[k][at.column + i];
                p.d[i] = static_cast<D>(double(p.c[i]) + sum);
            }
        }
    }
};

// Tile is the memory that a matrix is loaded from or stored to: all lanes name the same.
struct Tile {
    const void *memory;
    ulong stride;
    ulong2 origin;
    bool transpose, same;

    MSL_UNSEEN static void work(void *const *lanes, unsigned mask) {
        const auto &first = *static_cast<const Tile *>(lanes[0]);
        bool same = mask == ALL;
        for (unsigned l = 0; same && l < WARP; l++) {
            const auto &t = *static_cast<const Tile *>(lanes[l]);
            same = t.memory == first.memory && t.stride == first.stride && t.origin[0] == first.origin[0] &&
                   t.origin[1] == first.origin[1] && t.transpose == first.transpose;
        }
        for (unsigned l = 0; l < WARP; l++)
            if (mask >> l & 1)
                static_cast<Tile *>(lanes[l])->same = same;
    }

    void agree(Site site) {
        core->meet(ALL, this, work, false, site);
        if (!same)
            core->fault("names another matrix in memory than the other threads of its simdgroup", site);
    }

    // at is where element i of a lane lies.
    ulong at(unsigned i) const {
        Place p(core->current()->lane);
        ulong row = p.row, column = p.column + i;
        return transpose ? (origin[1] + column) * stride + origin[0] + row : (origin[1] + row) * stride + origin[0] + column;
    }
};

// A lane reads one element before the other lanes have come and one afterwards, and writes
// likewise, so that both a missing barrier before and one behind show in the results.
template <class T, class P> inline void load(Matrix<T> &m, P from, Tile tile, Site site) {
    m.thread_elements()[0] = from[tile.at(0)];
    tile.agree(site);
    m.thread_elements()[1] = from[tile.at(1)];
}

template <class T, class P> inline void store(const Matrix<T> &m, P to, Tile tile, Site site) {
    to[tile.at(0)] = m.thread_elements()[0];
    tile.agree(site);
    to[tile.at(1)] = m.thread_elements()[1];
}

} // namespace msl

namespace metal {

#define MSL_TRANSFERS(SPACE)                                                                                           \
    template <class T>                                                                                                 \
    inline void simdgroup_load(simdgroup_matrix<T, 8, 8> &m, const SPACE T *from, ulong elements_per_row = 8,          \
                               ulong2 origin = ulong2{0, 0}, bool transpose = false, msl::Site site = {}) {            \
        msl::load(m, from, {(const void *)from, elements_per_row, origin, transpose, false}, site);                    \
    }                                                                                                                  \
    template <class T>                                                                                                 \
    inline void simdgroup_store(const simdgroup_matrix<T, 8, 8> &m, SPACE T *to, ulong elements_per_row = 8,           \
                                ulong2 origin = ulong2{0, 0}, bool transpose = false, msl::Site site = {}) {           \
        msl::store(m, to, {(const void *)to, elements_per_row, origin, transpose, false}, site);                       \
    }
#if defined(MSL_AS) || defined(MSL_ONLY)
MSL_TRANSFERS(MSL_DEVICE)
MSL_TRANSFERS(MSL_THREADGROUP)
#else
MSL_TRANSFERS()
#endif
#undef MSL_TRANSFERS

template <class D, class A, class B, class C>
inline void simdgroup_multiply_accumulate(simdgroup_matrix<D, 8, 8> &d, const simdgroup_matrix<A, 8, 8> &a,
                                          const simdgroup_matrix<B, 8, 8> &b, const simdgroup_matrix<C, 8, 8> &c,
                                          msl::Site site = {}) {
    msl::Product<D, A, B, C> p{{}, a.thread_elements(), b.thread_elements(), c.thread_elements()};
    msl::core->meet(msl::ALL, &p, &msl::Product<D, A, B, C>::work, false, site);
    d.thread_elements() = p.d;
}

template <class D, class A, class B>
inline void simdgroup_multiply(simdgroup_matrix<D, 8, 8> &d, const simdgroup_matrix<A, 8, 8> &a,
                               const simdgroup_matrix<B, 8, 8> &b, msl::Site site = {}) {
    simdgroup_matrix<D, 8, 8> zero;
    zero.thread_elements() = vec<D, 2>{D(0), D(0)};
    simdgroup_multiply_accumulate(d, a, b, zero, site);
}

template <class T, int COLUMNS, int ROWS> inline simdgroup_matrix<T, COLUMNS, ROWS> make_filled_simdgroup_matrix(T value) {
    simdgroup_matrix<T, COLUMNS, ROWS> m;
    m.thread_elements() = vec<T, 2>{value, value};
    return m;
}

} // namespace metal
