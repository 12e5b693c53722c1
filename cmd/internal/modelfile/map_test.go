package modelfile

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A file that cannot be mapped is named, as one that cannot be opened is.
func TestMapNamesTheFile(t *testing.T) {
	for name, file := range map[string]string{"none": filepath.Join(t.TempDir(), "none"), "a folder": t.TempDir()} {
		_, _, err := Map(file)
		var path *fs.PathError
		require.ErrorAs(t, err, &path, name)
		require.Equal(t, file, path.Path, name)
	}
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, []byte("x"), 0o600))
	data, end, err := Map(file)
	require.NoError(t, err)
	require.Equal(t, "x", string(data))
	require.NoError(t, end())
}
