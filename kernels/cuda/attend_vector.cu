// Attention of items of at most FKV_VECTOR_ROWS rows: one query of a small group. Codes that
// are computed with in 16 bits are left to tensor cores.
#include "team.cuh"

namespace fkv {

template <class T, class S, int KDIM, int VDIM>
using Vector = Vectors<T, S, KDIM, VDIM, FKV_VECTOR_ROWS>;

} // namespace fkv

FKV_ATTEND_DIMS(FKV_ATTEND_KIND, vector, Vector, f16, f16)
FKV_ATTEND_DIMS(FKV_ATTEND_KIND, vector, Vector, bf16, bf16)
FKV_ATTEND_DIMS(FKV_ATTEND_KIND, vector, Vector, f32, f32)
FKV_ATTEND_DIMS(FKV_ATTEND_KIND, vector, Vector, f32, f16)
FKV_ATTEND_DIMS(FKV_ATTEND_KIND, vector, Vector, f32, bf16)
FKV_ATTEND_DIMS(FKV_ATTEND_KIND, vector, Vector, f32, quant)
