//go:build !(darwin || metalsimt) || !cgo || nometal

package metal

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
)

// A program without Metal says which of the reasons is its own.
func TestStub(t *testing.T) {
	for _, name := range []string{"metal", "metal:0"} {
		_, err := backend.Open(name)
		require.Equal(t, backend.ErrUnavailable{Backend: "metal", Why: why}, err)
	}
	require.Contains(t, []string{"built without cgo; install a C compiler (xcode-select --install) and build with CGO_ENABLED=1", "left out by the nometal tag", "only on macOS"}, why)
	list := backend.List()
	require.Equal(t, "metal", list[0].Name)
	require.Equal(t, errAbsent, list[0].Err)
}
