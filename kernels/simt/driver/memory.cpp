// Device memory and pinned host memory, made and given back at the call.
#include "call.h"

using namespace standin;

namespace {

// answer writes one pointer attribute; data has the type that the attribute prescribes.
CUresult answer(const Allocation &a, uintptr_t pointer, CUpointer_attribute attribute, void *data) {
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        // Memory of a pool belongs to a device and to no context.
        *static_cast<CUcontext *>(data) = a.pool ? nullptr : a.context->handle;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *static_cast<unsigned *>(data) = a.host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        *static_cast<CUdeviceptr *>(data) = pointer;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        if (!a.host)
            return CUDA_ERROR_INVALID_VALUE;
        *static_cast<void **>(data) = reinterpret_cast<void *>(pointer);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        *static_cast<bool *>(data) = false;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPED:
        *static_cast<bool *>(data) = true;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *static_cast<int *>(data) = a.context->device->ordinal;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        *static_cast<CUdeviceptr *>(data) = a.begin();
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        *static_cast<size_t *>(data) = a.memory.size();
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        *static_cast<CUmemoryPool *>(data) = a.pool ? a.pool->handle : nullptr;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

} // namespace

CUresult cuMemGetInfo_v2(size_t *free, size_t *total) {
    return in_context({__func__, true, true}, [&](Machine &m, const ContextRef &context) {
        if (free == nullptr || total == nullptr)
            return CUDA_ERROR_INVALID_VALUE;
        *free = m.budget(*context->device);
        *total = m.settings.memory;
        return CUDA_SUCCESS;
    });
}

CUresult cuMemAlloc_v2(CUdeviceptr *pointer, size_t bytes) {
    return in_context({__func__, true, true}, [&](Machine &m, const ContextRef &context) {
        if (pointer == nullptr || bytes == 0)
            return CUDA_ERROR_INVALID_VALUE;
        AllocationRef allocation = m.allocate(context, bytes);
        if (!allocation)
            return CUDA_ERROR_OUT_OF_MEMORY;
        *pointer = allocation->begin();
        return CUDA_SUCCESS;
    });
}

CUresult cuMemFree_v2(CUdeviceptr pointer) {
    return in_context({__func__, false, true}, [&](Machine &m, const ContextRef &context) {
        AllocationRef allocation = m.allocation(pointer);
        if (!allocation || allocation->begin() != pointer || allocation->host)
            return CUDA_ERROR_INVALID_VALUE;
        if (allocation->freed)
            return m.misused("cuMemFree_v2: the memory was given to cuMemFreeAsync before");
        if (allocation->pool) {
            // The driver takes the caller's word that nothing uses the memory any more.
            if (!m.scheduler.host_covers(allocation->born) || !m.scheduler.host_covers(allocation->used))
                return m.misused("cuMemFree_v2: memory of a pool, which work under way may still use");
        } else {
            CUresult result = m.settle_all(*allocation->context); // as the driver does
            if (allocation->context == context && result != CUDA_SUCCESS)
                return result;
        }
        m.release(allocation);
        return CUDA_SUCCESS;
    });
}

CUresult cuMemHostAlloc(void **pointer, size_t bytes, unsigned flags) {
    return in_context({__func__, true, true}, [&](Machine &m, const ContextRef &context) {
        constexpr unsigned known = 1 | 2 | 4; // portable, mapped, write-combined
        if (pointer == nullptr || bytes == 0 || (flags & ~known) != 0)
            return CUDA_ERROR_INVALID_VALUE;
        AllocationRef allocation = m.allocate_host(context, bytes);
        if (!allocation)
            return CUDA_ERROR_OUT_OF_MEMORY;
        *pointer = allocation->memory.data();
        return CUDA_SUCCESS;
    });
}

CUresult cuMemFreeHost(void *pointer) {
    return in_context({__func__, false, true}, [&](Machine &m, const ContextRef &) {
        AllocationRef allocation = m.allocation(reinterpret_cast<uintptr_t>(pointer));
        if (!allocation || allocation->memory.data() != pointer || !allocation->host)
            return CUDA_ERROR_INVALID_VALUE;
        if (!m.scheduler.host_covers(allocation->used))
            return m.misused("cuMemFreeHost: a copy that nobody has waited for may still use the memory");
        m.release(allocation);
        return CUDA_SUCCESS;
    });
}

CUresult cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr pointer) {
    return in_context({__func__, true, true}, [&](Machine &m, const ContextRef &) {
        AllocationRef allocation = m.allocation(pointer);
        if (data == nullptr || !allocation || allocation->freed)
            return CUDA_ERROR_INVALID_VALUE;
        return answer(*allocation, pointer, attribute, data);
    });
}
