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
	cudakernels "github.com/ferrumkv/ferrumkv/kernels/cuda"
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

// chooseKernels gives devices that are opened from now on kernels of the stand-in, by the beginnings of their names.
func chooseKernels(t *testing.T, prefixes ...string) *standin.Control {
	c, ok := standin.Open()
	if !ok {
		t.Skip("the stand-in alone has them without an image")
	}
	before := variants.Chosen()
	t.Cleanup(func() { variants.Choose(before...) })
	var sets []*cudakernels.Set
	for _, prefix := range prefixes {
		set, err := c.Set(prefix)
		require.NoError(t, err)
		require.Len(t, set.Kernels, 1)
		sets = append(sets, set)
	}
	variants.Choose(sets...)
	return c
}

// The kernels of warpgroups pass the suite in their shapes, as they are in kernels/cuda/variants.
func TestWide(t *testing.T) {
	c := chooseKernels(t, "fkv_attend_wide_f16_f16_128_", "fkv_attend_wide_bf16_bf16_128_")
	encoded := c.Calls("cuTensorMapEncodeTiled")
	backendtest.RunWith(t, func(t testing.TB) backend.Backend[*Buffer] { return wideOnly{openNow(t)} }, backendtest.Options{Grid: backendtest.Values, MaxWork: 2_000_000, TypedOnly: true})
	require.Less(t, encoded, c.Calls("cuTensorMapEncodeTiled"), "no step was wide")
}

// That of latents passes the rooms in which a cache may be latent.
func TestWideLatents(t *testing.T) {
	c := chooseKernels(t, "fkv_attend_wide_bf16_bf16_576_")
	be := openNow(t)
	defer func() { require.NoError(t, be.Close()) }()
	only := wideOnly{be}
	require.Equal(t, [][2]int{{576, 512}}, only.Caps().LatentDims)
	encoded := c.Calls("cuTensorMapEncodeTiled")
	rooms := []string{"latent", "bad input", "allocations"}
	require.NoError(t, backendtest.FirstFailure[*Buffer](only, backendtest.Options{Grid: backendtest.Values, MaxWork: 20_000_000}, func(room string) bool { return slices.Contains(rooms, room) }))
	require.Less(t, encoded, c.Calls("cuTensorMapEncodeTiled"), "no step was wide")
}
