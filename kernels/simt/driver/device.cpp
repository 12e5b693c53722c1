// What the driver says about itself and its devices.
#include <cstdio>
#include <cstring>
#include <climits>

#include "call.h"
#include "limits.h"

using namespace standin;

namespace {

// attribute is false for one that the stand-in has no value for. Zero would be a claim.
bool attribute(const Settings &settings, CUdevice ordinal, CUdevice_attribute attribute, int *value) {
    const Limits limits(settings);
    switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK: *value = Limits::BLOCK_THREADS; break;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X: *value = Limits::BLOCK_THREADS; break;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y: *value = Limits::BLOCK_THREADS; break;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z: *value = Limits::BLOCK_Z; break;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X: *value = INT_MAX; break;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y: *value = Limits::GRID_YZ; break;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z: *value = Limits::GRID_YZ; break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK: *value = Limits::SHARED; break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: *value = limits.shared_optin; break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR: *value = limits.shared_total; break;
    case CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK: *value = Limits::SHARED_RESERVED; break;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE: *value = 32; break;
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK: *value = Limits::REGISTERS; break;
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR: *value = Limits::REGISTERS; break;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR: *value = limits.threads; break;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR: *value = limits.blocks; break;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: *value = 4; break;
    case CU_DEVICE_ATTRIBUTE_CLOCK_RATE: *value = 1000000; break;       // kHz
    case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE: *value = 1000000; break; // kHz
    case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH: *value = 64; break;
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE: *value = 4 << 20; break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: *value = settings.major; break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: *value = settings.minor; break;
    case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID: *value = 0x51 + ordinal; break;
    case CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID: *value = 0; break;
    case CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID: *value = 0; break;
    case CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT: *value = 2; break;
    case CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY: *value = 1; break;
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS: *value = 1; break;
    case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING: *value = 1; break;
    case CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED: *value = 1; break;
    case CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED: *value = settings.pools; break;
    case CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH: *value = 0; break;
    case CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY: *value = 0; break;
    case CU_DEVICE_ATTRIBUTE_KERNEL_EXEC_TIMEOUT: *value = 0; break;
    case CU_DEVICE_ATTRIBUTE_INTEGRATED: *value = 0; break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_MODE: *value = 0; break;
    case CU_DEVICE_ATTRIBUTE_ECC_ENABLED: *value = 0; break;
    default: return false;
    }
    return true;
}

} // namespace

CUresult cuInit(unsigned flags) {
    Machine &m = machine();
    {
        std::lock_guard<std::mutex> lock(m.mutex);
        if (flags == 0 && m.settings.devices > 0)
            m.initialised = true;
    }
    if (flags == 0 && m.settings.devices == 0)
        return CUDA_ERROR_NO_DEVICE;
    return flags == 0 ? call({__func__}, [](Machine &) { return CUDA_SUCCESS; }) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuDriverGetVersion(int *version) {
    if (version == nullptr)
        return CUDA_ERROR_INVALID_VALUE;
    *version = machine().settings.version;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int *count) {
    return call({__func__}, [&](Machine &m) {
        if (count == nullptr)
            return CUDA_ERROR_INVALID_VALUE;
        *count = m.settings.devices;
        return CUDA_SUCCESS;
    });
}

CUresult cuDeviceGet(CUdevice *device, int ordinal) {
    return on_device({__func__}, ordinal, [&](Machine &, Device &d) {
        if (device == nullptr)
            return CUDA_ERROR_INVALID_VALUE;
        *device = d.ordinal;
        return CUDA_SUCCESS;
    });
}

CUresult cuDeviceGetName(char *name, int size, CUdevice device) {
    return on_device({__func__}, device, [&](Machine &, Device &d) {
        if (name == nullptr || size <= 0)
            return CUDA_ERROR_INVALID_VALUE;
        snprintf(name, size_t(size), "simt device %d (emulated on the CPU)", d.ordinal);
        return CUDA_SUCCESS;
    });
}

CUresult cuDeviceGetPCIBusId(char *id, int size, CUdevice device) {
    return on_device({__func__}, device, [&](Machine &, Device &d) {
        char whole[16]; // "domain:bus:device.function"
        int length = snprintf(whole, sizeof whole, "0000:%02x:00.0", 0x51 + d.ordinal);
        if (id == nullptr || size <= length)
            return CUDA_ERROR_INVALID_VALUE;
        memcpy(id, whole, size_t(length) + 1);
        return CUDA_SUCCESS;
    });
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device) {
    return on_device({__func__}, device, [&](Machine &m, Device &) {
        if (bytes == nullptr)
            return CUDA_ERROR_INVALID_VALUE;
        *bytes = m.settings.memory;
        return CUDA_SUCCESS;
    });
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute name, CUdevice device) {
    return on_device({__func__}, device, [&](Machine &m, Device &d) {
        if (value == nullptr || !attribute(m.settings, d.ordinal, name, value))
            return CUDA_ERROR_INVALID_VALUE;
        return CUDA_SUCCESS;
    });
}
