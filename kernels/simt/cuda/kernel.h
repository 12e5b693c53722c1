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

#define FKV_KERNEL_OF(name, threads, shared, blocks, ...) FKV_KERNEL(name, threads, shared, __VA_ARGS__)
#define FKV_KERNEL(name, threads, shared, ...)                                      \
    extern "C" void name(__VA_ARGS__);                                              \
    static const ::simt::Registration<&name> name##_registration(#name, (threads), (shared)); \
    extern "C" void name(__VA_ARGS__)

#define FKV_SHARED(p) unsigned char *const p = ::simt::current->around->shared
