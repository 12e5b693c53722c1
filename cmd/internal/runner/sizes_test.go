package runner

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/internal/testutil/external"
	"github.com/ferrumkv/ferrumkv/kvcache/group"
)

// What layers see is read of files that are not run, by their headers, with why they are not.
func TestShapesOfForeignGGUF(t *testing.T) {
	for name, c := range map[string]struct {
		layers, heads, kv, dim int
		windows                int // layers
		why                    []string
	}{
		"llama3-q4_k_m": {2, 8, 4, 32, 0, nil},
		"gemma3-q4_k_m": {6, 4, 1, 64, 5, nil},
		"gpt-oss-mxfp4": {4, 4, 2, 32, 2, nil},
		"qwen2-f16":     {4, 4, 2, 16, 0, nil},
		"llama-q8_0":    {4, 4, 2, 16, 0, nil},
	} {
		t.Run(name, func(t *testing.T) {
			shape, cannot, err := LoadConfig(external.Path(t, "gguf", name+"/"+name+".gguf"))
			require.NoError(t, err)
			b := shape.block(shape.Layers - 1)
			require.Equal(t, []int{c.layers, c.heads, c.kv, c.dim}, []int{shape.Layers, b.Heads, b.KVHeads, b.HeadDim})
			windows := 0
			for l := range shape.Layers {
				if shape.block(l).Kind == group.Window {
					windows++
				}
			}
			require.Equal(t, c.windows, windows)
			require.Len(t, cannot, len(c.why))
			for i, why := range c.why {
				require.Contains(t, cannot[i].Feature, why)
			}
		})
	}
	for _, bad := range []string{"array-1e9", "truncated", "type-unknown", "offset-beyond-end"} {
		path := external.Path(t, "gguf", "bad/"+bad+".gguf")
		_, _, err := Load(path, "")
		require.Error(t, err, bad)
		typed(t, err)
		_, _, err = LoadConfig(path)
		if err != nil { // a type that nobody knows has a shape all the same
			typed(t, err)
		}
	}
}
