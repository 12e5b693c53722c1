package kvcache

import (
	"cmp"
	"errors"
	"sync"
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/stretchr/testify/require"
)

func TestScoresRefused(t *testing.T) {
	r := deviceRig(t, small(Paged))
	a := r.open()
	require.NoError(t, r.feed(feed[buffer]{a, sequence(1, 3)}))
	require.ErrorIs(t, a.Scores(r.s, 0, make([]float32, 6)), backend.ErrUnsupported{})
	require.ErrorIs(t, a.ClearScores(r.s), backend.ErrUnsupported{})
	require.NoError(t, a.Release())
	r.close()

	cfg := small(Paged)
	cfg.Attention.Scores = true
	r = deviceRig(t, cfg)
	a = r.open()
	require.NoError(t, r.feed(feed[buffer]{a, sequence(1, 3)}))
	require.ErrorIs(t, a.Scores(r.s, 2, make([]float32, 6)), backend.ErrArgument{})
	require.ErrorIs(t, a.Scores(r.s, -1, make([]float32, 6)), backend.ErrArgument{})
	require.ErrorIs(t, a.Scores(r.s, 0, make([]float32, 5)), backend.ErrArgument{})
	require.ErrorIs(t, a.Scores(r.s, 0, nil), backend.ErrArgument{})
	require.ErrorIs(t, a.Scores(nil, 0, make([]float32, 6)), backend.ErrArgument{})
	require.ErrorIs(t, a.ClearScores(nil), backend.ErrArgument{})
	require.NoError(t, r.step.Reset())
	require.NoError(t, r.step.Add(a, []uint32{4}))
	require.ErrorIs(t, a.Scores(r.s, 0, make([]float32, 6)), ErrBusy)
	require.NoError(t, r.step.Reset())
	require.NoError(t, a.Scores(r.s, 0, make([]float32, 6)))
	require.NoError(t, a.Release())
	require.ErrorIs(t, a.Scores(r.s, 0, nil), ErrReleased)
	r.close()
}

// AccumulateScores holds for the steps planned from then on, and mass goes where LayerIO
// says, if it does.
func TestScoresAreAccumulatedOnRequest(t *testing.T) {
	cfg := small(Paged)
	cfg.Attention.Scores = true
	r := deviceRig(t, cfg)
	c := r.pool.Config()
	a := r.open()
	q, k, v, out := r.operands(1)
	mine, err := r.be.Alloc(backend.F32, c.Memory.Blocks*c.Model.KVHeads*c.BlockTokens())
	require.NoError(t, err)
	require.NoError(t, r.be.Fill(r.s, mine, 0, mine.Len(), 0))
	step := func(change func(), to backend.Outputs[buffer]) {
		require.NoError(t, r.plan(r.s, feed[buffer]{a, sequence(1, 1)}))
		change()
		to.Rows = backend.Dense(out)
		for l := range c.Model.Layers {
			require.NoError(t, r.step.Append(l, rotated(q, k, v)))
		}
		require.NoError(t, r.step.Attend(0, attendingTo(backend.Dense(q), to)))
		require.NoError(t, r.step.Commit())
	}
	scores := func() (sum float64) {
		got := make([]float32, c.Model.KVHeads*a.Len())
		require.NoError(t, a.Scores(r.s, 0, got))
		for _, x := range got {
			sum += float64(x)
		}
		return sum
	}
	step(func() {}, backend.Outputs[buffer]{})
	require.InDelta(t, c.Model.QHeads, scores(), 1e-5)
	r.step.AccumulateScores(false)
	step(func() { r.step.AccumulateScores(true) }, backend.Outputs[buffer]{})
	require.InDelta(t, c.Model.QHeads, scores(), 2*float64(c.Model.QHeads), "what is asked for in between, a device may do or not")
	before := scores()
	step(func() { r.step.AccumulateScores(false) }, backend.Outputs[buffer]{})
	require.InDelta(t, before, scores(), 1e-5)
	r.step.AccumulateScores(true)
	step(func() {}, backend.Outputs[buffer]{Scores: backend.Some(mine)})
	require.InDelta(t, before, scores(), 1e-5)
	sum := 0.0
	for _, x := range r.download(mine) {
		sum += float64(x)
	}
	require.InDelta(t, c.Model.QHeads, sum, 1e-5)
	r.free(q, k, v, out, mine)
	require.NoError(t, a.Release())
	r.close()
}

// Who goes on from the middle of a block that is found in the cache begins with no mass
// behind his tokens.
func TestScoresOfReusedBlocks(t *testing.T) {
	cfg := small(Paged)
	cfg.Attention.Scores = true
	r := deviceRig(t, cfg)
	c := r.pool.Config()
	attended := func(x *reader[buffer], ids []uint32) {
		n := len(ids)
		q, k, v, out := r.operands(n)
		p := part[buffer]{x, ids}
		require.NoError(t, r.enqueue(r.s, p))
		for l := range c.Model.Layers {
			require.NoError(t, r.step.Attend(l, attending(q, out)))
		}
		require.NoError(t, r.committed(p))
		r.free(q, k, v, out)
	}
	a, _ := r.read(sequence(1, 12), OpenOptions{})
	attended(a, sequence(1, 12))
	require.NoError(t, a.seq.ClearScores(r.s))
	attended(a, sequence(13, 1)) // gives each token 1/13
	b, m := r.read(append(sequence(1, 10), 99, 98), OpenOptions{})
	require.Equal(t, 10, m.Cached)
	attended(b, []uint32{99, 98})
	got := make([]float32, c.Model.KVHeads*12)
	require.NoError(t, b.seq.Scores(r.s, 1, got))
	for h := range c.Model.KVHeads {
		for i, x := range got[h*12:][:12] {
			want := 1.0/13 + 1.0/11 + 1.0/12
			switch i {
			case 10:
				want = 1.0/11 + 1.0/12
			case 11:
				want = 1.0 / 12
			}
			require.InDelta(t, want*float64(c.Model.QHeads/c.Model.KVHeads), x, 1e-5, "token %d", i)
		}
	}
	require.NoError(t, errors.Join(a.seq.Release(), b.seq.Release()))
	r.close()
}

