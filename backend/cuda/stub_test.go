//go:build !linux || !cgo || nocuda

package cuda

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
)

// A program without CUDA says which of the reasons is its own.
func TestStub(t *testing.T) {
	for _, name := range []string{"cuda", "cuda:0"} {
		_, err := backend.Open(name)
		require.Equal(t, backend.ErrUnavailable{Backend: "cuda", Why: why}, err)
	}
	require.Contains(t, []string{"built without cgo", "left out by the nocuda tag", "only on Linux"}, why)
	list := backend.List()
	require.Equal(t, "cuda", list[0].Name)
	require.Equal(t, errAbsent, list[0].Err)
}
