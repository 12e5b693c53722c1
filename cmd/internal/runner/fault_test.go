package runner

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/cmd/internal/modelfile"
)

// A file that becomes shorter while it is mapped is an error, and not the end of the program.
func TestMappedFileBecomesShorter(t *testing.T) {
	name := filepath.Join(t.TempDir(), "m.gguf")
	require.NoError(t, os.WriteFile(name, make([]byte, 1<<20), 0o600))
	read := func() (err error) {
		defer faulted(name, &err)()
		data, end, err := modelfile.Map(name)
		require.NoError(t, err)
		defer func() { require.NoError(t, end()) }()
		require.NoError(t, os.Truncate(name, 0))
		sum := 0
		for _, b := range data {
			sum += int(b)
		}
		require.Zero(t, sum)
		return nil
	}
	require.ErrorIs(t, read(), ErrFile{File: name, Field: "contents", Why: "cannot be read: the file became shorter meanwhile, or its disk failed"})
	require.PanicsWithValue(t, "other", func() {
		var err error
		defer faulted(name, &err)()
		panic("other")
	})
}
