// Events: the place of their last record in a stream's order.
#include "call.h"

using namespace standin;

namespace {

// uncaptured refuses an event that was last recorded in a capture: it is no point in time.
CUresult uncaptured(Event &event) {
    if (!event.captured)
        return CUDA_SUCCESS;
    event.captured->invalid = true;
    return CUDA_ERROR_CAPTURED_EVENT;
}

} // namespace

CUresult cuEventCreate(CUevent *event, unsigned flags) {
    return in_context({__func__, true, true}, [&](Machine &m, const ContextRef &context) {
        constexpr unsigned known = CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;
        if (event == nullptr || (flags & ~known) != 0)
            return CUDA_ERROR_INVALID_VALUE;
        if ((flags & CU_EVENT_INTERPROCESS) != 0 && (flags & CU_EVENT_DISABLE_TIMING) == 0)
            return CUDA_ERROR_INVALID_VALUE;
        auto made = std::make_shared<Event>();
        made->context = context;
        made->flags = flags;
        *event = m.events.add(made);
        return CUDA_SUCCESS;
    });
}

CUresult cuEventDestroy_v2(CUevent event) {
    return in_context({__func__, false, true}, [&](Machine &m, const ContextRef &) {
        if (!m.events.find(event))
            return CUDA_ERROR_INVALID_HANDLE;
        m.events.remove(event);
        return CUDA_SUCCESS;
    });
}

CUresult cuEventRecord(CUevent event, CUstream stream) {
    return in_context({__func__}, [&](Machine &m, const ContextRef &context) {
        std::shared_ptr<Event> e = m.events.find(event);
        StreamRef s = m.stream(context, stream);
        if (!e || !s || e->context != s->context)
            return CUDA_ERROR_INVALID_HANDLE;
        CUresult result = m.allow(*s, Use::RECORD);
        if (result != CUDA_SUCCESS)
            return result;
        e->captured = s->capture;
        m.interrupts += !s->capture && (e->flags & CU_EVENT_BLOCKING_SYNC) != 0;
        e->recorded = s->capture ? nullptr : m.scheduler.add(*s, nullptr);
        return CUDA_SUCCESS;
    });
}

CUresult cuEventQuery(CUevent event) {
    return in_context({__func__, true, true}, [&](Machine &m, const ContextRef &) {
        std::shared_ptr<Event> e = m.events.find(event);
        CUresult result = e ? uncaptured(*e) : CUDA_ERROR_INVALID_HANDLE;
        return result == CUDA_SUCCESS ? m.poll(*e->context, e->recorded) : result;
    });
}

CUresult cuEventSynchronize(CUevent event) {
    return in_context({__func__, true, true}, [&](Machine &m, const ContextRef &) {
        std::shared_ptr<Event> e = m.events.find(event);
        CUresult result = e ? uncaptured(*e) : CUDA_ERROR_INVALID_HANDLE;
        m.spins += e && (e->flags & CU_EVENT_BLOCKING_SYNC) == 0;
        return result == CUDA_SUCCESS ? m.settle(*e->context, e->recorded) : result;
    });
}

CUresult cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end) {
    return in_context({__func__, true, true}, [&](Machine &m, const ContextRef &) {
        std::shared_ptr<Event> from = m.events.find(start), to = m.events.find(end);
        if (milliseconds == nullptr)
            return CUDA_ERROR_INVALID_VALUE;
        if (!from || !to || from->context != to->context)
            return CUDA_ERROR_INVALID_HANDLE;
        if (((from->flags | to->flags) & CU_EVENT_DISABLE_TIMING) != 0 || !from->recorded || !to->recorded)
            return from && to && (from->captured || to->captured) ? CUDA_ERROR_CAPTURED_EVENT : CUDA_ERROR_INVALID_HANDLE;
        if (!from->recorded->done || !to->recorded->done)
            return CUDA_ERROR_NOT_READY;
        std::chrono::duration<float, std::milli> elapsed = to->recorded->finished - from->recorded->finished;
        *milliseconds = elapsed.count();
        return CUDA_SUCCESS;
    });
}
