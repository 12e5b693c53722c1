// Products whose descriptors have columns half as far apart as they are, for TestWrongDescriptors (backend/cuda).
#include "hopper.cuh"

namespace fkv {
inline uint64_t half_leading(const void *p, uint32_t leading, uint32_t stride) { return tile_of(p, leading / 2, stride); }
} // namespace fkv

#define tile_of half_leading
#define Descriptors ColumnsApart
#define x_descriptors_f16 trial_columns_f16
#define x_descriptors_bf16 trial_columns_bf16
#include "../../../../cuda/variants/wide/descriptors.cu"
