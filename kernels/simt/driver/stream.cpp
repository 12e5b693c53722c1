// Streams as handles. queue.h holds what they do.
#include "call.h"

using namespace standin;

namespace {

// captured_wait is a wait on a capturing stream, or for an event of one. Drivers let a
// capture spread over several streams so; here it stays on its own.
CUresult captured_wait(Stream &stream, Event &event) {
    if (stream.capture && stream.capture == event.captured)
        return CUDA_SUCCESS; // the order of the stream
    for (Capture *capture : {stream.capture.get(), event.captured.get()})
        if (capture != nullptr)
            capture->invalid = true;
    if (!event.captured)
        return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
    return stream.capture ? CUDA_ERROR_STREAM_CAPTURE_MERGE : CUDA_ERROR_NOT_SUPPORTED;
}

} // namespace

CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned flags, int) {
    return in_context({__func__, true, true}, [&](Machine &m, const ContextRef &context) {
        if (stream == nullptr || flags > CU_STREAM_NON_BLOCKING)
            return CUDA_ERROR_INVALID_VALUE;
        StreamRef made = m.scheduler.open(context, flags == CU_STREAM_DEFAULT, false);
        *stream = made->handle = m.streams.add(made);
        return CUDA_SUCCESS;
    });
}

CUresult cuStreamDestroy_v2(CUstream stream) {
    return in_context({__func__, false, true}, [&](Machine &m, const ContextRef &) {
        StreamRef s = m.streams.find(stream);
        if (!s)
            return CUDA_ERROR_INVALID_HANDLE;
        if (s->capture)
            return m.misused("cuStreamDestroy_v2: the stream is being captured");
        s->destroyed = true; // work under way goes on
        m.streams.remove(stream);
        return CUDA_SUCCESS;
    });
}

CUresult cuStreamSynchronize(CUstream stream) {
    return in_context({__func__, true, true}, [&](Machine &m, const ContextRef &context) {
        StreamRef s = m.stream(context, stream);
        CUresult result = s ? m.allow(*s, Use::RUN) : CUDA_ERROR_INVALID_HANDLE;
        m.spins++;
        return result == CUDA_SUCCESS ? m.settle(*s->context, s->last) : result;
    });
}

CUresult cuStreamQuery(CUstream stream) {
    return in_context({__func__, true, true}, [&](Machine &m, const ContextRef &context) {
        StreamRef s = m.stream(context, stream);
        CUresult result = s ? m.allow(*s, Use::RUN) : CUDA_ERROR_INVALID_HANDLE;
        return result == CUDA_SUCCESS ? m.poll(*s->context, s->last) : result;
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
        CUresult result = m.allow(*s, Use::RECORD);
        if (result == CUDA_SUCCESS && (s->capture || e->captured))
            return captured_wait(*s, *e);
        if (result == CUDA_SUCCESS && e->recorded)
            m.scheduler.add(*s, nullptr, e->recorded);
        return result;
    });
}

CUresult cuStreamGetCtx(CUstream stream, CUcontext *owner) {
    return in_context({__func__, true, true}, [&](Machine &m, const ContextRef &context) {
        StreamRef s = m.stream(context, stream);
        if (!s)
            return CUDA_ERROR_INVALID_HANDLE;
        if (owner == nullptr)
            return CUDA_ERROR_INVALID_VALUE;
        *owner = s->context->handle;
        return CUDA_SUCCESS;
    });
}
