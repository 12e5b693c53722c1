// Attention of items of at most FKV_DECODE_ROWS rows for activations of f32, which tensor
// cores would round.
#include "team.cuh"

namespace fkv {

template <class T, class S, int KDIM, int VDIM>
using Decode = Vectors<T, S, KDIM, VDIM, FKV_DECODE_ROWS>;

template <class T, class S, int KDIM, int VDIM>
using Latent = Vectors<T, S, KDIM, VDIM, FKV_DECODE_ROWS, true>;

} // namespace fkv

FKV_ATTEND_DIMS(FKV_ATTEND_KIND, decode, Decode, f32, f32)
FKV_ATTEND_DIMS(FKV_ATTEND_KIND, decode, Decode, f32, f16)
FKV_ATTEND_DIMS(FKV_ATTEND_KIND, decode, Decode, f32, bf16)
FKV_ATTEND_DIMS(FKV_ATTEND_KIND, decode, Decode, f32, quant)
FKV_ATTEND_KIND(decode, Latent, f32, f32, 576, 512)
FKV_ATTEND_KIND(decode, Latent, f32, f16, 576, 512)
FKV_ATTEND_KIND(decode, Latent, f32, bf16, 576, 512)
FKV_ATTEND_KIND(decode, Latent, f32, quant, 576, 512)
