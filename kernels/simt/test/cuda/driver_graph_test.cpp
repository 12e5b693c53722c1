// The stand-in driver's graphs: what is captured, what is refused meanwhile, and what a
// launch repeats.
#include <thread>

#include "driver_rig.h"

using namespace rig;

namespace {

const Registered registered;

CUstreamCaptureStatus status(CUstream s) {
    CUstreamCaptureStatus status;
    good(cuStreamIsCapturing(s, &status));
    return status;
}

CUstreamCaptureMode exchange(CUstreamCaptureMode mode) {
    good(cuThreadExchangeStreamCaptureMode(&mode));
    return mode;
}

CUgraph ended(CUstream s) {
    CUgraph g;
    good(cuStreamEndCapture(s, &g));
    return g;
}

// broken: the call gave that result and made the capture invalid, which then ends.
void broken(CUresult got, CUresult expected, CUstream s, int line = __builtin_LINE()) {
    want(got, expected, line);
    demand(status(s) == CU_STREAM_CAPTURE_STATUS_INVALIDATED, line);
    CUgraph g = CUgraph(1);
    want(cuStreamEndCapture(s, &g), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, line);
    demand(g == nullptr && status(s) == CU_STREAM_CAPTURE_STATUS_NONE, line);
}

// launched makes a graph of what s has captured, and gives the graph back.
CUgraphExec launched(CUstream s) {
    CUgraph g = ended(s);
    CUgraphExec e;
    good(cuGraphInstantiateWithFlags(&e, g, 0));
    good(cuGraphDestroy(g));
    return e;
}

int value(CUdeviceptr p) {
    int v;
    good(cuMemcpyDtoH_v2(&v, p, 4));
    return v;
}

void replays() {
    Primary primary;
    CUmodule m = module();
    CUfunction f = function(m, "test_add");
    CUstream s = stream(), other = stream();
    CUdeviceptr p = memory(4), q = memory(4);
    int *host = pinned<int>(1), by = 5;
    *host = 1;
    good(cuMemcpyHtoD_v2(p, host, 4));
    good(cuCtxSynchronize());
    uint64_t before = counts().launches;
    good(cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_RELAXED));
    demand(status(s) == CU_STREAM_CAPTURE_STATUS_ACTIVE && status(other) == CU_STREAM_CAPTURE_STATUS_NONE);
    good(launch_add(f, s, p, 1, by));
    good(cuMemcpyDtoDAsync_v2(q, p, 4, s));
    good(cuMemcpyDtoHAsync_v2(host, q, 4, s));
    by = 6; // the launch has its own copy
    CUgraphExec e = launched(s);
    demand(counts().launches == before && counts().graphs == 0 && counts().execs == 1);
    good(cuStreamSynchronize(s));
    demand(value(p) == 1);
    good(cuGraphLaunch(e, s));
    good(launch_add(f, s, p, 1, 10)); // in the order of the stream
    good(cuGraphLaunch(e, other));    // behind the earlier launch, and not behind the kernel
    good(cuStreamSynchronize(other));
    good(cuStreamSynchronize(s));
    demand(value(p) == 21 && (value(q) == 11 || value(q) == 21) && *host == value(q));
    demand(counts().launches == before + 3);

    good(cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_RELAXED)); // nothing
    CUgraphExec none = launched(s);
    good(cuGraphLaunch(none, s));
    good(cuStreamSynchronize(s));
    CUgraph g;
    want(cuStreamEndCapture(s, &g), CUDA_ERROR_ILLEGAL_STATE);
    want(cuGraphInstantiateWithFlags(&none, CUgraph(s), 0), CUDA_ERROR_INVALID_VALUE);
    want(cuGraphLaunch(CUgraphExec(s), s), CUDA_ERROR_INVALID_VALUE);
    good(cuGraphExecDestroy(e));
    good(cuGraphExecDestroy(none));
    want(cuGraphExecDestroy(e), CUDA_ERROR_INVALID_VALUE);
    want(cuGraphDestroy(CUgraph(e)), CUDA_ERROR_INVALID_VALUE);
    good(cuMemFreeHost(host));
    good(cuMemFree_v2(p));
    good(cuMemFree_v2(q));
    good(cuStreamDestroy_v2(s));
    good(cuStreamDestroy_v2(other));
    good(cuModuleUnload(m));
}

