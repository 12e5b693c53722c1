// What every kernel file includes: the host's structs, the function constants of several
// families, and where a thread stands. In front of a file the host puts the macros of an
// instance: FKV_NAME, the types FKV_IN and FKV_OUT, FKV_BFLOAT where one of them is
// bfloat, a type that older systems lack, FKV_QUANT where FKV_OUT stands for the quantized
// types, and for attention FKV_KDIM and FKV_VDIM.
#pragma once

#include <metal_stdlib>

#include "../abi.h"
#include "../storage.h"

using namespace metal;

constant bool wide [[function_constant(FKV_WIDE)]];
constant bool with_table [[function_constant(FKV_WITH_TABLE)]];
constant bool with_lse [[function_constant(FKV_WITH_LSE)]];

// FKV_BUILTINS are the last parameters of every kernel, and FKV_HERE is made of them.
#define FKV_BUILTINS                                                \
    uint3 fkv_group [[threadgroup_position_in_grid]],               \
        uint3 fkv_groups [[threadgroups_per_grid]],                 \
        uint fkv_index [[thread_index_in_threadgroup]],             \
        uint fkv_simdgroup [[simdgroup_index_in_threadgroup]],      \
        uint fkv_lane [[thread_index_in_simdgroup]]
#define FKV_HERE fkv::Here{fkv_group, fkv_groups, fkv_index, fkv_simdgroup, fkv_lane}

namespace fkv {

constant constexpr uint LANES = 32; // of a simdgroup, on every Apple GPU

// Here is where a thread stands.
struct Here {
    uint3 group, groups;  // the threadgroup, and how many there are
    uint index;           // in the threadgroup
    uint simdgroup, lane; // of the threadgroup, and in the simdgroup
};

} // namespace fkv
