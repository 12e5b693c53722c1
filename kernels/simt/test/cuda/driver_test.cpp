// The stand-in driver's functions, one by one: results, error codes, limits.
#include "driver_rig.h"

using namespace rig;

namespace {

const Registered registered;

void devices() {
    int n, value;
    CUdevice d;
    char text[64];
    size_t bytes;
    want(cuDeviceGetCount(&n), CUDA_ERROR_NOT_INITIALIZED);
    want(cuMemAlloc_v2(nullptr, 1), CUDA_ERROR_NOT_INITIALIZED);
    want(cuInit(1), CUDA_ERROR_INVALID_VALUE);
    good(cuDriverGetVersion(&n));
    demand(n == 12040);
    good(cuInit(0));
    good(cuDeviceGetCount(&n));
    demand(n == 2);
    good(cuDeviceGet(&d, 1));
    want(cuDeviceGet(&d, 2), CUDA_ERROR_INVALID_DEVICE);
    want(cuDeviceGet(&d, -1), CUDA_ERROR_INVALID_DEVICE);
    want(cuDeviceGet(nullptr, 0), CUDA_ERROR_INVALID_VALUE);
    good(cuDeviceGetName(text, sizeof text, 1));
    demand(strstr(text, "simt") != nullptr);
    good(cuDeviceGetPCIBusId(text, 13, 0));
    demand(strlen(text) == 12);
    want(cuDeviceGetPCIBusId(text, 12, 0), CUDA_ERROR_INVALID_VALUE);
    good(cuDeviceTotalMem_v2(&bytes, 0));
    demand(bytes == size_t(2) << 30);
    good(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0));
    demand(value == 9);
    good(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 0));
    demand(value == 227 << 10);
    want(cuDeviceGetAttribute(&value, CUdevice_attribute(9999), 0), CUDA_ERROR_INVALID_VALUE);
    const char *name;
    good(cuGetErrorString(CUDA_ERROR_NOT_READY, &name));
    want(cuGetErrorName(CUresult(12345), &name), CUDA_ERROR_INVALID_VALUE);
    demand(name == nullptr);
}

