// Attention over latents on warpgroups of 9.0a: see attend_latent_wide.cuh.
#include "attend_latent_wide.cuh"

FKV_WIDE_KERNEL(fkv_attend_wide_bf16_bf16_576_512, fkv::WideLatent<fkv::bf16, 576, 512>)