// Each call that cannot become part of a graph ends the capture of its stream.
void refused() {
    Primary primary;
    CUstream s = stream();
    CUmodule m = module();
    CUfunction f = function(m, "test_add");
    CUdeviceptr p = memory(4), pooled;
    CUmemPoolProps props = {};
    props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    CUmemoryPool pool;
    good(cuMemPoolCreate(&pool, &props));
    CUevent plain = event(), captured = event();
    good(cuEventRecord(plain, s));
    good(cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_RELAXED));
    CUgraphExec e = launched(s);
    auto begin = [&] {
        good(cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_RELAXED));
        good(launch_add(f, s, p, 1, 1));
    };
    constexpr CUresult unsupported = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    int pageable = 0;
    begin();
    broken(cuStreamSynchronize(s), unsupported, s);
    begin();
    broken(cuStreamQuery(s), unsupported, s);
    begin();
    broken(cuCtxSynchronize(), unsupported, s);
    begin();
    broken(cuMemAllocFromPoolAsync(&pooled, 4, pool, s), unsupported, s);
    good(cuMemAllocFromPoolAsync(&pooled, 4, pool, s));
    begin();
    broken(cuMemFreeAsync(pooled, s), unsupported, s);
    good(cuMemFreeAsync(pooled, s));
    begin();
    broken(cuMemcpyHtoDAsync_v2(p, &pageable, 4, s), unsupported, s);
    begin();
    broken(cuMemcpyDtoHAsync_v2(&pageable, p, 4, s), unsupported, s);
    begin();
    broken(cuGraphLaunch(e, s), unsupported, s);
    begin();
    broken(cuStreamWaitEvent(s, plain, 0), CUDA_ERROR_STREAM_CAPTURE_ISOLATION, s);
    begin();
    good(cuEventRecord(captured, s));
    good(cuStreamWaitEvent(s, captured, 0)); // its own order
    broken(cuEventQuery(captured), CUDA_ERROR_CAPTURED_EVENT, s);
    want(cuEventSynchronize(captured), CUDA_ERROR_CAPTURED_EVENT);
    begin();
    want(cuStreamWaitEvent(s, captured, 0), CUDA_ERROR_STREAM_CAPTURE_MERGE);
    want(launch_add(f, s, p, 1, 1), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    broken(cuStreamSynchronize(s), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, s);
    good(cuEventRecord(captured, s));
    good(cuEventSynchronize(captured)); // recorded anew

    begin();
    want(cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_ERROR_ILLEGAL_STATE);
    good(cuEventQuery(plain));
    good(cuMemFree_v2(memory(4))); // of no stream, in a relaxed capture
    good(cuGraphDestroy(ended(s)));
    want(cuStreamBeginCapture_v2(nullptr, CU_STREAM_CAPTURE_MODE_RELAXED), unsupported);
    want(cuStreamBeginCapture_v2(s, CUstreamCaptureMode(3)), CUDA_ERROR_INVALID_VALUE);
    good(cuStreamSynchronize(s));
    good(cuGraphExecDestroy(e));
    good(cuMemPoolDestroy(pool));
    good(cuEventDestroy_v2(plain));
    good(cuEventDestroy_v2(captured));
    good(cuMemFree_v2(p));
    good(cuModuleUnload(m));
    good(cuStreamDestroy_v2(s));
}