void contexts() {
    good(cuInit(0));
    CUcontext a, b, got;
    unsigned flags;
    int active;
    size_t bytes;
    good(cuDevicePrimaryCtxGetState(0, &flags, &active));
    demand(active == 0);
    want(cuDevicePrimaryCtxRelease_v2(0), CUDA_ERROR_INVALID_CONTEXT);
    want(cuMemGetInfo_v2(&bytes, &bytes), CUDA_ERROR_INVALID_CONTEXT);
    good(cuDevicePrimaryCtxRetain(&a, 0));
    good(cuDevicePrimaryCtxRetain(&b, 0));
    demand(a == b);
    good(cuDevicePrimaryCtxRetain(&b, 1));
    demand(a != b);
    good(cuCtxSetCurrent(a));
    good(cuCtxPushCurrent_v2(b));
    good(cuCtxGetCurrent(&got));
    demand(got == b);
    good(cuCtxPopCurrent_v2(&got));
    good(cuCtxGetCurrent(&got));
    demand(got == a);
    good(cuDevicePrimaryCtxRelease_v2(0));
    good(cuMemGetInfo_v2(&bytes, &bytes));
    good(cuDevicePrimaryCtxRelease_v2(0)); // the last: the thread keeps a dead context
    want(cuMemGetInfo_v2(&bytes, &bytes), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    want(cuCtxPushCurrent_v2(a), CUDA_ERROR_INVALID_CONTEXT);
    good(cuDevicePrimaryCtxRetain(&got, 0));
    demand(got != a);
    good(cuCtxSetCurrent(nullptr));
    want(cuCtxPopCurrent_v2(&got), CUDA_ERROR_INVALID_CONTEXT);
    good(cuDevicePrimaryCtxReset_v2(1)); // does not release it
    want(cuCtxSetCurrent(b), CUDA_ERROR_INVALID_CONTEXT);
    good(cuDevicePrimaryCtxRelease_v2(1));
    good(cuDevicePrimaryCtxRelease_v2(0));
    demand(counts().contexts == 0);
}

void memories() {
    Primary primary;
    CUdeviceptr p, q;
    size_t left, total;
    want(cuMemAlloc_v2(&p, 0), CUDA_ERROR_INVALID_VALUE);
    want(cuMemAlloc_v2(&p, SIZE_MAX), CUDA_ERROR_OUT_OF_MEMORY);
    want(cuMemAlloc_v2(&p, (1 << 20) + 1), CUDA_ERROR_OUT_OF_MEMORY);
    good(cuMemAlloc_v2(&p, (1 << 20) - 256));
    good(cuMemAlloc_v2(&q, 1));
    demand(p % 256 == 0 && q % 256 == 0);
    want(cuMemAlloc_v2(&p, 1), CUDA_ERROR_OUT_OF_MEMORY);
    good(cuMemGetInfo_v2(&left, &total));
    demand(left == 0 && total == 1 << 20);
    demand(counts().device_allocations == 2 && counts().device_bytes == (1 << 20) - 255);
    unsigned char byte = 0;
    good(cuMemcpyDtoH_v2(&byte, p + 1000, 1));
    demand(byte == 0xff);

    unsigned type;
    int ordinal;
    CUcontext owner;
    good(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p + 5));
    demand(type == CU_MEMORYTYPE_DEVICE);
    good(cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, p));
    good(cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, p));
    demand(ordinal == 0 && owner == primary.context);
    good(cuPointerGetAttribute(&total, CU_POINTER_ATTRIBUTE_RANGE_SIZE, p));
    demand(total == (1 << 20) - 256);
    want(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, 4096), CUDA_ERROR_INVALID_VALUE);

    want(cuMemFree_v2(p + 256), CUDA_ERROR_INVALID_VALUE);
    good(cuMemFree_v2(q));
    good(cuMemFree_v2(p));
    want(cuMemFree_v2(p), CUDA_ERROR_INVALID_VALUE);
    want(cuMemFree_v2(0), CUDA_ERROR_INVALID_VALUE);
    good(cuMemFree_v2(memory((1 << 20) - 256)));
    good(cuMemFree_v2(memory(1000)));

    void *host;
    want(cuMemHostAlloc(&host, 16, 8), CUDA_ERROR_INVALID_VALUE);
    good(cuMemHostAlloc(&host, 16, 3));
    good(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CUdeviceptr(host)));
    demand(type == CU_MEMORYTYPE_HOST && counts().host_bytes == 16);
    want(cuMemFree_v2(CUdeviceptr(host)), CUDA_ERROR_INVALID_VALUE);
    good(cuMemFreeHost(host));
    want(cuMemFreeHost(host), CUDA_ERROR_INVALID_VALUE);
}

