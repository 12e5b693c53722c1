package launch

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/plan"
)

func TestSymbols(t *testing.T) {
	for want, k := range map[string]Kernel{
		"fkv_fill":                            {Op: OpFill},
		"fkv_append_f32_bf16":                 {Op: OpAppend, In: backend.F32, Out: backend.BF16},
		"fkv_rotate_f16":                      {Op: OpRotate, In: backend.F16},
		"fkv_attend_merge_f32":                {Op: OpAttendMerge, In: backend.F32},
		"fkv_append_quant_bf16":               {Op: OpAppendQuant, In: backend.BF16},
		"fkv_attend_prefill_bf16_quant_80_80": Attention(plan.Prefill, backend.Format{Act: backend.BF16, K: backend.FP8E4M3, V: backend.Int4}, 80, 80),
		"fkv_attend_mass_f16_f16_192_128":     {Op: OpAttendMass, In: backend.F16, Out: backend.F16, KDim: 192, VDim: 128},
		"fkv_probe_mma_bf16":                  {Op: OpProbeMMA, In: backend.BF16},
		"fkv_attend_decode_f16_f16_128_128":   Attention(plan.Decode, Formats[0], 128, 128),
		"fkv_attend_vector_f32_f32_64_64":     Attention(plan.Vector, Formats[2], 64, 64),
	} {
		require.Equal(t, want, k.Symbol())
	}
}

// Every kernel has a name of its own, and each op is there unless it only measures.
func TestReachable(t *testing.T) {
	names, ops := map[string]bool{}, map[Op]bool{}
	for _, k := range append(Reachable(), Wide()...) {
		require.False(t, names[k.Symbol()], "two kernels are %s", k.Symbol())
		names[k.Symbol()], ops[k.Op] = true, true
	}
	for op, name := range opNames {
		require.NotEmpty(t, name, "op %d", op)
		require.Equal(t, Op(op) != OpProbeMMA && Op(op) != OpProbeRead, ops[Op(op)], name)
	}
}
