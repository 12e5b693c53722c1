// Tensor maps: of the kinds that the driver encodes, the one that our kernels use.
#include <cstring>

#include "../core/tensormap.h"
#include "call.h"

using namespace standin;

CUresult cuTensorMapEncodeTiled(CUtensorMap *map, CUtensorMapDataType type, unsigned rank, void *address, const cuuint64_t *dims,
                                const cuuint64_t *strides, const cuuint32_t *box, const cuuint32_t *element_strides,
                                CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion,
                                CUtensorMapFloatOOBfill fill) {
    return call({__func__}, [&](Machine &) {
        if (map == nullptr || dims == nullptr || strides == nullptr || box == nullptr || element_strides == nullptr)
            return CUDA_ERROR_INVALID_VALUE;
        if (reinterpret_cast<uintptr_t>(map) % 64 != 0 || reinterpret_cast<uintptr_t>(address) % 16 != 0 || rank != 2)
            return CUDA_ERROR_INVALID_VALUE;
        constexpr uint64_t most = uint64_t(1) << 32;
        if (dims[0] == 0 || dims[0] > most || dims[1] == 0 || dims[1] > most || strides[0] % 16 != 0 || strides[0] < 2 * dims[0] || strides[0] >= uint64_t(1) << 40)
            return CUDA_ERROR_INVALID_VALUE;
        const bool known = (type == CU_TENSOR_MAP_DATA_TYPE_FLOAT16 || type == CU_TENSOR_MAP_DATA_TYPE_BFLOAT16) && box[0] == 64 &&
                           box[1] == 16 && element_strides[0] == 1 && element_strides[1] == 1 && interleave == CU_TENSOR_MAP_INTERLEAVE_NONE &&
                           swizzle == CU_TENSOR_MAP_SWIZZLE_128B && promotion == CU_TENSOR_MAP_L2_PROMOTION_L2_256B &&
                           fill == CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE;
        if (!known)
            return CUDA_ERROR_NOT_SUPPORTED;
        const simt::TensorMap made{static_cast<const unsigned char *>(address), dims[0], dims[1], strides[0], simt::TensorMap::MAGIC, {}};
        memcpy(map, &made, sizeof made);
        return CUDA_SUCCESS;
    });
}
