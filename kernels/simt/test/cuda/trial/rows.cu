// Products whose descriptors have groups of 8 rows half as far apart as they are, for TestWrongDescriptors (backend/cuda).
#include "hopper.cuh"

namespace fkv {
inline uint64_t half_stride(const void *p, uint32_t leading, uint32_t stride) { return tile_of(p, leading, stride / 2); }
} // namespace fkv

#define tile_of half_stride
#define Descriptors RowsApart
#define x_descriptors_f16 trial_rows_f16
#define x_descriptors_bf16 trial_rows_bf16
#include "../../../../cuda/variants/wide/descriptors.cu"
