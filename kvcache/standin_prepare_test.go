package kvcache

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
)

// Once there is a pool its steps wait for no kernel, on some devices but in Plan, whatever it keeps: prompts, long and short, decode, several
// sequences, shared blocks that are written to, and rejected drafts.
func TestStepsLoadNothing(t *testing.T) {
	c := standIn(t)
	int8 := backend.Format{Act: backend.F16, K: backend.Int8, V: backend.Int8}
	int4 := backend.Format{Act: backend.F16, K: backend.Int4Channel, V: backend.Int4}
	float := backend.Format{Act: backend.F16, K: backend.F16, V: backend.F16}
	for name, make := range map[string]func() Config{
		"contiguous": func() Config { return quantizedConfig(Contiguous, float) },
		"paged":      func() Config { return quantizedConfig(Paged, float) },
		"quantized":  func() Config { return quantizedConfig(Paged, int8) },
		"hadamard": func() Config {
			cfg := quantizedConfig(Paged, int8)
			cfg.Storage.Hadamard, cfg.Storage.SkipLayers = true, []int{0}
			return cfg
		},
		"scores": func() Config {
			cfg := quantizedConfig(Paged, int8)
			cfg.Attention.Scores = true
			return cfg
		},
		"residual": func() Config { return windowConfig(int4) },
		"residual, hadamard": func() Config {
			cfg := windowConfig(int4)
			cfg.Storage.Hadamard = true
			return cfg
		},
		"residual, scores, skipped layers": func() Config {
			cfg := windowConfig(int8)
			cfg.Attention.Scores, cfg.Storage.SkipLayers = true, []int{0}
			return cfg
		},
		"masks": func() Config {
			cfg := quantizedConfig(Paged, float)
			cfg.Model.Masks = []Mask{{ALiBi: []float32{1, 0.5, 0.25, 0.125}, SinkLogits: []float32{1, 2, 3, 4}, SoftCap: 30}, {}}
			return cfg
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := deviceRig(t, make())
			prepared, id := c.loads(), 0
			ids := func(n int) []uint32 { id += n; return sequence(id, n) }
			step := func(feeds ...feed[buffer]) {
				t.Helper()
				require.NoError(t, r.plan(r.s, feeds...))
				planned := c.loads()
				r.planned(rotated[buffer], feeds...)
				require.Equal(t, planned, c.loads())
			}
			a, b := r.open(), r.open()
			step(feed[buffer]{a, ids(3)})
			step(feed[buffer]{a, ids(1)})
			step(feed[buffer]{a, ids(30)}, feed[buffer]{b, ids(7)})
			fork, err := a.Fork()
			require.NoError(t, err)
			step(feed[buffer]{fork, ids(1)}, feed[buffer]{a, ids(1)}, feed[buffer]{b, ids(1)})
			require.NoError(t, a.Truncate(a.Len()-2))
			for range 3 {
				step(feed[buffer]{fork, ids(1)}, feed[buffer]{a, ids(2)}, feed[buffer]{b, ids(1)})
			}
			if !c.plans {
				require.Equal(t, prepared, c.loads())
			}
			for _, seq := range []*Sequence[buffer]{a, b, fork} {
				require.NoError(t, seq.Release())
			}
			require.NoError(t, r.step.Close())
			r.close()
		})
	}
}