void handles() {
    Primary primary;
    CUevent e = event(), other_event;
    CUstream s = stream(), other_stream;
    CUmodule m = module();
    CUfunction f = function(m, "test_add"), same = function(m, "test_add"), none;
    demand(f == same);
    want(cuModuleGetFunction(&none, m, "no_such_kernel"), CUDA_ERROR_NOT_FOUND);
    CUdeviceptr p = memory(4);
    {
        Primary second(1);
        other_event = event();
        other_stream = stream();
        want(launch_add(f, other_stream, p, 1, 1), CUDA_ERROR_INVALID_HANDLE); // of another context
        want(cuModuleGetFunction(&none, m, "test_add"), CUDA_ERROR_INVALID_HANDLE);
        want(cuEventRecord(e, other_stream), CUDA_ERROR_INVALID_HANDLE);
        good(cuEventRecord(other_event, other_stream));
        good(cuStreamWaitEvent(s, other_event, 0)); // devices may wait for each other
        good(cuStreamSynchronize(s));
        good(cuEventDestroy_v2(other_event));
        good(cuStreamDestroy_v2(other_stream));
    }
    want(launch_add(f, other_stream, p, 1, 1), CUDA_ERROR_INVALID_HANDLE); // gone
    want(cuEventQuery(other_event), CUDA_ERROR_INVALID_HANDLE);
    CUcontext owner;
    good(cuStreamGetCtx(s, &owner));
    demand(owner == primary.context);
    good(cuStreamGetCtx(nullptr, &owner));
    demand(owner == primary.context);
    CUstreamCaptureStatus status;
    good(cuStreamIsCapturing(s, &status));
    want(cuStreamDestroy_v2(nullptr), CUDA_ERROR_INVALID_HANDLE);
    want(cuStreamCreateWithPriority(&other_stream, 2, 0), CUDA_ERROR_INVALID_VALUE);
    want(cuEventCreate(&other_event, CU_EVENT_INTERPROCESS), CUDA_ERROR_INVALID_VALUE);
    want(cuStreamQuery(CUstream(e)), CUDA_ERROR_INVALID_HANDLE);
    good(cuEventDestroy_v2(e));
    want(cuEventDestroy_v2(e), CUDA_ERROR_INVALID_HANDLE);
    good(cuStreamDestroy_v2(s));
    want(cuStreamSynchronize(s), CUDA_ERROR_INVALID_HANDLE);
    good(cuModuleUnload(m));
    want(cuModuleUnload(m), CUDA_ERROR_INVALID_HANDLE);
    want(launch_add(f, nullptr, p, 1, 1), CUDA_ERROR_INVALID_HANDLE);
    good(cuMemFree_v2(p));
    demand(counts().streams + counts().events + counts().modules == 0);
}

void images() {
    Primary primary;
    CUmodule m;
    auto load = [&](const Image &image) { return cuModuleLoadData(&m, &image); };
    want(cuModuleLoadData(&m, nullptr), CUDA_ERROR_INVALID_VALUE);
    Image image(90);
    image.magic++;
    want(load(image), CUDA_ERROR_INVALID_IMAGE);
    image = Image(90);
    image.size = 63;
    want(load(image), CUDA_ERROR_INVALID_IMAGE);
    image = Image(90);
    image.data_size = UINT64_MAX;
    want(load(image), CUDA_ERROR_INVALID_IMAGE);
    // the device is 8.6
    for (auto [arch, result] : {std::pair{80u, CUDA_SUCCESS}, {86u, CUDA_SUCCESS}, {89u, CUDA_ERROR_NO_BINARY_FOR_GPU},
                                {90u, CUDA_ERROR_NO_BINARY_FOR_GPU}, {75u, CUDA_ERROR_NO_BINARY_FOR_GPU}}) {
        want(load(Image(arch)), result);
        if (result == CUDA_SUCCESS)
            good(cuModuleUnload(m));
    }
    image = Image(75);
    image.kind = 1; // PTX
    good(load(image));
    CUfunction f;
    good(cuModuleGetFunction(&f, m, "test_add"));
    want(cuModuleGetFunction(&f, m, "test_ad"), CUDA_ERROR_NOT_FOUND);
    want(cuModuleGetFunction(&f, m, "fkv_fill"), CUDA_ERROR_NOT_FOUND); // it is linked in, and not of this module
    good(cuModuleUnload(m));
}

