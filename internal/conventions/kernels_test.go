package conventions

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	cudakernels "github.com/ferrumkv/ferrumkv/kernels/cuda"
	"github.com/stretchr/testify/require"
)

// How many CUDA kernels there are, and how large, is as the documents say.
func TestKernelsAreCounted(t *testing.T) {
	m, err := cudakernels.Load()
	require.NoError(t, err)
	images, err := filepath.Glob("../../kernels/cuda/*.zst")
	require.NoError(t, err)
	bytes := int64(0)
	for _, name := range images {
		info, err := os.Stat(name)
		require.NoError(t, err)
		bytes += info.Size()
	}
	size := fmt.Sprintf("%.1f MB", float64(bytes)/1e6)
	for page, want := range map[string]string{
		"docs/kernels.md": fmt.Sprintf("%d kernels in %s of compressed fat binaries", len(m.Kernels), size),
		"RATIONALE.md":    fmt.Sprintf("machine code of all %d kernels is %s", len(m.Kernels), size),
	} {
		text, err := os.ReadFile(filepath.Join("../..", page))
		require.NoError(t, err)
		require.Contains(t, string(text), want, page)
	}
}