// Forks that attend at the same time, each in a step of its own, add to the scores of the
// blocks they share, and none of it is lost.
func TestScoresOfForksInParallel(t *testing.T) {
	cfg := small(Paged)
	cfg.Attention.Scores, cfg.Model.Layers, cfg.Memory.Blocks, cfg.Memory.Capacity = true, 1, 60, 200
	r := deviceRig(t, cfg)
	c := r.pool.Config()
	root := r.open()
	require.NoError(t, r.feed(feed[buffer]{root, sequence(1, 64)}))
	require.NoError(t, r.s.Sync())
	const forks, steps = 4, 20
	var wg sync.WaitGroup
	var seqs [forks]*Sequence[buffer]
	for i := range forks {
		seq, err := root.Fork()
		require.NoError(t, err)
		seqs[i] = seq
		s, err := r.be.NewStream()
		require.NoError(t, err)
		own := r.on(s)
		q, k, v, out := own.operands(1)
		wg.Add(1)
		go func() {
			defer wg.Done()
			for n := range steps {
				err := own.plan(s, feed[buffer]{seq, sequence(1000*i+n, 1)})
				err = cmp.Or(err, own.step.Append(0, kv(k, v)))
				err = cmp.Or(err, own.step.Attend(0, attending(q, out)))
				if err = cmp.Or(err, own.step.Commit()); err != nil {
					t.Error(err)
				}
			}
			err := errors.Join(own.step.Close(), s.Close(), own.be.Free(q), own.be.Free(k), own.be.Free(v), own.be.Free(out))
			if err != nil {
				t.Error(err)
			}
		}()
	}
	wg.Wait()
	got := make([]float32, c.Model.KVHeads*64)
	require.NoError(t, root.Scores(r.s, 0, got))
	want := 0.0
	for n := range steps {
		want += forks * float64(c.Model.QHeads/c.Model.KVHeads) / float64(65+n)
	}
	for i, x := range got {
		require.InDelta(t, want, x, 1e-4, "token %d", i%64)
	}
	for _, seq := range seqs {
		require.NoError(t, seq.Release())
	}
	require.NoError(t, root.Release())
	r.close()
}

// counter is a device that counts calls.
type counter struct {
	backend.Backend[buffer]
	clears, gathers, downloads, fills int
	weighs, copies                    int
}

func (c *counter) AttendScores(s backend.Stream, p backend.AttendScoresParams[buffer]) error {
	c.weighs++
	return c.Backend.AttendScores(s, p)
}

func (c *counter) CopyBlocks(s backend.Stream, p backend.CopyBlocksParams[buffer]) error {
	c.copies++
	return c.Backend.CopyBlocks(s, p)
}

func (c *counter) ClearScores(s backend.Stream, p backend.ClearScoresParams[buffer]) error {
	c.clears++
	return c.Backend.ClearScores(s, p)
}

func (c *counter) Gather(s backend.Stream, p backend.GatherParams[buffer]) error {
	c.gathers++
	return c.Backend.Gather(s, p)
}

func (c *counter) Download(s backend.Stream, dst []byte, src buffer, off int) error {
	c.downloads++
	return c.Backend.Download(s, dst, src, off)
}

func (c *counter) Fill(s backend.Stream, dst buffer, off, n int, v float64) error {
	c.fills++
	return c.Backend.Fill(s, dst, off, n, v)
}

// The scores of a sequence of any length cost a call for each layer where tokens are written, where
// scores are cleared and where they are read, and one download.
func TestCallsOfScores(t *testing.T) {
	const layers, tokens = 32, 4096
	be := &counter{Backend: openDevice(t)}
	r := newRig(t, be, Config{
		Model:     Model{Layers: layers, QHeads: 2, KVHeads: 1, HeadDim: 64, RoPE: &backend.RoPE{}},
		Storage:   Storage{K: backend.F16},
		Memory:    Memory{Layout: Paged, BlockSize: 16, Capacity: tokens, MaxSeqs: 1},
		Attention: Attention{Scores: true},
	})
	a := r.open()
	*be = counter{Backend: be.Backend}
	require.NoError(t, r.feed(feed[buffer]{a, sequence(1, tokens)}))
	require.Equal(t, counter{Backend: be.Backend, clears: layers}, *be, "a prompt")
	require.NoError(t, a.Scores(r.s, 0, make([]float32, layers*tokens)))
	require.Equal(t, counter{Backend: be.Backend, clears: layers, gathers: layers, downloads: 1}, *be, "all scores")
	require.NoError(t, a.ClearScores(r.s))
	require.Equal(t, counter{Backend: be.Backend, clears: 2 * layers, gathers: layers, downloads: 1}, *be)
	require.NoError(t, a.Release())
	r.close()
}
