// Copies. Device memory is a mapping of the host, so that a copy is a memcpy; what counts
// is when it happens. A copy from pinned memory reads its source when the stream comes to it,
// so that a source that is used again too early shows.
#include <cstring>

#include "call.h"

using namespace standin;

namespace {

// Side is one end of a copy: n bytes and, where the stand-in made it, their allocation.
struct Side {
    unsigned char *data = nullptr;
    AllocationRef allocation;
};

std::string bytes_at(size_t bytes, uintptr_t address) {
    char text[64];
    snprintf(text, sizeof text, "%zu bytes at %#zx", bytes, size_t(address));
    return text;
}

// device_side finds device memory that an operation enqueued now on the stream may use.
CUresult device_side(Machine &m, const char *call, const Stream &stream, CUdeviceptr pointer, size_t bytes,
                     Side *side) {
    AllocationRef a = m.allocation(pointer);
    std::string what = std::string(call) + ": " + bytes_at(bytes, pointer);
    if (!a || a->host || bytes > a->end() - pointer)
        return m.misused(what + " are not within an allocation of device memory");
    if (a->context->device != stream.context->device)
        return m.misused(what + " are memory of another device than the stream's");
    if (a->freed)
        return m.misused(what + " were given to cuMemFreeAsync before");
    if (!m.scheduler.order(stream).covers(a->born))
        return m.misused(what + " are used on a stream that does not wait for their allocation");
    *side = {reinterpret_cast<unsigned char *>(pointer), a};
    return CUDA_SUCCESS;
}

// host_side finds out whether memory of the host is pinned: then it has an allocation.
CUresult host_side(Machine &m, const char *call, const void *pointer, size_t bytes, Side *side) {
    auto address = reinterpret_cast<uintptr_t>(pointer);
    AllocationRef a = m.allocation(address);
    if (pointer == nullptr)
        return CUDA_ERROR_INVALID_VALUE;
    if (a && (!a->host || bytes > a->end() - address))
        return m.misused(std::string(call) + ": " + bytes_at(bytes, address) + " are not memory of the host");
    *side = {static_cast<unsigned char *>(const_cast<void *>(pointer)), a};
    return CUDA_SUCCESS;
}

// enqueue adds the copy to the stream and to what uses both ends.
OpRef enqueue(Machine &m, Stream &stream, const Side &dst, const Side &src, size_t bytes) {
    // Both allocations stay mapped until the copy has run.
    OpRef op = m.scheduler.add(stream, [dst, src, bytes] {
        memcpy(dst.data, src.data, bytes);
        return CUDA_SUCCESS;
    });
    for (const Side *side : {&dst, &src})
        if (side->allocation)
            side->allocation->used.add(stream.id, stream.number);
    return op;
}

// to_device begins a copy from host memory; wait: as the call without a stream does it.
CUresult to_device(Machine &m, const char *call, const StreamRef &stream, CUdeviceptr dst, const void *src,
                   size_t bytes, bool wait) {
    if (!stream)
        return CUDA_ERROR_INVALID_HANDLE;
    if (bytes == 0)
        return CUDA_SUCCESS;
    Side to, from;
    CUresult result = device_side(m, call, *stream, dst, bytes, &to);
    if (result == CUDA_SUCCESS)
        result = host_side(m, call, src, bytes, &from);
    if (result != CUDA_SUCCESS)
        return result;
    if (from.allocation) {
        OpRef op = enqueue(m, *stream, to, from, bytes);
        return wait ? m.settle(*stream->context, op) : CUDA_SUCCESS;
    }
    // Pageable memory is staged at the call. Even the call without a stream returns before
    // the bytes have reached the device; it only waits for what was there earlier.
    if (wait) {
        result = m.settle(*stream->context, stream->last);
        if (result != CUDA_SUCCESS)
            return result;
    }
    auto staged = std::make_shared<std::vector<unsigned char>>(from.data, from.data + bytes);
    m.scheduler.add(*stream, [to, staged] {
        memcpy(to.data, staged->data(), staged->size());
        return CUDA_SUCCESS;
    });
    to.allocation->used.add(stream->id, stream->number);
    return CUDA_SUCCESS;
}

// to_host begins a copy to host memory. Only pinned memory lets the call return before.
CUresult to_host(Machine &m, const char *call, const StreamRef &stream, void *dst, CUdeviceptr src, size_t bytes,
                 bool wait) {
    if (!stream)
        return CUDA_ERROR_INVALID_HANDLE;
    if (bytes == 0)
        return CUDA_SUCCESS;
    Side to, from;
    CUresult result = device_side(m, call, *stream, src, bytes, &from);
    if (result == CUDA_SUCCESS)
        result = host_side(m, call, dst, bytes, &to);
    if (result != CUDA_SUCCESS)
        return result;
    OpRef op = enqueue(m, *stream, to, from, bytes);
    return wait || !to.allocation ? m.settle(*stream->context, op) : CUDA_SUCCESS;
}

} // namespace

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr dst, const void *src, size_t bytes, CUstream stream) {
    return in_context({__func__}, [&, name = __func__](Machine &m, const ContextRef &context) {
        return to_device(m, name, m.stream(context, stream), dst, src, bytes, false);
    });
}

CUresult cuMemcpyHtoD_v2(CUdeviceptr dst, const void *src, size_t bytes) {
    return in_context({__func__}, [&, name = __func__](Machine &m, const ContextRef &context) {
        return to_device(m, name, context->legacy, dst, src, bytes, true);
    });
}

CUresult cuMemcpyDtoHAsync_v2(void *dst, CUdeviceptr src, size_t bytes, CUstream stream) {
    return in_context({__func__}, [&, name = __func__](Machine &m, const ContextRef &context) {
        return to_host(m, name, m.stream(context, stream), dst, src, bytes, false);
    });
}

CUresult cuMemcpyDtoH_v2(void *dst, CUdeviceptr src, size_t bytes) {
    return in_context({__func__}, [&, name = __func__](Machine &m, const ContextRef &context) {
        return to_host(m, name, context->legacy, dst, src, bytes, true);
    });
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream) {
    return in_context({__func__}, [&, name = __func__](Machine &m, const ContextRef &context) {
        StreamRef s = m.stream(context, stream);
        if (!s)
            return CUDA_ERROR_INVALID_HANDLE;
        if (bytes == 0)
            return CUDA_SUCCESS;
        Side to, from;
        CUresult result = device_side(m, name, *s, dst, bytes, &to);
        if (result == CUDA_SUCCESS)
            result = device_side(m, name, *s, src, bytes, &from);
        if (result != CUDA_SUCCESS)
            return result;
        if (dst < src + bytes && src < dst + bytes)
            return m.misused(std::string(name) + ": source and destination overlap");
        enqueue(m, *s, to, from, bytes);
        return CUDA_SUCCESS;
    });
}
