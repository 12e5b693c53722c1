// What the translator writes about kernels: their parameters, their threadgroup memory and the
// function constants.
#pragma once
#pragma clang system_header

#include "table.h"
#include "vector.h"

namespace msl {

extern const Core *core;

// Constant is a function constant, read where it is used: one compiled library serves all
// pipelines.
template <unsigned INDEX> struct Constant {
    static constexpr unsigned index = INDEX;
    operator bool() const { return static_cast<const uint64_t *>(core->current()->around->constants)[INDEX] != 0; }
};

// Parameter is the type of parameter I of a function.
template <unsigned I, class F> struct ParameterOf;
template <class First, class... More> struct ParameterOf<0, void (*)(First, More...)> { using Type = First; };
template <unsigned I, class First, class... More>
struct ParameterOf<I, void (*)(First, More...)> : ParameterOf<I - 1, void (*)(More...)> {};
template <unsigned I, class F> using Parameter = typename ParameterOf<I, F>::Type;

// in_space makes a pointer of another address space, and hides where it is from: the sanitizers
// would look through a cast, and see memory that they are to skip (MSL_ONLY).
template <class P> inline P in_space(const volatile void *memory) {
    P p;
    asm("" : "=r"(p) : "0"(memory));
    return p;
}

// Buffer takes a kernel's buffer parameter from a launch.
template <class P> struct Buffer {
    static_assert(sizeof(P) == 0, "a buffer is a pointer or a reference");
};
template <class T> struct Buffer<T *> {
    static constexpr size_t SIZE = 0;
    static constexpr bool WRITABLE = true;
    static T *from(void *const *param) { return param ? in_space<T *>(*param) : nullptr; }
};
template <class T> struct Buffer<const T *> {
    static constexpr size_t SIZE = 0;
    static constexpr bool WRITABLE = false;
    static const T *from(void *const *param) { return param ? in_space<const T *>(*param) : nullptr; }
};
template <class T> struct Buffer<T &> {
    static constexpr size_t SIZE = sizeof(T);
    static constexpr bool WRITABLE = Buffer<T *>::WRITABLE;
    static T &from(void *const *param) { return *Buffer<T *>::from(param); }
};

// take_buffer gives a kernel's buffer parameter, null when the constant that guards it says so.
template <class P> inline P take_buffer(void *const *params, unsigned i, bool exists) {
    return Buffer<P>::from(exists ? static_cast<void *const *>(params[i]) : nullptr);
}

// exactly gives a built-in value, whose parameter must have its type.
template <class P, class T> inline T exactly(T value) {
    static_assert(Same<P, T>::value, "a built-in parameter has another type than uint3 (positions) or uint (indices)");
    return value;
}

inline uint3 position(simt::Dim d) { return uint3{d.x, d.y, d.z}; }
inline uint3 threadgroup_position_in_grid() { return position(core->current()->around->block); }
inline uint3 threadgroups_per_grid() { return position(core->current()->around->grid); }
inline uint thread_index_in_threadgroup() {
    const simt::Thread &t = *core->current();
    return t.index.x + t.around->size.x * (t.index.y + t.around->size.y * t.index.z);
}
inline uint simdgroup_index_in_threadgroup() { return thread_index_in_threadgroup() / simt::WARP; }
inline uint thread_index_in_simdgroup() { return core->current()->lane; }

// Threadgroup memory is a part of what the core gives a block: poisoned, and guarded at both ends.
constexpr size_t MOST_THREADGROUP_MEMORY = 32768;

constexpr size_t larger(size_t a, size_t b) { return a < b ? b : a; }
constexpr size_t aligned(size_t n, size_t to) { return (n + to - 1) / to * to; }

template <class T> inline T &threadgroup_variable(size_t at) { return *in_space<T *>(core->current()->around->shared + at); }

// The linker makes one array of what a library's kernels note, and these are its ends.
extern "C" const Shared __start_msl_shared[] __attribute__((weak, visibility("hidden")));
extern "C" const Shared __stop_msl_shared[] __attribute__((weak, visibility("hidden")));

} // namespace msl

// MSL_SHARED notes how much threadgroup memory a kernel has used up with a variable.
#define MSL_SHARED(id, kernel, end)                                                                          \
    static_assert(end <= ::msl::MOST_THREADGROUP_MEMORY, "a kernel has at most 32768 bytes of threadgroup memory"); \
    static ::msl::Shared msl_shared_##id __attribute__((used, section("msl_shared"), no_sanitize("address"))) = {kernel, end}

// MSL_PROGRAM stands behind the kernels, once. Both arrays have one element more than they hold.
#define MSL_PROGRAM(functions, constants)                                                                       \
    const ::msl::Core *msl::core;                                                                               \
    extern "C" __attribute__((visibility("default"))) const ::msl::Table *msl_open(const ::msl::Core *core) {      \
        static ::msl::Table table;                                                                              \
        ::msl::core = core;                                                                                     \
        table = {functions, sizeof(functions) / sizeof(functions[0]) - 1, ::msl::__start_msl_shared,               \
                 size_t(::msl::__stop_msl_shared - ::msl::__start_msl_shared), constants,                           \
                 sizeof(constants) / sizeof(constants[0]) - 1};                                                   \
        return &table;                                                                                          \
    }
