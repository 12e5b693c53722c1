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

// The kernels of warpgroups pass the suite in their shapes, as they are in kernels/cuda/variants.
func TestWide(t *testing.T) {
	c, ok := standin.Open()
	if !ok {
		t.Skip("the stand-in alone has them without an image")
	}
	set, err := c.Set("wide")
	require.NoError(t, err)
	require.NotEmpty(t, set.Kernels)
	before := variants.Chosen()
	variants.Choose(set)
	defer variants.Choose(before...)
	encoded := c.Calls("cuTensorMapEncodeTiled")
	backendtest.RunWith(t, func(t testing.TB) backend.Backend[*Buffer] { return wideOnly{openNow(t)} }, backendtest.Options{Grid: backendtest.Values, MaxWork: 2_000_000, TypedOnly: true})
	require.Less(t, encoded, c.Calls("cuTensorMapEncodeTiled"), "no step was wide")
}
