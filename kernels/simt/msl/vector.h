// Scalars and vectors of Metal, as clang's own extended vectors: these have its swizzles,
// arithmetic and layout.
#pragma once
#pragma clang system_header

// The address spaces: all of them where clang is to check them (MSL_AS), else none, but for the
// one that MSL_ONLY, a flag of mem_flags, hides from the race check.
#if defined(MSL_AS) || MSL_ONLY == 2
#define MSL_DEVICE __attribute__((address_space(1)))
#else
#define MSL_DEVICE
#endif
#ifdef MSL_AS
#define MSL_CONSTANT __attribute__((address_space(2)))
#else
#define MSL_CONSTANT
#endif
#if defined(MSL_AS) || MSL_ONLY == 1
#define MSL_THREADGROUP __attribute__((address_space(3)))
#else
#define MSL_THREADGROUP
#endif

typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
typedef _Float16 half;
#if __METAL_VERSION__ >= 310
typedef __bf16 bfloat;
#endif

constexpr half operator""h(long double x) { return static_cast<half>(x); }

namespace metal {
template <class T, int N> using vec = T __attribute__((ext_vector_type(N)));
} // namespace metal

#define MSL_VECTORS(T) typedef metal::vec<T, 2> T##2; typedef metal::vec<T, 3> T##3; typedef metal::vec<T, 4> T##4;
MSL_VECTORS(char)
MSL_VECTORS(uchar)
MSL_VECTORS(short)
MSL_VECTORS(ushort)
MSL_VECTORS(int)
MSL_VECTORS(uint)
MSL_VECTORS(long)
MSL_VECTORS(ulong)
MSL_VECTORS(half)
MSL_VECTORS(float)
#if __METAL_VERSION__ >= 310
MSL_VECTORS(bfloat)
#endif
#undef MSL_VECTORS

namespace msl {

// Shape is what a type is made of: its element and how many; a scalar has one.
template <class T> struct Shape {
    using Element = T;
    static constexpr int COUNT = 1;
    static constexpr bool VECTOR = false;
};
template <class T, int N> struct Shape<T __attribute__((ext_vector_type(N)))> {
    using Element = T;
    static constexpr int COUNT = N;
    static constexpr bool VECTOR = true;
};

template <class T> using Element = typename Shape<T>::Element;

template <bool B, class T = void> struct EnableIf {};
template <class T> struct EnableIf<true, T> { using Type = T; };
template <bool B, class T = void> using If = typename EnableIf<B, T>::Type;
template <class A, class B> struct Same { static constexpr bool value = false; };
template <class A> struct Same<A, A> { static constexpr bool value = true; };

template <class T> constexpr bool is_floating() {
    return Same<T, float>::value || Same<T, half>::value
#if __METAL_VERSION__ >= 310
           || Same<T, bfloat>::value
#endif
        ;
}
template <class T> constexpr bool is_integer() {
    return !is_floating<T>() && T(3) / T(2) == T(1) && !Same<T, bool>::value;
}

// map makes a value of type T, each of whose elements is f(of the elements of the others).
template <class T, class F, class... A> inline If<!Shape<T>::VECTOR, T> map(F f, A... a) { return f(a...); }
template <class T, class F, class... A> inline If<Shape<T>::VECTOR, T> map(F f, A... a) {
    T result;
    for (int i = 0; i < Shape<T>::COUNT; i++)
        result[i] = f(a[i]...);
    return result;
}

template <class T> constexpr int count_of() { return Shape<T>::COUNT; }
template <class T, class U, class... More> constexpr int count_of() { return Shape<T>::COUNT + count_of<U, More...>(); }

template <class V> inline void put(V &, int) {}
template <class V, class A, class... More> inline void put(V &v, int at, A a, More... more);
template <class V, class A> inline If<!Shape<A>::VECTOR> put_one(V &v, int at, A a) { v[at] = static_cast<Element<V>>(a); }
template <class V, class A> inline If<Shape<A>::VECTOR> put_one(V &v, int at, A a) {
    for (int i = 0; i < Shape<A>::COUNT; i++)
        v[at + i] = static_cast<Element<V>>(a[i]);
}
template <class V, class A, class... More> inline void put(V &v, int at, A a, More... more) {
    put_one(v, at, a);
    put(v, at + Shape<A>::COUNT, more...);
}

// make is T(a...), which C++ does not know for vectors: from one scalar for all elements, from
// a vector of another element type, or from parts that fill it. The translator writes it for
// every name that may be a vector's.
template <class T, class A> constexpr If<!Shape<T>::VECTOR, T> make(A a) { return T(a); }
template <class T, class... A> constexpr If<!Shape<T>::VECTOR && sizeof...(A) != 1, T> make(A... a) { return T(a...); }
template <class T, class A> constexpr If<Shape<T>::VECTOR && !Shape<A>::VECTOR, T> make(A a) {
    return (T)(static_cast<Element<T>>(a));
}
template <class T, class A> inline If<Shape<T>::VECTOR && Shape<A>::VECTOR, T> make(A a) {
    static_assert(Shape<T>::COUNT == Shape<A>::COUNT, "a vector is made from one of another length");
    return __builtin_convertvector(a, T);
}
template <class T, class A, class B, class... More> inline If<Shape<T>::VECTOR, T> make(A a, B b, More... more) {
    static_assert(Shape<T>::COUNT == count_of<A, B, More...>(), "a vector is made from too few or too many elements");
    T v;
    put(v, 0, a, b, more...);
    return v;
}

} // namespace msl

template <class T, class A> constexpr T as_type(A a) {
    static_assert(sizeof(T) == sizeof(A), "as_type between types of different size");
    return __builtin_bit_cast(T, a);
}
