// The stand-in driver's order: what runs when, what waits for what, and the mistakes in it
// that hardware would not tell.
#include <string>
#include <thread>

#include "driver_rig.h"

using namespace rig;

namespace {

const Registered registered;

// misused: a call was refused that hardware would let pass.
void misused(CUresult got, int line = __builtin_LINE()) {
    static uint64_t seen = 0;
    want(got, CUDA_ERROR_INVALID_VALUE, line);
    demand(counts().misuse == ++seen, line);
}

// A producer and a consumer on two streams; the result is right if the consumer came last.
bool in_order(bool wait) {
    good(cuInit(0));
    CUcontext context;
    good(cuDevicePrimaryCtxRetain(&context, 0));
    good(cuCtxSetCurrent(context));
    CUmodule m = module();
    CUfunction f = function(m, "test_add");
    CUstream writer = stream(), reader = stream();
    CUevent written = event();
    CUdeviceptr p = memory(4), q = memory(4);
    good(cuMemcpyHtoD_v2(p, "\0\0\0\0", 4));
    good(cuCtxSynchronize());
    good(launch_add(f, writer, p, 1, 42));
    good(cuEventRecord(written, writer));
    if (wait)
        good(cuStreamWaitEvent(reader, written, 0));
    good(cuMemcpyDtoDAsync_v2(q, p, 4, reader));
    good(cuStreamSynchronize(reader));
    int got = 0;
    good(cuMemcpyDtoH_v2(&got, q, 4));
    return got == 42;
}

// A missing wait shows under some seeds, and never where the wait is there.
void missing_wait() {
    constexpr int rounds = 20;
    int wrong = 0;
    for (int seed = 1; seed <= rounds; seed++) {
        std::string text = std::to_string(seed);
        auto round = [&](bool wait) {
            return child({{"FERRUM_SIMT_SEED", text.c_str()}}, [&] { demand(in_order(wait)); }, true) == 0;
        };
        demand(round(true));
        wrong += !round(false);
    }
    demand(wrong > 0 && wrong < rounds);
}

void lazy_copies() {
    Primary primary;
    CUstream s = stream();
    CUdeviceptr p = memory(8);
    int *host = pinned<int>(2);
    host[0] = 1;
    good(cuMemcpyHtoDAsync_v2(p, host, 4, s));
    host[0] = 2; // too early: the copy reads it when the stream comes to it
    int pageable = 3;
    good(cuMemcpyHtoDAsync_v2(p + 4, &pageable, 4, s));
    pageable = 4; // allowed: staged at the call
    host[0] = 5;
    host[1] = 6;
    good(cuMemcpyDtoHAsync_v2(host + 1, p, 4, s));
    demand(host[1] == 6);
    want(cuStreamQuery(s), CUDA_ERROR_NOT_READY);
    good(cuStreamSynchronize(s));
    demand(host[1] == 5);
    good(cuMemcpyDtoHAsync_v2(&pageable, p + 4, 4, s)); // pageable: has landed at return
    demand(pageable == 3);
    good(cuMemcpyHtoDAsync_v2(p, host, 0, s));
    misused(cuMemcpyHtoDAsync_v2(p + 5, host, 4, s)); // beyond the end
    misused(cuMemcpyDtoHAsync_v2(host + 1, p, 8, s));
    misused(cuMemcpyDtoDAsync_v2(p, p + 2, 4, s));
    good(cuMemcpyHtoDAsync_v2(p, host, 4, s));
    misused(cuMemFreeHost(host)); // a copy still reads it
    good(cuStreamSynchronize(s));
    good(cuMemFreeHost(host));
    CUdeviceptr freed = p;
    good(cuMemFree_v2(p));
    misused(cuMemcpyDtoDAsync_v2(freed, freed, 4, s));
    good(cuStreamDestroy_v2(s));
    good(cuCtxPopCurrent_v2(nullptr));
    _exit(0); // with misuse on the record
}

void default_stream() {
    Primary primary;
    CUmodule m = module();
    CUfunction f = function(m, "test_add");
    CUstream blocking = stream(CU_STREAM_DEFAULT), free = stream();
    CUdeviceptr p = memory(4), q = memory(4);
    int *host = pinned<int>(2);
    host[0] = 10;
    good(cuMemcpyHtoDAsync_v2(p, host, 4, blocking));
    good(launch_add(f, nullptr, p, 1, 5));              // after it
    good(cuMemcpyDtoHAsync_v2(host + 1, p, 4, blocking)); // after both
    good(cuMemcpyHtoDAsync_v2(q, host, 4, free));
    want(cuStreamQuery(nullptr), CUDA_ERROR_NOT_READY);
    good(cuStreamSynchronize(blocking));
    demand(host[1] == 15);
    good(cuStreamQuery(nullptr));
    good(cuCtxSynchronize());
    good(cuStreamQuery(free));
    good(cuStreamSynchronize(CUstream(1)));
    good(launch_add(f, CUstream(2), p, 1, 1)); // this thread's own
    good(cuStreamSynchronize(CUstream(2)));
    good(cuMemFree_v2(p));
    good(cuMemFree_v2(q));
    good(cuMemFreeHost(host));
    good(cuStreamDestroy_v2(blocking));
    good(cuStreamDestroy_v2(free));
    good(cuModuleUnload(m));
}

void events() {
    Primary primary;
    CUstream s = stream();
    CUevent a = event(CU_EVENT_DEFAULT), b = event(CU_EVENT_DEFAULT), untimed = event();
    float ms;
    good(cuEventQuery(a)); // never recorded: nothing to wait for
    good(cuEventSynchronize(a));
    good(cuStreamWaitEvent(s, a, 0));
    want(cuEventElapsedTime(&ms, a, b), CUDA_ERROR_INVALID_HANDLE);
    good(cuEventRecord(a, s));
    good(cuEventRecord(b, s));
    good(cuEventRecord(untimed, s));
    want(cuEventElapsedTime(&ms, a, b), CUDA_ERROR_NOT_READY);
    int polls = 0;
    while (cuEventQuery(b) == CUDA_ERROR_NOT_READY)
        demand(++polls < 1000);
    good(cuEventElapsedTime(&ms, a, b));
    demand(ms >= 0);
    want(cuEventElapsedTime(&ms, a, untimed), CUDA_ERROR_INVALID_HANDLE);
    for (CUevent e : {a, b, untimed})
        good(cuEventDestroy_v2(e));
    good(cuStreamDestroy_v2(s)); // with work left, which nobody misses
}

CUmemoryPool pool(uint64_t threshold) {
    CUmemPoolProps props = {};
    props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    CUmemoryPool made;
    good(cuMemPoolCreate(&made, &props));
    good(cuMemPoolSetAttribute(made, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
    return made;
}

void pools() {
    Primary primary;
    CUmemoryPool keeps = pool(512);
    CUstream s = stream();
    CUdeviceptr p, q;
    uint64_t reserved, used;
    auto books = [&] {
        good(cuMemPoolGetAttribute(keeps, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved));
        good(cuMemPoolGetAttribute(keeps, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used));
    };
    want(cuMemAllocFromPoolAsync(&p, 0, keeps, s), CUDA_ERROR_INVALID_VALUE);
    good(cuMemAllocFromPoolAsync(&p, 700, keeps, s));
    good(cuMemAllocFromPoolAsync(&q, 256, keeps, s));
    want(cuMemFreeAsync(p + 1, s), CUDA_ERROR_INVALID_VALUE);
    good(cuMemFreeAsync(p, s));
    want(cuMemFreeAsync(p, s), CUDA_ERROR_INVALID_VALUE);
    books();
    demand(reserved == 1024 && used == 1024); // the free has not run
    good(cuStreamSynchronize(s));
    books();
    demand(reserved == 512 && used == 256);
    good(cuMemPoolTrimTo(keeps, 0));
    books();
    demand(reserved == 256);
    CUcontext owner;
    good(cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, q));
    demand(owner == nullptr);
    want(cuMemAllocFromPoolAsync(&p, size_t(1) << 40, keeps, s), CUDA_ERROR_OUT_OF_MEMORY);
    good(cuMemPoolDestroy(keeps)); // lives on until q is free
    want(cuMemPoolTrimTo(keeps, 0), CUDA_ERROR_INVALID_VALUE);
    good(cuMemFreeAsync(q, s));
    good(cuStreamSynchronize(s));
    size_t left, total;
    good(cuMemGetInfo_v2(&left, &total));
    demand(left == total);
    good(cuStreamDestroy_v2(s));
}

// Use outside of the order that the allocation and the free promise.
void pool_order() {
    Primary primary;
    CUmemoryPool from = pool(0);
    CUstream a = stream(), b = stream();
    CUevent e = event();
    CUdeviceptr p, q = memory(16);
    good(cuMemAllocFromPoolAsync(&p, 16, from, a));
    misused(cuMemcpyDtoDAsync_v2(p, q, 16, b)); // not after the allocation
    misused(cuMemFreeAsync(p, b));
    good(cuEventRecord(e, a));
    good(cuStreamWaitEvent(b, e, 0));
    good(cuMemcpyDtoDAsync_v2(p, q, 16, b));
    misused(cuMemFreeAsync(p, a)); // not after the copy
    misused(cuMemFree_v2(p));      // nor has the host seen it end
    good(cuEventRecord(e, b));
    good(cuStreamWaitEvent(a, e, 0));
    good(cuMemFreeAsync(p, a));
    misused(cuMemcpyDtoDAsync_v2(q, p, 16, a)); // after the free
    good(cuMemAllocFromPoolAsync(&p, 16, from, a));
    good(cuStreamSynchronize(a));
    good(cuMemcpyDtoDAsync_v2(p, q, 16, b)); // the host has seen the allocation
    good(cuStreamSynchronize(b));
    good(cuMemFree_v2(p));
    _exit(0); // with misuse on the record
}

void no_pools() {
    Primary primary;
    int supported;
    good(cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 0));
    demand(supported == 0);
    CUmemPoolProps props = {};
    CUmemoryPool made;
    want(cuMemPoolCreate(&made, &props), CUDA_ERROR_NOT_SUPPORTED);
}

// A lost device says so once somebody waits, then at every call; another one works, and
// so does this one in a new context.
void lost() {
    Primary other(1);
    CUcontext context;
    good(cuDevicePrimaryCtxRetain(&context, 0));
    good(cuCtxPushCurrent_v2(context));
    CUdeviceptr p = memory(16);
    CUstream s = stream();
    demand(fkv_standin_lose(0) == 1);
    good(cuMemcpyHtoDAsync_v2(p, "0123456789abcde", 16, s));
    want(cuStreamSynchronize(s), CUDA_ERROR_ECC_UNCORRECTABLE);
    want(cuMemFree_v2(p), CUDA_ERROR_ECC_UNCORRECTABLE);
    want(cuStreamDestroy_v2(s), CUDA_ERROR_ECC_UNCORRECTABLE);
    good(cuCtxPopCurrent_v2(nullptr));
    good(cuCtxSynchronize());
    good(cuDevicePrimaryCtxRelease_v2(0));
    demand(counts().device_allocations == 0 && counts().streams == 0 && counts().abandoned == 0);
    Primary anew(0);
    good(cuMemFree_v2(memory(16)));
    demand(fkv_standin_lose(7) == 0);
}

// A kernel that leaves its memory ends its context, and not the process.
void illegal() {
    good(cuInit(0));
    CUcontext context;
    good(cuDevicePrimaryCtxRetain(&context, 0));
    good(cuCtxPushCurrent_v2(context));
    CUdeviceptr p = memory(1000);
    CUfunction f = function(module(), "test_stray");
    int64_t at = 256; // in ints: the first byte of the guard, behind 24 bytes of padding
    void *params[] = {&p, &at};
    good(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, nullptr, params, nullptr));
    want(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
    want(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
    char report[512];
    fkv_standin_report(report, sizeof report);
    demand(strstr(report, "24 bytes behind the 1000 bytes of an allocation") != nullptr);
    demand(strstr(report, "test_stray") != nullptr);
    demand(strstr(report, ", at kernels/simt/test/cuda/driver_rig.h:") != nullptr);
    good(cuDevicePrimaryCtxRelease_v2(0));
    good(cuDevicePrimaryCtxRetain(&context, 0));
    good(cuCtxSetCurrent(context));
    good(cuMemFree_v2(memory(1)));
}

// Bytes that no guard covers are looked at when the memory is freed.
void padding() {
    good(cuInit(0));
    CUcontext context;
    good(cuDevicePrimaryCtxRetain(&context, 0));
    good(cuCtxPushCurrent_v2(context));
    CUdeviceptr p = memory(1000);
    CUfunction f = function(module(), "test_stray");
    int64_t at = 250;
    void *params[] = {&p, &at};
    good(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, nullptr, params, nullptr));
    good(cuMemFree_v2(p));
    demand(counts().misuse == 1);
}

void abandoned() {
    good(cuInit(0));
    CUcontext context;
    good(cuDevicePrimaryCtxRetain(&context, 0));
    good(cuCtxPushCurrent_v2(context));
    memory(16);
    stream();
    event();
    module();
    good(cuDevicePrimaryCtxRelease_v2(0));
    demand(counts().abandoned == 4);
}

// Many threads, each with its own stream of one context.
void threads() {
    Primary primary;
    CUmodule m = module();
    CUfunction f = function(m, "test_add");
    std::vector<std::thread> all;
    for (int t = 0; t < 8; t++)
        all.emplace_back([&, t] {
            good(cuCtxSetCurrent(primary.context));
            CUstream s = stream();
            CUdeviceptr p = memory(4);
            int got = t;
            good(cuMemcpyHtoDAsync_v2(p, &got, 4, s));
            for (int i = 0; i < 50; i++)
                good(launch_add(f, s, p, 1, 1));
            good(cuMemcpyDtoHAsync_v2(&got, p, 4, s));
            demand(got == t + 50);
            good(cuMemFree_v2(p));
            good(cuStreamDestroy_v2(s));
        });
    for (std::thread &t : all)
        t.join();
    good(cuModuleUnload(m));
    demand(counts().streams == 0 && counts().device_allocations == 0);
}

} // namespace

int main() {
    for (const char *seed : {"0", "1", "2"}) {
        const rig::Environment environment = {{"FERRUM_SIMT_SEED", seed}};
        run("default stream", environment, default_stream);
        run("events", environment, events);
        run("pools", environment, pools);
        run("pool order", environment, pool_order);
        run("lost device", environment, lost);
        run("threads", environment, threads);
    }
    run("missing wait", {}, missing_wait);
    run("lazy copies", {}, lazy_copies);
    run("no pools", {{"FERRUM_SIMT_POOLS", "0"}}, no_pools);
    run("abandoned", {}, abandoned);
    if (sanitized) {
        demand(child({}, illegal, true) != 0); // the sanitizer ends the process
    } else {
        run("illegal address", {}, illegal);
        run("padding", {}, padding);
    }
    if (failures == 0)
        puts("ok");
    return failures != 0;
}