void launches() {
    Primary primary;
    CUmodule m = module();
    CUfunction f = function(m, "test_add"), wide = function(m, "test_wide");
    CUdeviceptr p = memory(8);
    good(cuMemcpyHtoD_v2(p, "\1\0\0\0\2\0\0\0", 8));
    int n = 2, by = 5, got[2];
    void *params[] = {&p, &n, &by}, *missing[] = {&p, nullptr, &by};
    auto launch = [&](unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared) {
        return cuLaunchKernel(f, gx, gy, gz, bx, by, bz, shared, nullptr, params, nullptr);
    };
    good(launch(1, 1, 1, 1, 1, 1, 48 << 10));
    by = 100; // the driver has its own copy
    good(cuMemcpyDtoH_v2(got, p, 8));
    demand(got[0] == 6 && got[1] == 7);
    want(launch(0, 1, 1, 1, 1, 1, 0), CUDA_ERROR_INVALID_VALUE);
    want(launch(1, 1, 1, 1, 0, 1, 0), CUDA_ERROR_INVALID_VALUE);
    want(launch(0x80000000u, 1, 1, 1, 1, 1, 0), CUDA_ERROR_INVALID_VALUE);
    want(launch(1, 65536, 1, 1, 1, 1, 0), CUDA_ERROR_INVALID_VALUE);
    want(launch(1, 1, 65536, 1, 1, 1, 0), CUDA_ERROR_INVALID_VALUE);
    want(launch(1, 1, 1, 1, 1, 65, 0), CUDA_ERROR_INVALID_VALUE);
    want(launch(1, 1, 1, 1025, 1, 1, 0), CUDA_ERROR_INVALID_VALUE);
    want(launch(1, 1, 1, 1024, 1024, 64, 0), CUDA_ERROR_INVALID_VALUE);
    want(launch(1, 1, 1, 65, 1, 1, 0), CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES); // built for 64
    want(launch(1, 1, 1, 1, 1, 1, (48 << 10) + 1), CUDA_ERROR_INVALID_VALUE);
    auto allow = [&](int bytes) {
        return cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, bytes);
    };
    want(allow((227 << 10) + 1), CUDA_ERROR_INVALID_VALUE);
    good(allow(227 << 10));
    good(launch(1, 1, 1, 1, 1, 1, 227 << 10));
    want(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, nullptr, missing, nullptr), CUDA_ERROR_INVALID_VALUE);
    want(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr), CUDA_ERROR_INVALID_VALUE);
    std::vector<char> big(4096);
    void *too_much[] = {big.data(), big.data()};
    want(cuLaunchKernel(wide, 1, 1, 1, 1, 1, 1, 0, nullptr, too_much, nullptr), CUDA_ERROR_INVALID_VALUE);
    int value;
    good(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, f));
    demand(value == 64);
    good(cuOccupancyMaxActiveBlocksPerMultiprocessor(&value, f, 64, 0));
    demand(value == 16); // 64 registers each of 1024 threads
    good(cuOccupancyMaxActiveBlocksPerMultiprocessor(&value, f, 64, 100 << 10));
    demand(value == 2);
    good(cuOccupancyMaxActiveBlocksPerMultiprocessor(&value, f, 128, 0));
    demand(value == 0);
    good(cuMemFree_v2(p));
    demand(counts().launches == 2 && fkv_standin_calls("cuFuncSetAttribute") == 2);
    good(cuModuleUnload(m));
}

// Every failure that was asked for comes once, and nothing is left behind.
void injected() {
    Primary primary;
    CUdeviceptr p;
    CUmodule m = module();
    CUfunction f = function(m, "test_add");
    fkv_standin_fail_alloc(2);
    good(cuMemAlloc_v2(&p, 4));
    void *host;
    want(cuMemHostAlloc(&host, 4, 0), CUDA_ERROR_OUT_OF_MEMORY);
    good(cuMemHostAlloc(&host, 4, 0));
    fkv_standin_fail_launch(1);
    want(launch_add(f, nullptr, p, 1, 1), CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
    good(launch_add(f, nullptr, p, 1, 1));
    fkv_standin_fail_call(2);
    good(cuCtxSynchronize());
    good(cuMemFreeHost(host)); // does not count: it gives back
    want(cuCtxSynchronize(), CUDA_ERROR_UNKNOWN);
    good(cuMemFree_v2(p));
    good(cuModuleUnload(m));
    demand(counts().injected == 3);
}

} // namespace

int main() {
    run("devices", {}, devices);
    run("no devices", {{"FERRUM_SIMT_DEVICES", "0"}}, [] { want(cuInit(0), CUDA_ERROR_NO_DEVICE); });
    run("contexts", {}, contexts);
    run("memory", {{"FERRUM_SIMT_MEMORY", "1048576"}}, memories);
    run("handles", {}, handles);
    run("images", {{"FERRUM_SIMT_CAPABILITY", "8.6"}}, images);
    run("launches", {}, launches);
    run("injected failures", {}, injected);
    demand(child({{"FERRUM_SIMT_SEED", "seven"}}, [] { cuInit(0); }, true) != 0);
    if (failures == 0)
        puts("ok");
    return failures != 0;
}
