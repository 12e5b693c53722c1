// Memory in stream order: allocated and freed where the stream comes to it.
#include "call.h"

using namespace standin;

namespace {

// with_pool is call with a pool that must exist, where the device has pools.
template <class Body> CUresult with_pool(Entry entry, CUmemoryPool handle, Body body) {
    return call(entry, [&](Machine &m) {
        if (!m.settings.pools)
            return CUDA_ERROR_NOT_SUPPORTED;
        PoolRef pool = m.pools.find(handle);
        return pool ? body(m, pool) : CUDA_ERROR_INVALID_VALUE;
    });
}

bool policy(CUmemPool_attribute attribute) {
    return attribute == CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES ||
           attribute == CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC ||
           attribute == CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES;
}

bool valid(Machine &m, const CUmemPoolProps &props) {
    const unsigned char *reserved = props.reserved;
    return props.allocType == CU_MEM_ALLOCATION_TYPE_PINNED && props.handleTypes == CU_MEM_HANDLE_TYPE_NONE &&
           props.location.type == CU_MEM_LOCATION_TYPE_DEVICE && m.device(props.location.id) != nullptr &&
           props.win32SecurityAttributes == nullptr &&
           std::all_of(reserved, reserved + sizeof props.reserved, [](unsigned char c) { return c == 0; });
}

} // namespace

CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *props) {
    return call({__func__, true, true}, [&](Machine &m) {
        if (!m.settings.pools)
            return CUDA_ERROR_NOT_SUPPORTED;
        if (pool == nullptr || props == nullptr || !valid(m, *props))
            return CUDA_ERROR_INVALID_VALUE;
        auto made = std::make_shared<Pool>();
        made->device = m.device(props->location.id);
        *pool = made->handle = m.pools.add(made);
        return CUDA_SUCCESS;
    });
}

CUresult cuMemPoolDestroy(CUmemoryPool pool) {
    return with_pool({__func__, false, true}, pool, [&](Machine &m, const PoolRef &p) {
        p->handle = nullptr; // what is still allocated keeps the pool
        p->trim(0);
        m.pools.remove(pool);
        return CUDA_SUCCESS;
    });
}

CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value) {
    return with_pool({__func__, true, true}, pool, [&](Machine &, const PoolRef &p) {
        if (value == nullptr)
            return CUDA_ERROR_INVALID_VALUE;
        if (policy(attribute)) {
            p->reuse[attribute] = *static_cast<int *>(value);
            return CUDA_SUCCESS;
        }
        uint64_t wide = *static_cast<uint64_t *>(value);
        switch (attribute) {
        case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
            p->threshold = wide;
            return CUDA_SUCCESS;
        case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH: // marks can only be set to zero
            p->reserved_high = wide == 0 ? p->reserved : p->reserved_high;
            return wide == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
        case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
            p->used_high = wide == 0 ? p->used : p->used_high;
            return wide == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
        default:
            return CUDA_ERROR_INVALID_VALUE;
        }
    });
}

CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value) {
    return with_pool({__func__, true, true}, pool, [&](Machine &, const PoolRef &p) {
        if (value == nullptr)
            return CUDA_ERROR_INVALID_VALUE;
        if (policy(attribute)) {
            auto set = p->reuse.find(attribute);
            *static_cast<int *>(value) = set == p->reuse.end() ? 1 : set->second;
            return CUDA_SUCCESS;
        }
        uint64_t &wide = *static_cast<uint64_t *>(value);
        switch (attribute) {
        case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD: wide = p->threshold; break;
        case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT: wide = p->reserved; break;
        case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH: wide = p->reserved_high; break;
        case CU_MEMPOOL_ATTR_USED_MEM_CURRENT: wide = p->used; break;
        case CU_MEMPOOL_ATTR_USED_MEM_HIGH: wide = p->used_high; break;
        default: return CUDA_ERROR_INVALID_VALUE;
        }
        return CUDA_SUCCESS;
    });
}

CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t keep) {
    return with_pool({__func__, true, true}, pool, [&](Machine &, const PoolRef &p) {
        p->trim(keep);
        return CUDA_SUCCESS;
    });
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr *pointer, size_t bytes, CUmemoryPool pool, CUstream stream) {
    return in_context({__func__, true, true}, [&](Machine &m, const ContextRef &context) {
        if (!m.settings.pools)
            return CUDA_ERROR_NOT_SUPPORTED;
        PoolRef p = m.pools.find(pool);
        StreamRef s = m.stream(context, stream);
        if (!s)
            return CUDA_ERROR_INVALID_HANDLE;
        if (pointer == nullptr || bytes == 0 || !p || p->device != s->context->device)
            return CUDA_ERROR_INVALID_VALUE;
        CUresult allowed = m.allow(*s, Use::RUN); // drivers make nodes of a graph of it, from CUDA 11.4 on
        if (allowed != CUDA_SUCCESS)
            return allowed;
        AllocationRef allocation = m.allocate(s->context, bytes, p);
        if (!allocation)
            return CUDA_ERROR_OUT_OF_MEMORY;
        m.scheduler.add(*s, nullptr);
        allocation->born.add(s->id, s->number);
        *pointer = allocation->begin();
        return CUDA_SUCCESS;
    });
}

CUresult cuMemFreeAsync(CUdeviceptr pointer, CUstream stream) {
    return in_context({__func__, false, true}, [&](Machine &m, const ContextRef &context) {
        if (!m.settings.pools)
            return CUDA_ERROR_NOT_SUPPORTED;
        StreamRef s = m.stream(context, stream);
        if (!s)
            return CUDA_ERROR_INVALID_HANDLE;
        AllocationRef allocation = m.allocation(pointer);
        if (!allocation || allocation->begin() != pointer || !allocation->pool || allocation->freed)
            return CUDA_ERROR_INVALID_VALUE;
        CUresult allowed = m.allow(*s, Use::RUN);
        if (allowed != CUDA_SUCCESS)
            return allowed;
        Clock now = m.scheduler.order(*s);
        if (!now.covers(allocation->born))
            return m.misused("cuMemFreeAsync: the stream does not wait for the allocation");
        if (!now.covers(allocation->used))
            return m.misused("cuMemFreeAsync: the stream does not wait for a copy that uses the memory");
        allocation->freed = true;
        m.scheduler.add(*s, [&m, allocation] {
            m.release(allocation);
            return CUDA_SUCCESS;
        });
        return CUDA_SUCCESS;
    });
}
