package runner

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend/cpu"
	"github.com/ferrumkv/ferrumkv/cmd/internal/modelfile"
	"github.com/ferrumkv/ferrumkv/kvcache"
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

// A model's file that becomes shorter is an error of the next step, on one goroutine and on several, after which all that was open can be closed.
func TestFileOfModelBecomesShorter(t *testing.T) {
	for _, dim := range []int{64, 1024} {
		name := filepath.Join(t.TempDir(), "m.gguf")
		c := craftConfig(dim)
		require.NoError(t, os.WriteFile(name, craftGGUF(craftMeta(c), craftArrays(c, ggufWeights), "Q8_0"), 0o600))
		m, _, err := Load(name, "", nil)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, m.Close()) })
		r := newRunner(t, openCPU(t), m, Options{Threads: 2})
		seq, _, err := r.Pool().Open([]uint32{1, 4, 3}, kvcache.OpenOptions{})
		require.NoError(t, err)
		_, err = r.Forward([]Work[*cpu.Buffer]{{Seq: seq, Tokens: []uint32{1, 4}}}, false)
		require.NoError(t, err)
		require.NoError(t, os.Truncate(name, 0))
		_, err = r.Forward([]Work[*cpu.Buffer]{{Seq: seq, Tokens: []uint32{3}}}, false)
		require.ErrorIs(t, err, ErrFile{File: name, Field: "contents", Why: "cannot be read: the file became shorter meanwhile, or its disk failed"})
		require.NoError(t, seq.Release())
	}
}
