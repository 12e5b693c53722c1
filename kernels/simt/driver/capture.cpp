// Capture: streams that keep what is enqueued on them, and the calls that are refused
// meanwhile. A refused one makes the capture invalid, as in hardware's driver.
#include "call.h"

using namespace standin;

namespace {

thread_local CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

bool valid(CUstreamCaptureMode mode) {
    return mode == CU_STREAM_CAPTURE_MODE_GLOBAL || mode == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL ||
           mode == CU_STREAM_CAPTURE_MODE_RELAXED;
}

// implied: a use of the stream would be ordered with a capture on another, by the rule of
// the default stream.
bool implied(const Stream &stream, const Stream &other) {
    return stream.legacy && other.blocking && other.capture && other.context == stream.context;
}

} // namespace

CUresult Machine::allow(Stream &stream, Use use) {
    CUresult result = CUDA_SUCCESS;
    scheduler.each([&](Stream &other) {
        if (implied(stream, other)) {
            other.capture->invalid = true;
            result = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
        }
    });
    if (result != CUDA_SUCCESS || !stream.capture)
        return result;
    if (stream.capture->invalid)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (use == Use::RECORD)
        return CUDA_SUCCESS;
    stream.capture->invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

CUresult Machine::allow_all(const Context &context) {
    CUresult result = CUDA_SUCCESS;
    scheduler.each([&](Stream &stream) {
        if (stream.capture && stream.context.get() == &context) {
            stream.capture->invalid = true;
            result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        }
    });
    return result;
}

CUresult Machine::allow_unsafe() {
    CUresult result = CUDA_SUCCESS;
    scheduler.each([&](Stream &stream) {
        Capture *capture = stream.capture.get();
        if (!capture || capture->mode == CU_STREAM_CAPTURE_MODE_RELAXED)
            return;
        bool own = capture->thread == std::this_thread::get_id();
        bool all = thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL && capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
        if (thread_mode != CU_STREAM_CAPTURE_MODE_RELAXED && (own || all)) {
            capture->invalid = true;
            result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        }
    });
    return result;
}

CUresult Machine::submit(Stream &stream, const Node &node, OpRef *op) {
    Work work;
    CUresult result = node(*this, stream, &work);
    if (result != CUDA_SUCCESS)
        return result;
    if (stream.capture) {
        stream.capture->nodes.push_back(node);
        return CUDA_SUCCESS;
    }
    launches += work.launch;
    OpRef added = scheduler.add(stream, work.run);
    for (const AllocationRef &used : work.uses)
        used->used.add(stream.id, stream.number);
    if (op != nullptr)
        *op = added;
    return CUDA_SUCCESS;
}

CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode) {
    return in_context({__func__}, [&](Machine &m, const ContextRef &context) {
        StreamRef s = m.stream(context, stream);
        if (!s)
            return CUDA_ERROR_INVALID_HANDLE;
        if (!valid(mode))
            return CUDA_ERROR_INVALID_VALUE;
        if (s->legacy)
            return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        if (s->capture)
            return CUDA_ERROR_ILLEGAL_STATE;
        s->capture = std::make_shared<Capture>();
        s->capture->mode = mode;
        s->capture->thread = std::this_thread::get_id();
        return CUDA_SUCCESS;
    });
}

// A failure that was asked for ends the capture all the same: a driver leaves no stream in it.
CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph) {
    return in_context({__func__, false}, [&](Machine &m, const ContextRef &context) {
        StreamRef s = m.stream(context, stream);
        if (!s)
            return CUDA_ERROR_INVALID_HANDLE;
        if (graph == nullptr)
            return CUDA_ERROR_INVALID_VALUE;
        if (!s->capture)
            return CUDA_ERROR_ILLEGAL_STATE;
        if (s->capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED && s->capture->thread != std::this_thread::get_id())
            return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
        std::shared_ptr<Capture> ended = std::move(s->capture);
        *graph = nullptr;
        if (ended->invalid)
            return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
        if (m.fail_call.fires()) {
            m.injected++;
            return CUDA_ERROR_UNKNOWN;
        }
        auto made = std::make_shared<Graph>();
        made->context = s->context;
        made->nodes = ended->nodes;
        *graph = m.graphs.add(made);
        return CUDA_SUCCESS;
    });
}

CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status) {
    return in_context({__func__}, [&](Machine &m, const ContextRef &context) {
        StreamRef s = m.stream(context, stream);
        if (!s)
            return CUDA_ERROR_INVALID_HANDLE;
        if (status == nullptr)
            return CUDA_ERROR_INVALID_VALUE;
        bool unusable = false; // a question leaves the other stream's capture as it is
        m.scheduler.each([&](Stream &other) { unusable |= implied(*s, other); });
        if (unusable)
            return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
        *status = !s->capture          ? CU_STREAM_CAPTURE_STATUS_NONE
                  : s->capture->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                        : CU_STREAM_CAPTURE_STATUS_ACTIVE;
        return CUDA_SUCCESS;
    });
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode) {
    return call({__func__, false}, [&](Machine &) {
        if (mode == nullptr || !valid(*mode))
            return CUDA_ERROR_INVALID_VALUE;
        std::swap(*mode, thread_mode);
        return CUDA_SUCCESS;
    });
}
