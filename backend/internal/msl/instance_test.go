package msl

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/launch"
	"github.com/ferrumkv/ferrumkv/backend/internal/plan"
	metalkernels "github.com/ferrumkv/ferrumkv/kernels/metal"
)

// Every kernel that a call can ask for has a source, and a name of its own.
func TestInstances(t *testing.T) {
	names := map[string]bool{}
	for _, i := range Instances() {
		require.False(t, names[i.Name+i.Family], "two instances are %v", i)
		names[i.Name+i.Family] = true
		text, err := i.Source()
		require.NoError(t, err, "%v", i)
		require.NotContains(t, text, `#include "`)
		require.NotContains(t, text, "#pragma once")
		if i.Name != "" {
			require.True(t, strings.HasPrefix(text, "#define FKV_NAME "+i.Name+"\n"), text[:40])
		}
		require.Equal(t, strings.Contains(i.Name, "bf16"), strings.Contains(text, "\n#define FKV_BFLOAT 1\n"), "%v", i)
		require.Equal(t, i.Out == "quant", strings.Contains(text, "\n#define FKV_QUANT 1\n"), "%v", i)
	}
	require.Len(t, names, 4+5+3+3+5+5+3*3+8*(6+8+8+4)+1+3*3+8+8) // of the calls' kinds, formats and head dims, and of latent caches
}

func TestInstance(t *testing.T) {
	require.Equal(t, metalkernels.Instance{Family: "blocks"}, Instance(launch.Kernel{Op: launch.OpMoveSlots}))
	require.Equal(t, metalkernels.Instance{Family: "probe"}, Instance(launch.Kernel{Op: launch.OpProbeMMA, In: backend.F16}))
	require.Equal(t, metalkernels.Instance{Family: "rotate", Name: "fkv_rotate_bf16", In: "bf16"}, Instance(launch.Kernel{Op: launch.OpRotate, In: backend.BF16}))
	require.Equal(t, metalkernels.Instance{Family: "rotate_quant", Name: "fkv_rotate_quant"}, Instance(launch.Kernel{Op: launch.OpRotateQuant}))
	require.Equal(t, metalkernels.Instance{Family: "pack_blocks", Name: "fkv_pack_blocks_f16", In: "f16"}, Instance(launch.Kernel{Op: launch.OpPackBlocks, In: backend.F16}))
	quantized := launch.Attention(plan.Vector, backend.Format{Act: backend.F32, K: backend.Int8, V: backend.Int4}, 80, 80)
	require.Equal(t, metalkernels.Instance{Family: "attend_vector", Name: "fkv_attend_vector_f32_quant_80_80", In: "f32", Out: "quant", KDim: 80, VDim: 80}, Instance(quantized))
	for act, family := range map[backend.DType]string{backend.F32: "attend_decode_f32", backend.BF16: "attend_latent"} {
		k := launch.Attention(plan.Decode, backend.Format{Act: act, K: backend.Int8, V: backend.Int8}, 576, 512)
		want := metalkernels.Instance{Family: family, Name: "fkv_attend_decode_" + act.String() + "_quant_576_512", In: act.String(), Out: "quant", KDim: 576, VDim: 512}
		require.Equal(t, want, Instance(k))
		require.EqualValues(t, 256, Threads(k))
	}
	for act, family := range map[backend.DType]string{backend.F32: "attend_decode_f32", backend.F16: "attend_decode"} {
		k := launch.Attention(plan.Decode, backend.Format{Act: act, K: backend.F16, V: backend.F16}, 192, 128)
		want := metalkernels.Instance{Family: family, Name: "fkv_attend_decode_" + act.String() + "_f16_192_128", In: act.String(), Out: "f16", KDim: 192, VDim: 128}
		require.Equal(t, want, Instance(k))
	}
}

// Sources keep the lines of their files, so that a compiler's words can be followed.
func TestLinesAreThoseOfTheFiles(t *testing.T) {
	text, err := metalkernels.Instance{Family: "fill"}.Source()
	require.NoError(t, err)
	require.Regexp(t, `(?m)^#line 1 "kernels/metal/fill.metal"$`, text)
	require.Regexp(t, `(?m)^#line 1 "kernels/abi.h"$`, text)
}
