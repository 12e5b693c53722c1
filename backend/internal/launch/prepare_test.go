package launch

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/plan"
)

// What every decode step needs is prepared in any case, and nothing else.
func TestPreparedIsWhatStepsNeed(t *testing.T) {
	float := backend.Format{Act: backend.F16, K: backend.F16, V: backend.F16}
	brain := backend.Format{Act: backend.BF16, K: backend.BF16, V: backend.BF16}
	wide := map[Kernel]bool{Attention(plan.Wide, brain, 576, 512): true}
	int4 := backend.Format{Act: backend.F16, K: backend.Int4Channel, V: backend.Int4}
	blocks := []string{"fkv_copy_blocks", "fkv_copy_blocks_narrow"}
	for name, c := range map[string]struct {
		p    backend.Preparation
		want []string
	}{
		"contiguous": {backend.Preparation{Formats: []backend.Format{float}, Contiguous: true},
			[]string{"fkv_append_f16_f16", "fkv_attend_decode_f16_f16_64_64", "fkv_attend_merge_f16"}},
		"paged, scores": {backend.Preparation{Formats: []backend.Format{float}, Scores: true},
			[]string{"fkv_append_f16_f16", "fkv_attend_decode_f16_f16_64_64", "fkv_attend_merge_f16", "fkv_attend_mass_f16_f16_64_64", "fkv_clear_mass"}},
		"residual": {backend.Preparation{Formats: []backend.Format{int4}, Residual: true},
			[]string{"fkv_append_f16_f16", "fkv_attend_decode_f16_f16_64_64", "fkv_attend_merge_f16", "fkv_attend_decode_f16_quant_64_64",
				"fkv_merge_f16_f16", "fkv_pack_blocks_f16"}},
		"residual, hadamard, skipped layers": {backend.Preparation{Formats: []backend.Format{int4, float}, Residual: true, Hadamard: true},
			[]string{"fkv_append_quant_f16", "fkv_attend_decode_f16_f16_64_64", "fkv_attend_merge_f16", "fkv_attend_decode_f16_quant_64_64",
				"fkv_merge_f16_f16", "fkv_pack_blocks_f16", "fkv_append_f16_f16"}},
		"latents, few heads": {backend.Preparation{Formats: []backend.Format{float}, Latent: true, QHeads: 16, KVHeads: 1, KDim: 576, VDim: 512},
			[]string{"fkv_append_f16_f16", "fkv_attend_decode_f16_f16_576_512", "fkv_attend_merge_f16"}},
		"latents, many heads": {backend.Preparation{Formats: []backend.Format{float, brain}, Latent: true, QHeads: 128, KVHeads: 1, KDim: 576, VDim: 512},
			[]string{"fkv_append_f16_f16", "fkv_attend_decode_f16_f16_576_512", "fkv_attend_merge_f16",
				"fkv_append_bf16_bf16", "fkv_attend_wide_bf16_bf16_576_512", "fkv_attend_merge_bf16"}},
	} {
		t.Run(name, func(t *testing.T) {
			if !c.p.Latent {
				c.p.QHeads, c.p.KVHeads, c.p.KDim, c.p.VDim = 16, 2, 64, 64
			}
			var got []string
			for _, k := range Prepared(c.p, false, wide) {
				got = append(got, k.Symbol())
			}
			require.Equal(t, append(c.want, blocks...), got)
			require.Subset(t, Prepared(c.p, true, wide), Prepared(c.p, false, wide))
		})
	}
}

// A shape tells how its calls find their keys.
func TestPaged(t *testing.T) {
	for _, c := range []struct {
		stride int
		length uint32
		want   bool
	}{{0, 16, false}, {0, 17, true}, {1, 16, false}, {2, 16, true}} {
		require.Equal(t, c.want, Paged(&backend.AttendShape{BlockSize: 16, ContextLens: []uint32{c.length}, TableStride: c.stride}), "%+v", c)
	}
}
