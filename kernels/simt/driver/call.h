// How every exported function begins: lock, count, refuse what is not ready for the call.
#pragma once

#include <new>

#include "machine.h"

namespace standin {

// Entry names the function. One that gives something back never fails on request: a
// caller has no way to try again. An unsafe one is forbidden beside a capture: whatever is
// no work of a stream and no question about one, since NVIDIA's documents only say
// that such calls may be unsafe.
struct Entry {
    const char *name;
    bool can_fail = true, unsafe = false;
};

// call runs body under the lock, if the driver is initialised.
template <class Body> CUresult call(Entry entry, Body body) {
    Machine &m = machine();
    std::unique_lock<std::mutex> lock(m.mutex);
    auto counter = m.calls.find(std::string_view(entry.name));
    if (counter == m.calls.end())
        counter = m.calls.emplace(entry.name, 0).first;
    counter->second++;
    m.released.wait(lock, [&] { return m.held.count(entry.name) == 0; });
    if (!m.initialised)
        return CUDA_ERROR_NOT_INITIALIZED;
    if (entry.can_fail && m.fail_call.fires()) {
        m.injected++;
        return CUDA_ERROR_UNKNOWN;
    }
    if (CUresult code = m.refusal(entry.name); code != CUDA_SUCCESS)
        return code;
    try {
        CUresult allowed = entry.unsafe ? m.allow_unsafe() : CUDA_SUCCESS;
        return allowed == CUDA_SUCCESS ? body(m) : allowed;
    } catch (const std::bad_alloc &) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
}

// on_device is call with a device that must exist.
template <class Body> CUresult on_device(Entry entry, CUdevice ordinal, Body body) {
    return call(entry, [&](Machine &m) {
        Device *device = m.device(ordinal);
        return device == nullptr ? CUDA_ERROR_INVALID_DEVICE : body(m, *device);
    });
}

// current is the calling thread's context, null when it has none.
ContextRef current();

// in_context is call with the thread's current context, which must be alive and well.
template <class Body> CUresult in_context(Entry entry, Body body) {
    return call(entry, [&](Machine &m) {
        ContextRef context = current();
        if (!context)
            return CUDA_ERROR_INVALID_CONTEXT;
        if (context->destroyed)
            return CUDA_ERROR_CONTEXT_IS_DESTROYED;
        if (context->error != CUDA_SUCCESS)
            return context->error;
        return body(m, context);
    });
}

} // namespace standin