// Which thread may make which calls is decided by its mode and by the modes of captures.
void modes() {
    Primary primary;
    CUstream s = stream();
    CUmodule m = module(), more;
    CUfunction f = function(m, "test_add");
    CUgraph g;
    CUdeviceptr p;
    auto begin = [&](CUstreamCaptureMode mode) { good(cuStreamBeginCapture_v2(s, mode)); };
    auto elsewhere = [&](auto body) {
        std::thread([&] {
            good(cuCtxSetCurrent(primary.context));
            body();
        }).join();
    };
    constexpr CUresult unsupported = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    begin(CU_STREAM_CAPTURE_MODE_GLOBAL);
    broken(cuMemAlloc_v2(&p, 4), unsupported, s);
    begin(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    Image image(80);
    broken(cuModuleLoadData(&more, &image), unsupported, s);
    begin(CU_STREAM_CAPTURE_MODE_GLOBAL);
    elsewhere([&] {
        want(cuStreamEndCapture(s, &g), CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
        want(cuMemAlloc_v2(&p, 4), unsupported);
    });
    broken(launch_add(f, s, 0, 1, 1), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, s);
    begin(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    elsewhere([&] { good(cuMemFree_v2(memory(4))); });
    demand(exchange(CU_STREAM_CAPTURE_MODE_RELAXED) == CU_STREAM_CAPTURE_MODE_GLOBAL);
    good(cuMemFree_v2(memory(4)));
    demand(exchange(CU_STREAM_CAPTURE_MODE_GLOBAL) == CU_STREAM_CAPTURE_MODE_RELAXED);
    good(cuGraphDestroy(ended(s)));
    begin(CU_STREAM_CAPTURE_MODE_RELAXED);
    elsewhere([&] { good(cuGraphDestroy(ended(s))); });
    CUstreamCaptureMode none = CUstreamCaptureMode(3);
    want(cuThreadExchangeStreamCaptureMode(&none), CUDA_ERROR_INVALID_VALUE);
    good(cuStreamDestroy_v2(s));

    s = stream(CU_STREAM_DEFAULT); // which the legacy stream waits for
    begin(CU_STREAM_CAPTURE_MODE_RELAXED);
    CUstreamCaptureStatus unknown;
    want(cuStreamIsCapturing(nullptr, &unknown), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    demand(status(s) == CU_STREAM_CAPTURE_STATUS_ACTIVE);
    broken(cuStreamSynchronize(nullptr), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, s);
    good(cuStreamDestroy_v2(s));
    good(cuModuleUnload(m));
}

// misused: a call was refused that hardware would let pass.
void misused(CUresult got, int line = __builtin_LINE()) {
    static uint64_t seen = 0;
    want(got, CUDA_ERROR_INVALID_VALUE, line);
    demand(counts().misuse == ++seen, line);
}

// A launch is checked as the calls in it are, each time.
void misuses() {
    good(cuInit(0));
    CUcontext context;
    good(cuDevicePrimaryCtxRetain(&context, 0));
    good(cuCtxSetCurrent(context));
    CUmodule m = module();
    CUfunction f = function(m, "test_add");
    CUstream s = stream();
    CUdeviceptr p = memory(4), q = memory(4);
    auto capture = [&](auto body) {
        good(cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_RELAXED));
        body();
        return launched(s);
    };
    CUgraphExec copies = capture([&] { good(cuMemcpyDtoDAsync_v2(q, p, 4, s)); });
    CUgraphExec adds = capture([&] { good(launch_add(f, s, q, 1, 1)); });
    good(cuGraphLaunch(copies, s));
    misused(cuGraphExecDestroy(copies)); // under way
    good(cuStreamSynchronize(s));
    good(cuMemFree_v2(p));
    misused(cuGraphLaunch(copies, s)); // from freed memory
    good(cuModuleUnload(m));
    misused(cuGraphLaunch(adds, s));
    good(cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_RELAXED));
    misused(cuStreamDestroy_v2(s));
    good(cuGraphDestroy(ended(s)));
    good(cuGraphExecDestroy(copies));
    good(cuStreamSynchronize(s));
    uint64_t abandoned = counts().abandoned;
    good(cuDevicePrimaryCtxRelease_v2(0)); // with a stream, memory and a graph
    demand(counts().abandoned == abandoned + 3);
}

} // namespace

int main() {
    for (const char *seed : {"0", "1", "2"})
        run("replays", {{"FERRUM_SIMT_SEED", seed}}, replays);
    run("refused", {}, refused);
    run("modes", {}, modes);
    run("misuses", {}, misuses);
    if (failures == 0)
        puts("ok");
    return failures != 0;
}
