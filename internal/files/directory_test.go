package files

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMissing checks that Missing returns the directories that do not exist, the deepest first, up to one that exists or to a volume that does not.
func TestMissing(t *testing.T) {
	dir := t.TempDir()
	require.Empty(t, Missing(dir))
	a := filepath.Join(dir, "a")
	b := filepath.Join(a, "b")
	require.Equal(t, []string{b, a}, Missing(b))
	if runtime.GOOS != "windows" {
		return
	}
	for letter := 'Z'; letter > 'C'; letter-- {
		volume := string(letter) + `:\`
		if _, err := os.Stat(volume); os.IsNotExist(err) {
			require.Equal(t, []string{volume + "a", volume}, Missing(volume+"a"))
			require.Error(t, Prepare(volume+"a"))
			return
		}
	}
}
