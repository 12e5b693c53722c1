package kvcache

import (
	"slices"
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/config"
	"github.com/ferrumkv/ferrumkv/kvcache/group"
	"github.com/stretchr/testify/require"
)

// every is the layers of a model of n, of which one in so many, the last of them, is in the second list.
func every(n, of int) (most, last []int) {
	for l := range n {
		if l%of == of-1 {
			last = append(last, l)
		} else {
			most = append(most, l)
		}
	}
	return most, last
}

// models are the shapes of models that people run, with what a sequence of n tokens needs by arithmetic, in bytes, if every
// layer keeps what it reads and nothing else.
func models() map[string]struct {
	model Model
	need  func(n int) int
} {
	window, full := every(26, 6)
	half, other := every(24, 2)
	linear, attends := every(48, 4)
	chunked, whole := every(48, 4)
	min2 := func(n, most int) int { return min(n, most) }
	const state = 32*128*128*4 + 8192*3*2 // of Qwen3-Next: 32 heads [128, 128] in f32, and three inputs of a convolution
	return map[string]struct {
		model Model
		need  func(n int) int
	}{
		"Gemma-3 1B": {
			Model{Layers: 26, QHeads: 4, KVHeads: 1, HeadDim: 256, Groups: []config.Group{{Kind: group.Window, Layers: window, Window: 512}, {Layers: full}}},
			func(n int) int { return 2 * 256 * 2 * (len(full)*n + len(window)*min2(n, 512)) },
		},
		"gpt-oss 20B": {
			Model{Layers: 24, QHeads: 64, KVHeads: 8, HeadDim: 64, Groups: []config.Group{{Kind: group.Window, Layers: half, Window: 128}, {Layers: other}}},
			func(n int) int { return 2 * 8 * 64 * 2 * (len(other)*n + len(half)*min2(n, 128)) },
		},
		"Qwen3-Next 80B": {
			Model{Layers: 48, QHeads: 16, KVHeads: 2, HeadDim: 256, Groups: []config.Group{{Kind: group.State, Layers: linear, StateBytes: state}, {Layers: attends}}},
			func(n int) int { return 2*2*256*2*len(attends)*n + len(linear)*state },
		},
		"Llama-4 Scout": {
			Model{Layers: 48, QHeads: 40, KVHeads: 8, HeadDim: 128, Groups: []config.Group{{Kind: group.Chunked, Layers: chunked, Chunk: 8192}, {Layers: whole}}},
			func(n int) int { return 2 * 8 * 128 * 2 * (len(whole)*n + len(chunked)*(n%8192)) },
		},
	}
}

// What a sequence of 32k tokens holds is within 5 % of what its layers need by arithmetic, and what it held on the way is
// what its rules say. The pool has the model's groups, and rows that are shorter by a factor.
func TestGroupsHoldWhatTheyNeed(t *testing.T) {
	for name, of := range models() {
		factor := of.model.KVHeads * of.model.HeadDim / 2
		m := of.model
		m.QHeads, m.KVHeads, m.HeadDim = 1, 1, 2
		m.Groups = slices.Clone(m.Groups)
		for i := range m.Groups {
			m.Groups[i].StateBytes /= factor
		}
		cfg := Config{Model: m, Storage: Storage{K: backend.F16}, Memory: Memory{Layout: Paged, Capacity: 1 << 15, MaxSeqs: 1, Rollback: -1}}
		r := newRig(t, openCPU(t), cfg)
		seq := r.open()
		attends := m.Groups[1].Layers[0]
		for seq.Len() < 1<<15 {
			n := min(seq.Piece(1<<15-seq.Len()), 1024)
			require.NoError(t, r.step.Add(seq, sequence(seq.Len(), n)))
			require.NoError(t, r.step.Plan(r.s))
			_, err := r.step.Metadata(attends) // rows are written by somebody else
			require.NoError(t, err)
			require.NoError(t, r.step.Commit())
			want := 0
			for _, p := range r.pool.cfg.Parts() {
				want += p.Rule.Need(seq.Len())
			}
			require.Equal(t, want, r.stats().Held, "%s after %d tokens", name, seq.Len())
		}
		require.NoError(t, r.step.Reset())
		st := r.stats()
		held, need := float64(st.BytesHeld)*float64(factor), float64(of.need(1<<15))
		whole := float64(2*of.model.KVHeads*of.model.HeadDim*2*m.Layers) * (1 << 15)
		t.Logf("%-15s %d blocks, %.1f MB; needed %.1f MB (%+.1f %%); with all layers full %.1f MB", name, st.Held, held/1e6, need/1e6, 100*(held/need-1), whole/1e6)
		require.InEpsilon(t, need, held, 0.05, name)
		require.NoError(t, seq.Release())
		require.NoError(t, r.step.Close())
		r.close()
	}
}
