// Attention of prompts on warpgroups of 9.0a: see attend_wide.cuh.
#include "attend_wide.cuh"

// How tiles come, and whether the warpgroups take turns: variants compile with others.
#ifndef FKV_WIDE_BOXES
#define FKV_WIDE_BOXES true
#endif
#ifndef FKV_WIDE_PINGPONG
#define FKV_WIDE_PINGPONG true
#endif

#define FKV_WIDE(T, KDIM, VDIM)                                                                                       \
    FKV_WIDE_KERNEL(fkv_attend_wide_##T##_##T##_##KDIM##_##VDIM,                                                      \
                    fkv::Wide<fkv::T, KDIM, VDIM, FKV_WIDE_BOXES, FKV_WIDE_PINGPONG>)

FKV_WIDE(bf16, 128, 128)
FKV_WIDE(f16, 128, 128)
