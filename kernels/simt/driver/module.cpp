// Modules and functions. The kernels are linked in as C++; an image only has to look like
// one that the device could load, and to have the kernels that are asked of it.
#include <cstring>

#include "call.h"
#include "fatbin.h"
#include "limits.h"

using namespace standin;

CUresult cuModuleLoadData(CUmodule *module, const void *image) {
    return in_context({__func__, true, true}, [&](Machine &m, const ContextRef &context) {
        if (module == nullptr || image == nullptr)
            return CUDA_ERROR_INVALID_VALUE;
        CUresult result = check_image(image, m.settings.major, m.settings.minor);
        if (result != CUDA_SUCCESS)
            return result;
        auto made = std::make_shared<Module>();
        made->context = context;
        made->kernels = kernels_in(image);
        *module = m.modules.add(made);
        return CUDA_SUCCESS;
    });
}

CUresult cuModuleUnload(CUmodule module) {
    return in_context({__func__, false, true}, [&](Machine &m, const ContextRef &context) {
        std::shared_ptr<Module> found = m.modules.find(module);
        if (!found || found->context != context)
            return CUDA_ERROR_INVALID_HANDLE;
        for (auto [name, function] : found->functions)
            m.functions.remove(function);
        m.modules.remove(module);
        return CUDA_SUCCESS;
    });
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
    return in_context({__func__, true, true}, [&](Machine &m, const ContextRef &context) {
        std::shared_ptr<Module> found = m.modules.find(module);
        if (!found || found->context != context)
            return CUDA_ERROR_INVALID_HANDLE;
        if (function == nullptr || name == nullptr)
            return CUDA_ERROR_INVALID_VALUE;
        auto there = found->kernels.find(name);
        const simt::Kernel *kernel = there == found->kernels.end() ? nullptr : simt::find(there->second.c_str());
        if (kernel == nullptr)
            return CUDA_ERROR_NOT_FOUND;
        CUfunction &handle = found->functions[name];
        if (handle == nullptr) {
            auto made = std::make_shared<Function>();
            made->context = context;
            made->kernel = kernel;
            handle = m.functions.add(made);
        }
        *function = handle;
        return CUDA_SUCCESS;
    });
}

CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value) {
    return in_context({__func__, true, true}, [&](Machine &m, const ContextRef &) {
        std::shared_ptr<Function> f = m.functions.find(function);
        if (!f)
            return CUDA_ERROR_INVALID_HANDLE;
        switch (attribute) {
        case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
            if (value < 0 || value > Limits(m.settings).shared_optin)
                return CUDA_ERROR_INVALID_VALUE;
            f->dynamic_shared = value;
            return CUDA_SUCCESS;
        case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
            if (value < -1 || value > 100)
                return CUDA_ERROR_INVALID_VALUE;
            f->carveout = value;
            return CUDA_SUCCESS;
        default:
            return CUDA_ERROR_INVALID_VALUE;
        }
    });
}

CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction function) {
    return in_context({__func__}, [&](Machine &m, const ContextRef &) {
        std::shared_ptr<Function> f = m.functions.find(function);
        if (!f)
            return CUDA_ERROR_INVALID_HANDLE;
        if (value == nullptr)
            return CUDA_ERROR_INVALID_VALUE;
        int capability = m.settings.major * 10 + m.settings.minor;
        switch (attribute) {
        case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK: *value = int(f->kernel->threads); break;
        case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES: *value = 0; break; // C++ does not tell
        case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES: *value = 0; break;
        case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES: *value = 0; break;
        case CU_FUNC_ATTRIBUTE_NUM_REGS: *value = Limits::KERNEL_REGISTERS; break;
        case CU_FUNC_ATTRIBUTE_PTX_VERSION: *value = capability; break;
        case CU_FUNC_ATTRIBUTE_BINARY_VERSION: *value = capability; break;
        case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: *value = f->dynamic_shared; break;
        case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT: *value = f->carveout; break;
        default: return CUDA_ERROR_INVALID_VALUE;
        }
        return CUDA_SUCCESS;
    });
}
