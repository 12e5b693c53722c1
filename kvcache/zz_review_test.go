package kvcache

import (
	"math/rand/v2"
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/config"
	"github.com/ferrumkv/ferrumkv/kvcache/group"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
	"github.com/stretchr/testify/require"
)

func TestZZSpanKeys(t *testing.T) {
	require.NotPanics(t, func() { prefix.SpanKeys([]uint32{1, 2, 3}, nil, []prefix.Span{{Begin: 1, End: 9}}, 4) })
}
func TestZZSpanKeysEmpty(t *testing.T) {
	require.NotPanics(t, func() { prefix.SpanKeys([]uint32{1, 2, 3}, nil, []prefix.Span{{Begin: 1, End: 1}}, 4) })
}

func zzKinds() map[string]Config {
	all := map[string]Config{}
	for _, residual := range []int{3, 9} {
		for _, stepTokens := range []int{0, 6} {
			name := map[int]string{3: "r3", 9: "r9"}[residual] + map[int]string{0: "", 6: "long"}[stepTokens]
			c := manyKinds(config.Group{Kind: group.Chunked, Layers: []int{0, 1}, Chunk: 40}, config.Group{Layers: []int{2}})
			c.Storage.K, c.Model.Act, c.Storage.Residual = backend.Int8, backend.F32, residual
			c.Memory.StepTokens = stepTokens
			all["chunk "+name] = c
			d := small(Paged)
			d.Memory.Capacity = 200
			d.Storage.K, d.Model.Act, d.Storage.Residual, d.Memory.StepTokens = backend.Int8, backend.F32, residual, stepTokens
			d.Attention.Scores = true
			all["scores "+name] = d
		}
	}
	return all
}

func TestZZChunkResidual(t *testing.T) {
	for name, cfg := range zzKinds() {
		t.Run(name, func(t *testing.T) {
			for _, back := range []int{-1, 60} {
				cfg := cfg
				if cfg.Model.Groups != nil {
					cfg.Memory.Rollback = back
				}
				w := newMixed(t, cfg)
				s := w.fresh()
				for range 40 {
					require.NoError(t, w.run(deal{told: s, ids: sequence(1+len(s.ids), 4)}))
				}
				w.drop(s)
				w.close()
			}
		})
	}
}

func TestZZMixed(t *testing.T) {
	for name, cfg := range zzKinds() {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(3) {
				cfg := cfg
				if cfg.Model.Groups != nil {
					cfg.Memory.Rollback = []int{-1, 3, 60}[seed]
				}
				cfg.Memory.Blocks = 90
				w := newMixed(t, cfg)
				w.rng = rand.New(rand.NewPCG(seed, 77))
				for range 200 {
					if w.rng.IntN(3) > 0 {
						w.mix()
					} else {
						w.act()
					}
					require.NoError(t, w.pool.Check())
					if w.events != nil {
						w.listen()
					}
				}
				for len(w.seqs) > 0 {
					w.drop(w.seqs[0])
				}
				w.close()
			}
		})
	}
}
