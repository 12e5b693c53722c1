package kvcache

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/config"
	"github.com/ferrumkv/ferrumkv/kvcache/group"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
	"github.com/stretchr/testify/require"
)

// grouped is a pool with groups, whose steps are computed and compared with a naive model: every query's output with
// attention in float64 over the tokens that its layer's group lets it see, and every state with one that is computed from
// all tokens.
type grouped struct {
	*rig[buffer]
	rng    *rand.Rand
	seqs   []*told
	within float64 // by how much a row may differ from the model's
	events *prefix.Subscription
	sure   map[uint32]bool        // tokens that were drafts and accepted
	guess  uint32                 // the next draft's
	asked  uint32                 // queries so far, of steps with calls of every kind
	mixes  bool                   // what is written for a token depends on all before it
	deals  func(asks []ask) error // computes and compares steps in the place of run
}

// guesses are from here on the numbers of tokens that were drafts: none is used twice.
const guesses = 1 << 20

// told is a sequence and the tokens that it was told.
type told struct {
	seq   *Sequence[buffer]
	ids   []uint32
	draft int // the last of them, which may be rejected
	next  int // as many of the next step's
}

// accept notes that a draft is none any more.
func (w *grouped) accept(s *told) {
	for _, id := range s.ids[len(s.ids)-s.draft:] {
		w.sure[id] = true
	}
	s.draft = 0
}

// listen compares what was told of drafts with what was accepted of them.
func (w *grouped) listen() {
	w.t.Helper()
	for {
		select {
		case e := <-w.events.C:
			for _, id := range e.Tokens {
				require.True(w.t, id < guesses || w.sure[id], "token %d is a draft", id)
			}
		default:
			return
		}
	}
}

// manyKinds is a configuration with groups of all kinds that the test device computes.
func manyKinds(groups ...config.Group) Config {
	dims := testDims()
	layers := 0
	for _, g := range groups {
		if layers += len(g.Layers); g.Kind == group.State { // keys and values take the same memory then
			dims[1] = dims[0]
		}
	}
	return Config{
		Model:   Model{Layers: layers, QHeads: 4, KVHeads: 2, HeadDim: dims[0], VHeadDim: dims[1], Groups: groups},
		Storage: Storage{K: backend.F32},
		Memory:  Memory{Layout: Paged, BlockSize: 4, Capacity: 200, MaxSeqs: 4, Rollback: -1},
	}
}

// latent is cfg with latents: keys of 24 elements, of which 16 are their values.
func latent(cfg Config) Config {
	d := latentDims(24, 16)
	cfg.Model.Latent, cfg.Model.KVHeads, cfg.Model.HeadDim, cfg.Model.VHeadDim, cfg.Model.Scale = true, 1, d[0], d[1], 0.25
	return cfg
}

// latentDims are those of keys and values, or, on a device that has kernels for some alone, the first of these.
func latentDims(k, v int) [2]int {
	if dims := testDevice().LatentDims; dims != nil {
		return dims[0]
	}
	return [2]int{k, v}
}

func newGrouped(t testT, cfg Config, seed uint64) *grouped {
	t.Helper()
	return groupedOn(deviceRig(t, signed(cfg)), seed)
}

func groupedOn(r *rig[buffer], seed uint64) *grouped {
	r.t.Helper()
	w := &grouped{rig: r, rng: rand.New(rand.NewPCG(seed, 1)), within: 2e-5, sure: map[uint32]bool{}}
	if k := w.pool.cfg.Storage.K; k != backend.FP8E4M3 && k.Quantized() { // of that the model knows what is stored
		w.within = 0.02
	}
	if w.pool.tree != nil {
		var err error
		w.events, _, err = w.pool.Watch(1 << 12)
		require.NoError(r.t, err)
	}
	return w
}

// groupOf is the group of a layer.
func (w *grouped) groupOf(layer int) *config.Group {
	for i := range w.pool.cfg.Model.Groups {
		g := &w.pool.cfg.Model.Groups[i]
		for _, l := range g.Layers {
			if l == layer {
				return g
			}
		}
	}
	return &config.Group{} // of a pool without groups
}

// sees reports whether the query at a position sees a token.
func sees(g *config.Group, query, token int) bool {
	switch {
	case token > query:
		return false
	case g.Kind == group.Window:
		return token > query-g.Window || token < g.Sinks
	case g.Kind == group.Chunked:
		return token >= query-query%g.Chunk
	}
	return true
}

// open opens a sequence for a prompt, whose rest is left to compute.
func (w *grouped) open(prompt []uint32) (*told, Match) {
	w.t.Helper()
	seq, m, err := w.pool.Open(prompt, OpenOptions{})
	require.NoError(w.t, err)
	s := &told{seq: seq, ids: append([]uint32(nil), prompt[:m.Cached]...)}
	w.seqs = append(w.seqs, s)
	return s, m
}

// ask is new tokens of a sequence in a step.
type ask struct {
	*told
	ids []uint32
}

// run computes a step and compares what it gives with the model. An error leaves everything as it was.
func (w *grouped) run(asks ...ask) error {
	w.t.Helper()
	if w.deals != nil {
		return w.deals(asks)
	}
	err := w.step.Reset()
	for _, a := range asks {
		err = cmp.Or(err, w.step.AddDraft(a.seq, a.ids, a.next))
	}
	if err = cmp.Or(err, w.step.Plan(w.s)); err != nil {
		require.NoError(w.t, w.step.Reset())
		return err
	}
	w.layers(asks)
	for _, a := range asks {
		w.accept(a.told)
		a.told.ids, a.told.draft = append(a.told.ids, a.ids...), a.next
		a.next = 0
	}
	return w.step.Commit()
}

