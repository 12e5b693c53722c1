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

// pinned_side finds pinned memory again that host_side has found before.
CUresult pinned_side(Machine &m, const char *call, uintptr_t pointer, size_t bytes, Side *side) {
    CUresult result = host_side(m, call, reinterpret_cast<void *>(pointer), bytes, side);
    if (result == CUDA_SUCCESS && !side->allocation)
        return m.misused(std::string(call) + ": a graph copies " + bytes_at(bytes, pointer) + ", which are not pinned any more");
    return result;
}

enum class Memory { DEVICE, PINNED };

// End is where a copy begins or ends.
struct End {
    uintptr_t address;
    Memory memory;
};

CUresult find(Machine &m, const char *call, const Stream &stream, End end, size_t bytes, Side *side) {
    return end.memory == Memory::DEVICE ? device_side(m, call, stream, end.address, bytes, side)
                                        : pinned_side(m, call, end.address, bytes, side);
}

// copy is the operation that copies between memory of which the stand-in knows both ends.
Node copy(const char *call, End dst, End src, size_t bytes) {
    return [=](Machine &m, const Stream &stream, Work *work) {
        Side to, from;
        CUresult result = find(m, call, stream, dst, bytes, &to);
        if (result == CUDA_SUCCESS)
            result = find(m, call, stream, src, bytes, &from);
        if (result != CUDA_SUCCESS)
            return result;
        // Both allocations stay mapped until the copy has run.
        work->uses = {to.allocation, from.allocation};
        work->run = [to, from, bytes] {
            memcpy(to.data, from.data, bytes);
            return CUDA_SUCCESS;
        };
        return CUDA_SUCCESS;
    };
}

// to_device begins a copy from host memory; wait: as the call without a stream does it.
CUresult to_device(Machine &m, const char *call, const StreamRef &stream, CUdeviceptr dst, const void *src,
                   size_t bytes, bool wait) {
    if (!stream)
        return CUDA_ERROR_INVALID_HANDLE;
    CUresult result = m.allow(*stream, wait ? Use::RUN : Use::RECORD);
    if (result != CUDA_SUCCESS || bytes == 0)
        return result;
    Side to, from;
    result = host_side(m, call, src, bytes, &from);
    if (result != CUDA_SUCCESS)
        return result;
    if (from.allocation) {
        OpRef op;
        result = m.submit(*stream, copy(call, {dst, Memory::DEVICE}, {uintptr_t(src), Memory::PINNED}, bytes), &op);
        return wait && result == CUDA_SUCCESS ? m.settle(*stream->context, op) : result;
    }
    // Pageable memory is staged at the call, which a graph cannot repeat. Even the call without
    // a stream returns before the bytes have reached the device; it only waits for what was
    // there earlier.
    result = m.allow(*stream, Use::RUN);
    if (result == CUDA_SUCCESS)
        result = device_side(m, call, *stream, dst, bytes, &to);
    if (result == CUDA_SUCCESS && wait)
        result = m.settle(*stream->context, stream->last);
    if (result != CUDA_SUCCESS)
        return result;
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
    CUresult result = m.allow(*stream, wait ? Use::RUN : Use::RECORD);
    if (result != CUDA_SUCCESS || bytes == 0)
        return result;
    Side to, from;
    result = host_side(m, call, dst, bytes, &to);
    if (result != CUDA_SUCCESS)
        return result;
    OpRef op;
    if (to.allocation) {
        result = m.submit(*stream, copy(call, {uintptr_t(dst), Memory::PINNED}, {src, Memory::DEVICE}, bytes), &op);
        return wait && result == CUDA_SUCCESS ? m.settle(*stream->context, op) : result;
    }
    result = m.allow(*stream, Use::RUN);
    if (result == CUDA_SUCCESS)
        result = device_side(m, call, *stream, src, bytes, &from);
    if (result != CUDA_SUCCESS)
        return result;
    op = m.scheduler.add(*stream, [to, from, bytes] {
        memcpy(to.data, from.data, bytes);
        return CUDA_SUCCESS;
    });
    from.allocation->used.add(stream->id, stream->number);
    return m.settle(*stream->context, op);
}

} // namespace

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr dst, const void *src, size_t bytes, CUstream stream) {
    return in_context({__func__}, [&, name = __func__](Machine &m, const ContextRef &context) {
        return to_device(m, name, m.stream(context, stream), dst, src, bytes, false);
    });
}

CUresult cuMemcpyHtoD_v2(CUdeviceptr dst, const void *src, size_t bytes) {
    return in_context({__func__, true, true}, [&, name = __func__](Machine &m, const ContextRef &context) {
        return to_device(m, name, context->legacy, dst, src, bytes, true);
    });
}

CUresult cuMemcpyDtoHAsync_v2(void *dst, CUdeviceptr src, size_t bytes, CUstream stream) {
    return in_context({__func__}, [&, name = __func__](Machine &m, const ContextRef &context) {
        return to_host(m, name, m.stream(context, stream), dst, src, bytes, false);
    });
}

CUresult cuMemcpyDtoH_v2(void *dst, CUdeviceptr src, size_t bytes) {
    return in_context({__func__, true, true}, [&, name = __func__](Machine &m, const ContextRef &context) {
        return to_host(m, name, context->legacy, dst, src, bytes, true);
    });
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream) {
    return in_context({__func__}, [&, name = __func__](Machine &m, const ContextRef &context) {
        StreamRef s = m.stream(context, stream);
        if (!s)
            return CUDA_ERROR_INVALID_HANDLE;
        CUresult result = m.allow(*s, Use::RECORD);
        if (result != CUDA_SUCCESS || bytes == 0)
            return result;
        if (dst < src + bytes && src < dst + bytes)
            return m.misused(std::string(name) + ": source and destination overlap");
        return m.submit(*s, copy(name, {dst, Memory::DEVICE}, {src, Memory::DEVICE}, bytes));
    });
}
