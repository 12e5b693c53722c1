package external

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// told is a test that Path ends.
type told struct {
	testing.TB
	skipped, failed bool
}

func (t *told) Helper()               {}
func (t *told) Skipf(string, ...any)  { t.skipped = true }
func (t *told) Fatalf(string, ...any) { t.failed = true }

func TestPath(t *testing.T) {
	defer func(was string) { named = was }(named)
	named = t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(named, "model"), 0o755))

	own := &told{TB: t}
	require.Equal(t, filepath.Join(named, "model"), Path(own, "model"))
	require.False(t, own.skipped || own.failed)

	Path(own, "text", "sample.txt")
	require.True(t, own.skipped, "one of the files may be missing")

	own, named = &told{TB: t}, filepath.Join(named, "elsewhere")
	Path(own, "model")
	require.True(t, own.failed, "but not the folder that was named")
}

func TestFolder(t *testing.T) {
	require.Equal(t, "there", folder("there"))
	here, err := filepath.Abs(filepath.Join("..", "..", "..", "..", "shared", "data"))
	require.NoError(t, err)
	require.Equal(t, here, folder(""))
	t.Chdir(t.TempDir())
	require.Empty(t, folder(""), "without a checkout")
}
