//go:build linux && cgo && !nocuda

package cuda

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/backendtest"
	"github.com/ferrumkv/ferrumkv/backend/internal/launch"
	"github.com/ferrumkv/ferrumkv/internal/standin"
	"github.com/ferrumkv/ferrumkv/internal/variants"
	_ "github.com/ferrumkv/ferrumkv/internal/variants/fromenv"
)

// wideOnly lists what the kernels of warpgroups are for that the device has; everything where it has none.
type wideOnly struct{ *Backend }

func (b wideOnly) Caps() backend.Caps {
	caps := b.Backend.Caps()
	if len(b.modules.wide()) == 0 {
		return caps
	}
	caps.HeadDims, caps.Latent, caps.LatentDims, caps.Formats = nil, false, nil, nil
	add := func(all [][2]int, dims [2]int) [][2]int {
		if slices.Contains(all, dims) {
			return all
		}
		return append(all, dims)
	}
	for _, k := range launch.Wide() {
		if !b.modules.wide()[k] {
			continue
		}
		if f := (backend.Format{Act: k.In, K: k.Out, V: k.Out}); !slices.Contains(caps.Formats, f) {
			caps.Formats = append(caps.Formats, f)
		}
		if dims := [2]int{int(k.KDim), int(k.VDim)}; slices.Contains(launch.LatentDims, dims) {
			caps.Latent, caps.LatentDims = true, add(caps.LatentDims, dims)
		} else {
			caps.HeadDims = add(caps.HeadDims, dims)
		}
	}
	if caps.HeadDims == nil { // which would be any
		caps.HeadDims = [][2]int{{64, 64}}
	}
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

// That of latents passes the rooms in which a cache may be latent.
func TestWideLatents(t *testing.T) {
	c := variant(t, "latents")
	be := openNow(t)
	defer func() { require.NoError(t, be.Close()) }()
	only := wideOnly{be}
	require.Equal(t, [][2]int{{576, 512}}, only.Caps().LatentDims)
	encoded := c.Calls("cuTensorMapEncodeTiled")
	rooms := []string{"latent", "bad input", "allocations"}
	require.NoError(t, backendtest.FirstFailure[*Buffer](only, backendtest.Options{Grid: backendtest.Values, MaxWork: 20_000_000}, func(room, _ string) bool { return slices.Contains(rooms, room) }))
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
