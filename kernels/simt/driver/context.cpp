// Primary contexts and each thread's stack of current ones.
#include "call.h"

using namespace standin;

namespace {

thread_local std::vector<ContextRef> stack; // the current one last

// set makes a context the thread's current one; a null context leaves it without.
void set(const ContextRef &context) {
    if (!stack.empty())
        stack.pop_back();
    if (context)
        stack.push_back(context);
}

void reset(Machine &m, Device &device) {
    if (device.primary)
        m.destroy(device.primary);
    device.primary = nullptr;
}

} // namespace

ContextRef standin::current() { return stack.empty() ? nullptr : stack.back(); }

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
    return on_device({__func__, true, true}, device, [&](Machine &m, Device &d) {
        if (context == nullptr)
            return CUDA_ERROR_INVALID_VALUE;
        if (!d.primary) {
            d.primary = std::make_shared<Context>();
            d.primary->device = &d;
            d.primary->legacy = m.scheduler.open(d.primary, false, true);
            d.primary->handle = m.contexts.add(d.primary);
        }
        d.retained++;
        *context = d.primary->handle;
        return CUDA_SUCCESS;
    });
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
    return on_device({__func__, false, true}, device, [](Machine &m, Device &d) {
        if (d.retained == 0)
            return CUDA_ERROR_INVALID_CONTEXT;
        if (--d.retained == 0)
            reset(m, d);
        return CUDA_SUCCESS;
    });
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice device) {
    return on_device({__func__, false, true}, device, [](Machine &m, Device &d) {
        reset(m, d);
        return CUDA_SUCCESS;
    });
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags, int *active) {
    return on_device({__func__}, device, [&](Machine &, Device &d) {
        if (flags == nullptr || active == nullptr)
            return CUDA_ERROR_INVALID_VALUE;
        *flags = 0;
        *active = d.primary != nullptr;
        return CUDA_SUCCESS;
    });
}

CUresult cuCtxPushCurrent_v2(CUcontext context) {
    return call({__func__}, [&](Machine &m) {
        ContextRef found = m.contexts.find(context);
        if (!found)
            return CUDA_ERROR_INVALID_CONTEXT;
        stack.push_back(found);
        return CUDA_SUCCESS;
    });
}

CUresult cuCtxPopCurrent_v2(CUcontext *context) {
    return call({__func__, false}, [&](Machine &) {
        if (stack.empty())
            return CUDA_ERROR_INVALID_CONTEXT;
        if (context != nullptr)
            *context = stack.back()->handle;
        stack.pop_back();
        return CUDA_SUCCESS;
    });
}

CUresult cuCtxGetCurrent(CUcontext *context) {
    return call({__func__}, [&](Machine &) {
        if (context == nullptr)
            return CUDA_ERROR_INVALID_VALUE;
        *context = stack.empty() ? nullptr : stack.back()->handle;
        return CUDA_SUCCESS;
    });
}

CUresult cuCtxSetCurrent(CUcontext context) {
    return call({__func__}, [&](Machine &m) {
        ContextRef found = m.contexts.find(context);
        if (!found && context != nullptr)
            return CUDA_ERROR_INVALID_CONTEXT;
        set(found);
        return CUDA_SUCCESS;
    });
}

CUresult cuCtxSynchronize(void) {
    return in_context({__func__}, [](Machine &m, const ContextRef &context) {
        CUresult allowed = m.allow_all(*context);
        m.spins++;
        return allowed == CUDA_SUCCESS ? m.settle_all(*context) : allowed;
    });
}
