//go:build linux && cgo && !nocuda

package cuda

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/backendtest"
	"github.com/ferrumkv/ferrumkv/internal/standin"
	"github.com/ferrumkv/ferrumkv/internal/variants"
	_ "github.com/ferrumkv/ferrumkv/internal/variants/fromenv"
)

// wideOnly lists what the kernels of warpgroups are for.
type wideOnly struct{ *Backend }

func (b wideOnly) Caps() backend.Caps {
	caps := b.Backend.Caps()
	caps.HeadDims, caps.Latent, caps.LatentDims = [][2]int{{128, 128}}, false, nil
	caps.Formats = []backend.Format{{Act: backend.BF16, K: backend.BF16, V: backend.BF16}, {Act: backend.F16, K: backend.F16, V: backend.F16}}
	return caps
}

// swapOnly lists what decode with swapped operands is for.
type swapOnly struct{ *Backend }

func (b swapOnly) Caps() backend.Caps {
	caps := b.Backend.Caps()
	caps.HeadDims, caps.Latent, caps.LatentDims = [][2]int{{128, 128}}, false, nil
	caps.Formats = nil
	for _, code := range []backend.DType{backend.Int8, backend.Int8Asym, backend.FP8E4M3, backend.FP8E5M2, backend.Int4, backend.Int4G64} {
		caps.Formats = append(caps.Formats, backend.Format{Act: backend.F16, K: code, V: code})
	}
	return caps
}

// variant has the kernels of a folder of kernels/cuda/variants chosen until the test ends.
func variant(t *testing.T, folder string) *standin.Control {
	c, ok := standin.Open()
	if !ok {
		t.Skip("the stand-in alone has them without an image")
	}
	set, err := c.Set(folder)
	require.NoError(t, err)
	require.NotEmpty(t, set.Kernels)
	before := variants.Chosen()
	variants.Choose(set)
	t.Cleanup(func() { variants.Choose(before...) })
	return c
}

// The kernels of warpgroups pass the suite in their shapes, as they are in kernels/cuda/variants.
func TestWide(t *testing.T) {
	c := variant(t, "wide")
	encoded := c.Calls("cuTensorMapEncodeTiled")
	backendtest.RunWith(t, func(t testing.TB) backend.Backend[*Buffer] { return wideOnly{openNow(t)} }, backendtest.Options{Grid: backendtest.Values, MaxWork: 2_000_000, TypedOnly: true})
	require.Less(t, encoded, c.Calls("cuTensorMapEncodeTiled"), "no step was wide")
}

// So does decode over codes with swapped operands.
func TestSwap(t *testing.T) {
	const kernel = "fkv_attend_decode_f16_quant_128_128"
	c := variant(t, "swap")
	before, instead := c.Runs(kernel+"@swap"), c.Runs(kernel)
	backendtest.RunWith(t, func(t testing.TB) backend.Backend[*Buffer] { return swapOnly{openNow(t)} }, backendtest.Options{Grid: backendtest.Values, MaxWork: 2_000_000, TypedOnly: true})
	require.Less(t, before, c.Runs(kernel+"@swap"))
	require.Equal(t, instead, c.Runs(kernel))
}