// layers computes the planned step, and compares what it gives with the model.
func (w *grouped) layers(asks []ask) {
	w.t.Helper()
	for layer := range w.pool.cfg.Model.Layers {
		switch w.groupOf(layer).Kind {
		case group.None:
		case group.State:
			w.state(layer, asks)
		default:
			w.layer(layer, asks)
		}
	}
}

// layer appends and attends in a layer.
func (w *grouped) layer(layer int, asks []ask) {
	w.t.Helper()
	st, _ := w.pool.of(layer)
	m := &st.Config.Model
	var ids []uint32
	for _, a := range asks {
		ids = append(ids, w.mixed(a)[len(a.told.ids):]...)
	}
	for of := w.step.step.Size; len(ids) < of.Seqs*of.Tokens; { // of sequences that there are not
		ids = append(ids, 0)
	}
	hk, hv := newRows(m, ids, layer)
	k, v := w.vector(w.s, hk), w.vector(w.s, hv)
	queries := rows(ids, layer+100, m.QHeads, m.HeadDim, false)
	q, out := w.vector(w.s, queries), w.vector(w.s, make([]float32, len(ids)*m.QHeads*m.VHeadDim))
	require.NoError(w.t, w.step.Append(layer, kv(k, v)))
	require.NoError(w.t, w.step.Attend(layer, attending(q, out)))
	require.NoError(w.t, w.s.Sync())
	got := w.download(out)
	row, width := 0, m.QHeads*m.VHeadDim
	for _, a := range asks {
		all := w.mixed(a)
		for i := range a.ids {
			query := queries[row*m.QHeads*m.HeadDim:][:m.QHeads*m.HeadDim]
			position := len(a.told.ids) + i
			want := w.attend(m, layer, query, all[:position+1], func(token int) bool { return sees(w.groupOf(layer), position, token) })
			for j, x := range want {
				if difference := math.Abs(float64(x) - float64(got[row*width+j])); !(difference <= w.within) { // require takes time
					require.InDelta(w.t, x, got[row*width+j], w.within, "layer %d, position %d, element %d", layer, len(a.told.ids)+i, j)
				}
			}
			row++
		}
	}
	w.free(k, v, q, out)
}

// mixed is what is written for the tokens of a sequence and its new ones: they, or of each a hash of all up to it.
func (w *grouped) mixed(a ask) []uint32 {
	all := append(append([]uint32(nil), a.told.ids...), a.ids...)
	for state, i := uint32(1), 0; w.mixes && i < len(all); i++ {
		state = mix(state, all[i])
		all[i] = state
	}
	return all
}

// attend is attention in float64 to those of some tokens that are seen.
func (w *grouped) attend(m *Model, layer int, q []float32, ids []uint32, seen func(token int) bool) []float64 {
	out := make([]float64, m.QHeads*m.VHeadDim)
	for h := range m.QHeads {
		kvHead, sum := h/(m.QHeads/m.KVHeads), 0.0
		for token := range ids {
			if !seen(token) {
				continue
			}
			dot := 0.0
			for d := range m.HeadDim {
				dot += float64(q[h*m.HeadDim+d]) * w.stored(element(ids[token], layer, kvHead, d, false))
			}
			e := math.Exp(dot * float64(m.Scale))
			sum += e
			for d := range m.VHeadDim {
				out[h*m.VHeadDim+d] += e * w.stored(element(ids[token], layer, kvHead, d, !m.Latent))
			}
		}
		for d := 0; d < m.VHeadDim && sum > 0; d++ { // who sees nothing gets zeros
			out[h*m.VHeadDim+d] /= sum
		}
	}
	return out
}

// stored is what becomes of an element, none of which is larger than 1, in the pool: of those in 8-bit floats four bits
// stay, or a multiple of the smallest.
func (w *grouped) stored(x float32) float64 {
	if w.pool.cfg.Storage.K != backend.FP8E4M3 {
		return float64(x)
	}
	_, exp := math.Frexp(float64(x))
	step := math.Ldexp(1, max(exp-1, -6)-3)
	return math.RoundToEven(float64(x)/step) * step
}

// fold is the words of a state after tokens.
func fold(layer int, ids []uint32, words int) []uint32 {
	out := make([]uint32, words)
	for _, id := range ids {
		for i := range out {
			out[i] = out[i]*1664525 + id + uint32(layer*1000+i)
		}
	}
	return out
}

// state reads the states of a layer, compares them, and writes those after the step.
func (w *grouped) state(layer int, asks []ask) {
	w.t.Helper()
	st, err := w.step.State(layer)
	require.NoError(w.t, err)
	require.Len(w.t, st.Offsets, len(asks))
	words := st.Bytes / 4
	have := make([]uint32, words)
	for i, a := range asks {
		at := int(st.Offsets[i] / 4)
		require.NoError(w.t, backend.Download(w.be, w.s, have, st.Buf, at))
		require.Equal(w.t, fold(layer, a.told.ids, words), have, "layer %d, a state after %d tokens", layer, len(a.told.ids))
		all := append(append([]uint32(nil), a.told.ids...), a.ids...)
		require.NoError(w.t, backend.Upload(w.be, w.s, st.Buf, at, fold(layer, all, words)))
		require.NoError(w.t, w.s.Sync())
	}
}

// drop releases a sequence.
func (w *grouped) drop(s *told) {
	w.t.Helper()
	require.NoError(w.t, s.seq.Release())
	w.lost(s)
}

// lost notes that a sequence is over.
func (w *grouped) lost(s *told) {
	w.seqs = slices.DeleteFunc(w.seqs, func(o *told) bool { return o == s })
}
