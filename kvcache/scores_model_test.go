package kvcache

import (
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/backendtest"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// weigher drives a pool that keeps scores and compares them with what queries of zeros
// give: each token that a query sees gets an equal part. Mass belongs to a slot of a
// block, which sequences may share.
type weigher struct {
	*machine[buffer]
	mass map[place]float64 // of a query head
}

type place struct {
	layer int
	block uint32
	slot  int
}

func (w *weigher) at(layer int, blocks []uint32, i int) place {
	slots := w.pool.cfg.BlockTokens()
	return place{layer, blocks[i/slots], i % slots}
}

// Step attends in every layer, in the second one twice, and commits or abandons.
func (w *weigher) Step(t *rapid.T) {
	w.pick(t)
	s := w.stream(t)
	var feeds []feed[buffer]
	var of []*modelSeq[buffer]
	rows := 0
	for _, ms := range w.seqs {
		if n := min(rapid.IntRange(0, 5).Draw(t, "tokens"), w.pool.cfg.Memory.Capacity-ms.next); n > 0 {
			feeds, of, rows = append(feeds, feed[buffer]{ms.seq, w.machine.feed(ms, n)}), append(of, ms), rows+n
		}
	}
	if len(feeds) == 0 {
		t.Skip("nobody feeds")
	}
	if err := w.plan(s, feeds...); err != nil {
		require.ErrorIs(t, err, ErrOutOfBlocks{})
		return
	}
	w.t = t
	w.write(s, feeds...)
	c := w.pool.Config()
	ix := &w.step.step.Steps[0].Index
	q, out := w.vector(s, make([]float32, rows*c.Model.QHeads*c.Model.HeadDim)), w.vector(s, make([]float32, rows*c.Model.QHeads*c.Model.VHeadDim))
	for l := range c.Model.Layers {
		for i, ms := range of {
			table, had := ix.Written().Tables.Host[i*ix.Written().Stride:][:ix.Written().Stride], ms.seq.Blocks(nil)
			for j := range ms.len() {
				w.mass[w.at(l, table, j)] = w.mass[w.at(l, had, j)]
			}
			for j := range feeds[i].ids {
				w.mass[w.at(l, table, ms.len()+j)] = 0
			}
		}
		for range l + 1 {
			require.NoError(t, w.step.Attend(l, attending(q, out)))
			for i, ms := range of {
				table := ix.Written().Tables.Host[i*ix.Written().Stride:][:ix.Written().Stride]
				for j := range feeds[i].ids {
					seen := ms.len() + j + 1
					for token := range seen {
						w.mass[w.at(l, table, token)] += 1 / float64(seen)
					}
				}
			}
		}
	}
	w.free(q, out)
	if rapid.IntRange(0, 3).Draw(t, "abandon") == 0 {
		require.NoError(t, w.step.Reset())
		return
	}
	require.NoError(t, w.step.Commit())
	for i, ms := range of {
		ms.add(feeds[i].ids)
	}
}

// moved is a change of a sequence after which token i of a layer is what token
// from(layer, i) was before: its mass comes with it.
func (w *weigher) moved(ms *modelSeq[buffer], change func() error, from func(layer, i int) int) {
	had := ms.seq.Blocks(nil)
	if err := change(); err != nil {
		require.ErrorIs(w.t, err, ErrOutOfBlocks{})
		return
	}
	now := map[place]float64{}
	for l := range w.pool.cfg.Model.Layers {
		for i, blocks := 0, ms.seq.Blocks(nil); i < ms.seq.Len(); i++ {
			now[w.at(l, blocks, i)] = w.mass[w.at(l, had, from(l, i))]
		}
	}
	for at, mass := range now {
		w.mass[at] = mass
	}
}

func (w *weigher) Shift(t *rapid.T) {
	ms := w.pick(t)
	w.t = t
	begin := rapid.IntRange(0, ms.len()).Draw(t, "begin")
	end := rapid.IntRange(begin, ms.len()).Draw(t, "end")
	w.moved(ms, func() error {
		err := ms.seq.Shift(w.stream(t), begin, end)
		if err == nil {
			ms.shift(begin, end)
		}
		return err
	}, func(_, i int) int {
		if i < begin {
			return i
		}
		return i + end - begin
	})
}

func (w *weigher) Keep(t *rapid.T) {
	ms := w.pick(t)
	w.t = t
	kept, o := anyKept(t, ms.len(), w.pool.cfg.Model.Layers), RetainOptions{Reposition: rapid.Bool().Draw(t, "reposition")}
	w.moved(ms, func() error {
		err := ms.seq.Retain(w.stream(t), kept, o)
		if err == nil {
			ms.keep(kept, o)
		}
		return err
	}, func(layer, i int) int { return kept[min(layer, len(kept)-1)][i] })
}

func (w *weigher) Clear(t *rapid.T) {
	ms := w.pick(t)
	require.NoError(t, ms.seq.ClearScores(w.stream(t)))
	for l := range w.pool.cfg.Model.Layers {
		for _, block := range ms.seq.Blocks(nil) {
			for slot := range w.pool.cfg.BlockTokens() {
				w.mass[place{l, block, slot}] = 0
			}
		}
	}
}

func (w *weigher) Read(t *rapid.T) {
	ms := w.pick(t)
	w.t = t
	w.weighed(w.stream(t), ms)
}

func (w *weigher) weighed(s backend.Stream, ms *modelSeq[buffer]) {
	c := w.pool.Config()
	got := make([]float32, c.Model.KVHeads*ms.len())
	for l := range c.Model.Layers {
		require.NoError(w.t, ms.seq.Scores(s, l, got))
		for i, blocks := 0, ms.seq.Blocks(nil); i < ms.len(); i++ {
			want := float64(c.Model.QHeads/c.Model.KVHeads) * w.mass[w.at(l, blocks, i)]
			for h := range c.Model.KVHeads {
				require.InDelta(w.t, want, got[h*ms.len()+i], 1e-4, "layer %d head %d token %d of %d", l, h, i, ms.len())
			}
		}
	}
}

// Scores are the mass that a token got since it was written, whatever became of its
// sequence and of the slot's earlier tokens.
func TestScoresAgainstLists(t *testing.T) {
	be := openDevice(t)
	for _, layout := range []Layout{Contiguous, Paged} {
		t.Run(layout.String(), leavesNothing(be, func(t *rapid.T) {
			cfg := small(layout)
			cfg.Attention.Scores = true
			if layout == Paged {
				cfg.Memory.Blocks = 24
			}
			if f := (backend.Format{Act: backend.F32, K: backend.Int8, V: backend.Int8}); testDevice().Supports(f) && rapid.Bool().Draw(t, "quantized") {
				cfg.Storage.K, cfg.Storage.V, cfg.Model.Act = f.K, f.V, f.Act
			}
			dev := newLateDevice(be, backendtest.LateOptions{Seed: rapid.Uint64().Draw(t, "seed")})
			w := &weigher{&machine[buffer]{rig: newRig(t, dev, cfg)}, map[place]float64{}}
			w.streams = []backend.Stream{w.s}
			actions := map[string]func(*rapid.T){
				"open": w.Open, "step": w.Step, "step again": w.Step, "fork": w.Fork, "truncate": w.Truncate,
				"shift": w.Shift, "keep": w.Keep, "clear": w.Clear, "release": w.Release, "read": w.Read, "": w.check,
			}
			if rapid.Bool().Draw(t, "two streams") { // what sequences that share blocks add has no order there
				second, err := dev.NewStream()
				require.NoError(t, err)
				w.streams = append(w.streams, second)
				delete(actions, "fork")
			}
			t.Repeat(actions)
			w.t = t
			for _, ms := range w.seqs {
				w.weighed(w.s, ms)
			}
			w.finish(t)
			require.NoError(t, dev.late.Drain())
		}))
	}
	require.NoError(t, be.Close())
}
