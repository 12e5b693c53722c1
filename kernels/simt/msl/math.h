// Metal's functions of numbers. Fast math is off: infinities and NaNs are themselves, and each
// operation rounds to its type.
#pragma once
#pragma clang system_header

#include "vector.h"

namespace msl {

struct Fma {
    float operator()(float a, float b, float c) const { return __builtin_fmaf(a, b, c); }
    half operator()(half a, half b, half c) const { return half(double(a) * double(b) + double(c)); } // an exact product
};
struct Exp2 {
    template <class T> T operator()(T x) const { return T(__builtin_exp2f(float(x))); }
};
// Fast functions say nothing of infinities and NaN: here those become a number that no kernel can use.
struct FastExp2 {
    template <class T> T operator()(T x) const { return T(__builtin_isfinite(float(x)) ? __builtin_exp2f(float(x)) : -1e30f); }
};
struct Exp {
    template <class T> T operator()(T x) const { return T(__builtin_expf(float(x))); }
};
struct Log {
    template <class T> T operator()(T x) const { return T(__builtin_logf(float(x))); }
};
struct Rint {
    template <class T> T operator()(T x) const { return T(__builtin_rintf(float(x))); }
};
struct Fabs {
    template <class T> T operator()(T x) const { return T(__builtin_fabsf(float(x))); }
};
struct Min {
    template <class T> T operator()(T x, T y) const { return y < x ? y : x; }
};
struct Max {
    template <class T> T operator()(T x, T y) const { return x < y ? y : x; }
};
struct Clamp {
    template <class T> T operator()(T x, T low, T high) const { return Min()(Max()(x, low), high); }
};
struct Select {
    template <class T, class C> T operator()(T no, T yes, C which) const { return which ? yes : no; }
};
struct Ctz {
    template <class T> T operator()(T x) const {
        return x == 0 ? T(8 * sizeof(T)) : T(__builtin_ctzl(static_cast<unsigned long>(x)));
    }
};
struct Popcount {
    template <class T> T operator()(T x) const {
        constexpr unsigned long MASK = ~0ul >> (64 - 8 * sizeof(T));
        return T(__builtin_popcountl(static_cast<unsigned long>(x) & MASK));
    }
};

// Real holds for the types that functions of real numbers take.
template <class T> using Real = If<Same<Element<T>, float>::value || Same<Element<T>, half>::value, T>;
template <class T> using Integer = If<is_integer<Element<T>>(), T>;
template <class T> using Number = If<is_integer<Element<T>>() || is_floating<Element<T>>(), T>;

} // namespace msl

namespace metal {

template <class T> inline msl::Real<T> fma(T a, T b, T c) { return msl::map<T>(msl::Fma(), a, b, c); }
template <class T> inline msl::Real<T> exp2(T x) { return msl::map<T>(msl::Exp2(), x); }
namespace fast {
template <class T> inline msl::Real<T> exp2(T x) { return msl::map<T>(msl::FastExp2(), x); }
} // namespace fast
template <class T> inline msl::Real<T> exp(T x) { return msl::map<T>(msl::Exp(), x); }
template <class T> inline msl::Real<T> log(T x) { return msl::map<T>(msl::Log(), x); }
template <class T> inline msl::Real<T> rint(T x) { return msl::map<T>(msl::Rint(), x); }
template <class T> inline msl::Real<T> fabs(T x) { return msl::map<T>(msl::Fabs(), x); }
template <class T> inline msl::Number<T> min(T x, T y) { return msl::map<T>(msl::Min(), x, y); }
template <class T> inline msl::Number<T> max(T x, T y) { return msl::map<T>(msl::Max(), x, y); }
template <class T> inline msl::Number<T> clamp(T x, T low, T high) { return msl::map<T>(msl::Clamp(), x, low, high); }
template <class T> inline msl::Integer<T> ctz(T x) { return msl::map<T>(msl::Ctz(), x); }
template <class T> inline msl::Integer<T> popcount(T x) { return msl::map<T>(msl::Popcount(), x); }

// select is yes where which, else no. Of vectors, which is what a comparison gives.
template <class T, class C> inline msl::Number<T> select(T no, T yes, C which) {
    static_assert(msl::Shape<T>::COUNT == msl::Shape<C>::COUNT, "select of another length than its condition");
    static_assert(msl::Shape<T>::VECTOR || msl::Same<C, bool>::value, "select of scalars by a bool");
    return msl::map<T>(msl::Select(), no, yes, which);
}

template <class T> inline msl::If<!msl::Shape<T>::VECTOR && msl::is_floating<T>(), bool> isnan(T x) {
    return __builtin_isnan(float(x));
}

} // namespace metal
