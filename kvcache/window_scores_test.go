package kvcache

import (
	"cmp"
	"slices"
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/backendtest"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// windowWeigher drives a pool with a recent window that keeps scores, and compares them with what queries
// of zeros give: each token that a query sees an equal part, wherever it lies.
type windowWeigher struct {
	*rig[buffer]
	seqs   []*weighedSeq
	nextID uint32
	forks  bool                // then a token has what its sequence gave, and maybe what others did
	given  map[givenTo]float64 // by all sequences
}

type givenTo struct {
	layer int
	token uint32
}

// weighedSeq is a sequence and its tokens' scores [layers][len], of a query head.
type weighedSeq struct {
	seq    *Sequence[buffer]
	next   int
	ids    []uint32
	scores [][]float64
}

func (w *windowWeigher) pick(t *rapid.T) *weighedSeq {
	if len(w.seqs) == 0 {
		w.Open(t)
	}
	return w.seqs[rapid.IntRange(0, len(w.seqs)-1).Draw(t, "sequence")]
}

func (w *windowWeigher) Open(t *rapid.T) {
	if len(w.seqs) >= 4 {
		t.Skip("enough sequences")
	}
	w.t = t
	w.seqs = append(w.seqs, &weighedSeq{seq: w.open(), scores: make([][]float64, w.pool.cfg.Model.Layers)})
}

// Step attends in every layer, in the second one twice. An abandoned step does not attend.
func (w *windowWeigher) Step(t *rapid.T) {
	w.pick(t)
	w.t = t
	c := w.pool.Config()
	var feeds []feed[buffer]
	var of []*weighedSeq
	rows := 0
	for _, ms := range w.seqs {
		n := min(rapid.SampledFrom([]int{0, 1, 1, 3, 9, 17}).Draw(t, "tokens"), c.Memory.Capacity-ms.next)
		if n <= 0 {
			continue
		}
		ids := make([]uint32, n)
		for i := range ids {
			w.nextID++
			ids[i] = w.nextID
		}
		feeds, of, rows = append(feeds, feed[buffer]{ms.seq, ids}), append(of, ms), rows+n
	}
	if len(feeds) == 0 {
		t.Skip("nobody feeds")
	}
	if err := w.plan(w.s, feeds...); err != nil {
		require.ErrorIs(t, err, ErrOutOfBlocks{})
		return
	}
	if rapid.IntRange(0, 3).Draw(t, "abandon") == 0 {
		w.write(w.s, feeds...)
		require.NoError(t, w.step.Reset())
		return
	}
	var all []uint32
	for _, f := range feeds {
		all = append(all, f.ids...)
	}
	q, out := w.vector(w.s, make([]float32, rows*c.Model.QHeads*c.Model.HeadDim)), w.vector(w.s, make([]float32, rows*c.Model.QHeads*c.Model.VHeadDim))
	lse := w.vector(w.s, make([]float32, 3+rows*c.Model.QHeads))
	for l := range c.Model.Layers {
		to := backend.Outputs[buffer]{Rows: backend.Dense(out)}
		if w.f32(lse) && rapid.Bool().Draw(t, "log-sum-exp") {
			to.LSE, to.LSEOffset = backend.Some(lse), rapid.SampledFrom([]int{0, 3}).Draw(t, "offset")
		}
		w.layer(w.s, l, all)
		times := l + 1
		if w.forks { // which have the scores of one of them where they quantize what they share
			times = 1
		}
		for range times {
			require.NoError(t, w.step.Attend(l, attendingTo(backend.Dense(q), to)))
		}
		for i, ms := range of {
			w.attended(ms, l, feeds[i].ids, times)
		}
	}
	w.free(q, out, lse)
	require.NoError(t, w.step.Commit())
	for i, ms := range of {
		ms.next += len(feeds[i].ids)
		ms.ids = append(ms.ids[:len(ms.ids):len(ms.ids)], feeds[i].ids...)
	}
}

func (w *windowWeigher) f32(b buffer) bool { return b.DType() == backend.F32 }

// attended follows new tokens of a layer that attend some times.
func (w *windowWeigher) attended(ms *weighedSeq, layer int, ids []uint32, times int) {
	n, all := len(ids), append(slices.Clone(ms.ids), ids...)
	scores := append(slices.Clone(ms.scores[layer]), make([]float64, n)...)
	for pos := len(scores) - n; pos < len(scores); pos++ {
		for token := range pos + 1 {
			scores[token] += float64(times) / float64(pos+1)
			if w.forks {
				w.given[givenTo{layer, all[token]}] += float64(times) / float64(pos+1)
			}
		}
	}
	ms.scores[layer] = scores
}

func (w *windowWeigher) Truncate(t *rapid.T) {
	ms := w.pick(t)
	have := ms.seq.Len()
	n := have - min(rapid.SampledFrom([]int{0, 1, 2, 5, 9, 30}).Draw(t, "fewer"), have)
	ms.next = 0
	if places, err := ms.seq.Positions(nil, 0); n > 0 {
		require.NoError(t, err)
		ms.next = slices.Max(places[:n]) + 1
	}
	for l := range w.pool.cfg.Model.Layers {
		if places, err := ms.seq.Positions(nil, l); n > 0 {
			require.NoError(t, err)
			ms.next = max(ms.next, slices.Max(places[:n])+1)
		}
		ms.scores[l] = ms.scores[l][:n]
	}
	require.NoError(t, ms.seq.Truncate(n))
	ms.ids = ms.ids[:n]
}

func (w *windowWeigher) Fork(t *rapid.T) {
	ms := w.pick(t)
	if len(w.seqs) >= 4 {
		t.Skip("enough sequences")
	}
	child, err := ms.seq.Fork()
	require.NoError(t, err)
	w.seqs = append(w.seqs, &weighedSeq{child, ms.next, ms.ids, slices.Clone(ms.scores)})
}

// kept is a change after which token i of a layer is what token from(layer, i) was.
func (ms *weighedSeq) kept(from func(layer, i int) int) {
	for l, before := range ms.scores {
		now := make([]float64, ms.seq.Len())
		for i := range now {
			now[i] = before[from(l, i)]
		}
		ms.scores[l] = now
	}
	ms.next, ms.ids = ms.seq.NextPosition(), make([]uint32, ms.seq.Len()) // who they are does not matter any more
}

func (w *windowWeigher) Shift(t *rapid.T) {
	ms := w.pick(t)
	begin := rapid.IntRange(0, ms.seq.Len()).Draw(t, "begin")
	end := rapid.IntRange(begin, ms.seq.Len()).Draw(t, "end")
	if err := ms.seq.Shift(w.s, begin, end); err != nil {
		require.ErrorIs(t, err, ErrOutOfBlocks{})
		return
	}
	ms.kept(func(_, i int) int {
		if i < begin {
			return i
		}
		return i + end - begin
	})
}

func (w *windowWeigher) Keep(t *rapid.T) {
	ms := w.pick(t)
	kept, o := anyKept(t, ms.seq.Len(), w.pool.cfg.Model.Layers), RetainOptions{Reposition: rapid.Bool().Draw(t, "reposition")}
	if err := ms.seq.Retain(w.s, kept, o); err != nil {
		require.ErrorIs(t, err, ErrOutOfBlocks{})
		return
	}
	ms.kept(func(layer, i int) int { return kept[min(layer, len(kept)-1)][i] })
}

func (w *windowWeigher) Clear(t *rapid.T) {
	ms := w.pick(t)
	require.NoError(t, ms.seq.ClearScores(w.s))
	for _, scores := range ms.scores {
		clear(scores)
	}
}

func (w *windowWeigher) Release(t *rapid.T) {
	ms := w.pick(t)
	require.NoError(t, ms.seq.Release())
	w.seqs = slices.DeleteFunc(w.seqs, func(o *weighedSeq) bool { return o == ms })
}

func (w *windowWeigher) Read(t *rapid.T) {
	ms := w.pick(t)
	w.t = t
	w.weighed(ms)
}

func (w *windowWeigher) weighed(ms *weighedSeq) {
	c, n := w.pool.Config(), ms.seq.Len()
	got := make([]float32, c.Model.Layers*c.Model.KVHeads*n)
	require.NoError(w.t, ms.seq.Scores(w.s, 0, got))
	for l, scores := range ms.scores {
		require.Len(w.t, scores, n)
		for h := range c.Model.KVHeads {
			for i, score := range scores {
				have, group := float64(got[(l*c.Model.KVHeads+h)*n+i]), float64(c.Model.QHeads/c.Model.KVHeads)
				most := score
				if w.forks {
					most = w.given[givenTo{l, ms.ids[i]}]
				}
				require.True(w.t, have >= group*score-1e-4*(1+score) && have <= group*most+1e-4*(1+most),
					"layer %d head %d token %d of %d has %v, want %v to %v; %d blocks quantized, recent from %d",
					l, h, i, n, have, group*score, group*most, len(ms.seq.runs.In[0].Kept.Blocks), ms.seq.runs.In[0].Written.From)
			}
		}
	}
}

func (w *windowWeigher) check(t *rapid.T) {
	require.NoError(t, w.pool.Check())
}

func (w *windowWeigher) finish(t *rapid.T) {
	w.t = t
	for _, ms := range w.seqs {
		w.weighed(ms)
		require.NoError(t, ms.seq.Release())
	}
	require.NoError(t, w.s.Sync())
	require.NoError(t, w.step.Reset())
	require.NoError(t, w.pool.Close())
	require.NoError(t, w.s.Close())
}

// Scores of tokens that lie in two places are the mass that they got since they were written, wherever a
// query read them and whatever became of their sequence.
func TestWindowScoresAgainstLists(t *testing.T) {
	be := openDevice(t)
	formats := windowFormats(backend.F32)
	if len(formats) == 0 {
		t.Skip("the device has no format for it")
	}
	run := func(t *rapid.T, forks bool) {
		cfg := windowConfig(rapid.SampledFrom(formats).Draw(t, "format"))
		cfg.Attention.Scores = true
		if forks {
			cfg.Memory.Prefix = prefix.Off // else a block of equal tokens takes the place of another, and its scores do
		}
		cfg.Storage.SkipLayers = rapid.SampledFrom([][]int{nil, {0}, {1}}).Draw(t, "exact layers")
		cfg.Storage.Residual = rapid.SampledFrom([]int{1, 4, 6, 9}).Draw(t, "window")
		cfg.Memory.Blocks = rapid.SampledFrom([]int{20, 80}).Draw(t, "blocks")
		if !forks { // which have copies of their own of what they share, in a long step
			cfg.Memory.StepTokens = rapid.SampledFrom([]int{1, 10, cfg.Memory.StepTokens}).Draw(t, "step tokens")
		}
		dev := newLateDevice(be, backendtest.LateOptions{Seed: rapid.Uint64().Draw(t, "seed")})
		w := &windowWeigher{rig: newRig(t, dev, cfg), forks: forks, given: map[givenTo]float64{}}
		actions := map[string]func(*rapid.T){
			"open": w.Open, "step": w.Step, "step again": w.Step, "step and again": w.Step,
			"release": w.Release, "read": w.Read, "": w.check,
		}
		if forks {
			actions["fork"] = w.Fork
		} else {
			actions["truncate"], actions["shift"], actions["keep"], actions["clear"] = w.Truncate, w.Shift, w.Keep, w.Clear
		}
		t.Repeat(actions)
		w.finish(t)
		require.NoError(t, dev.late.Drain())
	}
	t.Run("alone", leavesNothing(be, func(t *rapid.T) { run(t, false) }))
	t.Run("forks", leavesNothing(be, func(t *rapid.T) { run(t, true) }))
	require.NoError(t, be.Close())
}

// The mass of single slots cannot be had, and scores cost a bounded number of calls.
func TestCallsOfWindowScores(t *testing.T) {
	formats := windowFormats(backend.F32)
	if len(formats) == 0 {
		t.Skip("the device has no format for it")
	}
	be := &counter{Backend: openDevice(t)}
	cfg := windowConfig(formats[0])
	cfg.Attention.Scores = true
	r := newRig(t, be, cfg)
	c := r.pool.Config()
	a := r.open()
	q, k, v, out := r.operands(30)
	step := func(first, n int) {
		t.Helper()
		*be = counter{Backend: be.Backend}
		require.NoError(t, r.plan(r.s, feed[buffer]{a, sequence(first, n)}))
		for l := range c.Model.Layers {
			require.NoError(t, r.step.Append(l, qkv(q, k, v)))
			require.NoError(t, r.step.Attend(l, attending(q, out)))
		}
		require.ErrorIs(t, r.step.Attend(0, attendingTo(backend.Dense(q), backend.Outputs[buffer]{Rows: backend.Dense(out), Scores: backend.Some(out)})), backend.ErrUnsupported{})
		require.NoError(t, r.step.Commit())
	}
	step(1, 30)
	require.Equal(t, counter{Backend: be.Backend, clears: c.Model.Layers, weighs: 2 * c.Model.Layers, copies: 2 * c.Model.Layers}, *be, "a prompt")
	for i := range 20 {
		step(31+i, 1)
		require.Equal(t, counter{Backend: be.Backend, clears: c.Model.Layers, weighs: 2 * c.Model.Layers}, *be, "a token")
	}
	*be = counter{Backend: be.Backend}
	scores := make([]float32, c.Model.Layers*c.Model.KVHeads*a.Len())
	require.NoError(t, a.Scores(r.s, 0, scores))
	require.Equal(t, counter{Backend: be.Backend, gathers: 2 * c.Model.Layers, downloads: 1}, *be, "all scores")
	sum := float32(0)
	for _, x := range scores {
		sum += x
	}
	require.InDelta(t, c.Model.Layers*c.Model.QHeads*50, sum, 1e-2, "what each query gave")
	require.NoError(t, a.ClearScores(r.s))
	require.Equal(t, counter{Backend: be.Backend, gathers: 2 * c.Model.Layers, downloads: 1, clears: 2 * c.Model.Layers}, *be)
	r.free(q, k, v, out)
	require.NoError(t, a.Release())
	r.close()
}

// Scores are read while others attend to what is shared: one after another.
func TestWindowScoresAreReadBesideAttention(t *testing.T) {
	r := windowRig(t, openDevice(t), func(c *Config) { c.Attention.Scores = true })
	a := r.open()
	require.NoError(t, r.feed(feed[buffer]{a, sequence(1, 30)}))
	b, err := a.Fork()
	require.NoError(t, err)
	s2, err := r.be.NewStream()
	require.NoError(t, err)
	require.NoError(t, r.plan(r.s, feed[buffer]{a, sequence(100, 1)}))
	q, k, v, out := r.operands(1)
	done := make(chan error)
	go func() {
		var err error
		dst := make([]float32, r.pool.cfg.Model.Layers*r.pool.cfg.Model.KVHeads*30)
		for range 50 {
			err = cmp.Or(err, b.Scores(s2, 0, dst), b.ClearScores(s2))
		}
		done <- err
	}()
	for l := range r.pool.cfg.Model.Layers {
		require.NoError(t, r.step.Append(l, qkv(q, k, v)))
		for range 50 {
			require.NoError(t, r.step.Attend(l, attending(q, out)))
		}
	}
	require.NoError(t, <-done)
	require.NoError(t, cmp.Or(r.step.Commit(), r.step.Reset(), a.Release(), b.Release(), s2.Close()))
	r.free(q, k, v, out)
	r.close()
}
