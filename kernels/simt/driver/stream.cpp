// Streams as handles. queue.h holds what they do.
#include "call.h"

using namespace standin;

CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned flags, int) {
    return in_context({__func__}, [&](Machine &m, const ContextRef &context) {
        if (stream == nullptr || flags > CU_STREAM_NON_BLOCKING)
            return CUDA_ERROR_INVALID_VALUE;
        StreamRef made = m.scheduler.open(context, flags == CU_STREAM_DEFAULT, false);
        *stream = made->handle = m.streams.add(made);
        return CUDA_SUCCESS;
    });
}

CUresult cuStreamDestroy_v2(CUstream stream) {
    return in_context({__func__, false}, [&](Machine &m, const ContextRef &) {
        StreamRef s = m.streams.find(stream);
        if (!s)
            return CUDA_ERROR_INVALID_HANDLE;
        s->destroyed = true; // work under way goes on
        m.streams.remove(stream);
        return CUDA_SUCCESS;
    });
}

CUresult cuStreamSynchronize(CUstream stream) {
    return in_context({__func__}, [&](Machine &m, const ContextRef &context) {
        StreamRef s = m.stream(context, stream);
        return s ? m.settle(*s->context, s->last) : CUDA_ERROR_INVALID_HANDLE;
    });
}

CUresult cuStreamQuery(CUstream stream) {
    return in_context({__func__}, [&](Machine &m, const ContextRef &context) {
        StreamRef s = m.stream(context, stream);
        return s ? m.poll(*s->context, s->last) : CUDA_ERROR_INVALID_HANDLE;
    });
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags) {
    return in_context({__func__}, [&](Machine &m, const ContextRef &context) {
        StreamRef s = m.stream(context, stream);
        std::shared_ptr<Event> e = m.events.find(event);
        if (!s || !e)
            return CUDA_ERROR_INVALID_HANDLE;
        if (flags != 0)
            return CUDA_ERROR_INVALID_VALUE;
        if (e->recorded)
            m.scheduler.add(*s, nullptr, e->recorded);
        return CUDA_SUCCESS;
    });
}

CUresult cuStreamGetCtx(CUstream stream, CUcontext *owner) {
    return in_context({__func__}, [&](Machine &m, const ContextRef &context) {
        StreamRef s = m.stream(context, stream);
        if (!s)
            return CUDA_ERROR_INVALID_HANDLE;
        if (owner == nullptr)
            return CUDA_ERROR_INVALID_VALUE;
        *owner = s->context->handle;
        return CUDA_SUCCESS;
    });
}

CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status) {
    return in_context({__func__}, [&](Machine &m, const ContextRef &context) {
        if (!m.stream(context, stream))
            return CUDA_ERROR_INVALID_HANDLE;
        if (status == nullptr)
            return CUDA_ERROR_INVALID_VALUE;
        *status = CU_STREAM_CAPTURE_STATUS_NONE; // there is nothing here to capture with
        return CUDA_SUCCESS;
    });
}
