// How a kernel and its shared memory are declared, for kernels/cuda/kernel.cuh.
#pragma once

#include <cstddef>
#include <utility>

#include "../core/thread.h"

namespace simt {

// Entry calls a kernel with parameters that are known by address and size only.
template <auto function> struct Entry;

template <class... P, void (*function)(P...)> struct Entry<function> {
    static constexpr size_t count = sizeof...(P);
    static constexpr size_t sizes[] = {sizeof(P)...};

    static void call(void *const *params) { call(params, std::index_sequence_for<P...>()); }

private:
    template <size_t... I> static void call(void *const *params, std::index_sequence<I...>) {
        function(*static_cast<P *>(params[I])...);
    }
};

// Registration makes a kernel known when its file is loaded.
template <auto function> struct Registration {
    Registration(const char *name, unsigned threads, unsigned shared) {
        using E = Entry<function>;
        add({name, threads, shared, E::sizes, E::count, &E::call});
    }
};

} // namespace simt

#define FKV_JOINED(a, b) a##b
#define FKV_JOIN(a, b) FKV_JOINED(a, b)
#define FKV_QUOTED(text) #text
#define FKV_QUOTE(text) FKV_QUOTED(text)

// Kernels of kernels/cuda/variants/DIR, which are compiled with FKV_VARIANT=DIR, lie beside those of the same names that
// they are to replace: they are registered as NAME@DIR, and what they are made of has a namespace of its own.
#ifdef FKV_VARIANT
#define fkv FKV_JOIN(fkv_, FKV_VARIANT)
#define FKV_SYMBOL(name) FKV_JOIN(name##_, FKV_VARIANT)
#define FKV_REGISTERED(name) #name "@" FKV_QUOTE(FKV_VARIANT)
#else
#define FKV_SYMBOL(name) name
#define FKV_REGISTERED(name) #name
#endif

#define FKV_KERNEL_OF(name, threads, shared, blocks, ...) FKV_KERNEL(name, threads, shared, __VA_ARGS__)
#define FKV_KERNEL(name, threads, shared, ...)                                                                         \
    extern "C" void FKV_SYMBOL(name)(__VA_ARGS__);                                                                     \
    static const ::simt::Registration<&FKV_SYMBOL(name)> name##_registration(FKV_REGISTERED(name), (threads), (shared)); \
    extern "C" void FKV_SYMBOL(name)(__VA_ARGS__)

#define FKV_SHARED(p) unsigned char *const p = ::simt::current->around->shared
