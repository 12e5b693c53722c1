package kvcache

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
)

// fixedSeqs is the sequences of all steps of a fixed batch in these tests.
const fixedSeqs = 4

// script is a run of decode steps in which sequences come, fork, and go. Steps of a fixed batch
// have NaN in the rows of sequences that are not there.
type script struct {
	*rig[buffer]
	fixed, replayed bool
	captured        bool
	operands        [4]buffer // q, k, v, out
	seqs            []*Sequence[buffer]
	out             [][]float32 // of each layer of each step, the rows that are there
	scores          [][]float32 // of each sequence in the end
}

// opening is a script on a device of its own. Capturing needs a device that can.
func opening(t *testing.T, cfg Config, fixed, replayed bool) *script {
	s := &script{rig: deviceRig(t, cfg), fixed: fixed, replayed: replayed}
	c, n := s.pool.Config(), fixedSeqs*cfg.Model.Layers
	for i, width := range []int{c.Model.QHeads * c.Model.HeadDim, c.Model.KVHeads * c.Model.HeadDim, c.Model.KVHeads * c.Model.VHeadDim, c.Model.QHeads * c.Model.VHeadDim} {
		s.operands[i] = s.vector(s.s, make([]float32, n*width))
	}
	if fixed {
		require.NoError(t, s.step.FixShape(fixedSeqs, 1))
	}
	return s
}

// decode runs a step of one token for each of the script's sequences.
func (s *script) decode(turn uint32) {
	n, c := len(s.seqs), s.pool.Config()
	require.NoError(s.t, s.step.Reset())
	var ids []uint32
	for i, seq := range s.seqs {
		ids = append(ids, 100*turn+uint32(i))
		require.NoError(s.t, s.step.Add(seq, ids[i:]))
	}
	require.NoError(s.t, s.step.Plan(s.s))
	for i, width := range []int{c.Model.QHeads * c.Model.HeadDim, c.Model.KVHeads * c.Model.HeadDim, c.Model.KVHeads * c.Model.VHeadDim} {
		for l := range c.Model.Layers {
			host := rows(ids, l+10*i, width, 1, i == 2)
			for len(host) < fixedSeqs*width {
				host = append(host, float32(math.NaN()))
			}
			require.NoError(s.t, backend.Upload(s.be, s.s, s.operands[i], l*fixedSeqs*width, host))
		}
	}
	switch {
	case s.replayed && !s.captured:
		require.NoError(s.t, s.step.Capture(s.layers))
		require.ErrorIs(s.t, s.step.Commit(), ErrStep{}, "a capture runs nothing")
		s.captured = true
		fallthrough
	case s.replayed:
		require.NoError(s.t, s.step.Replay())
	default:
		require.NoError(s.t, s.layers())
	}
	width := c.Model.QHeads * c.Model.VHeadDim
	for l := range c.Model.Layers {
		out := make([]float32, fixedSeqs*width)
		require.NoError(s.t, backend.Download(s.be, s.s, out, s.operands[3], l*fixedSeqs*width))
		s.out = append(s.out, out[:n*width])
		if s.fixed {
			require.Equal(s.t, make([]float32, len(out)-n*width), out[n*width:], "rows of sequences that are not there")
		}
	}
	require.NoError(s.t, s.step.Commit())
}

// layers enqueues the layers of a step.
func (s *script) layers() error {
	c := s.pool.Config()
	part := func(i, layer, width int) backend.Rows[buffer] {
		return backend.Rows[buffer]{Buf: s.operands[i], Offset: layer * fixedSeqs * width}
	}
	var err error
	for l := range c.Model.Layers {
		q := part(0, l, c.Model.QHeads*c.Model.HeadDim)
		err = errors.Join(err, s.step.Append(l, LayerIO[buffer]{Q: q, K: part(1, l, c.Model.KVHeads*c.Model.HeadDim), V: part(2, l, c.Model.KVHeads*c.Model.VHeadDim), Rotate: true}),
			s.step.Attend(l, attendingTo(q, backend.Outputs[buffer]{Rows: part(3, l, c.Model.QHeads*c.Model.VHeadDim)})))
	}
	return err
}

// run plays the script and closes it.
func (s *script) run() [][]float32 {
	s.seqs = append(s.seqs, s.open())
	for turn := range uint32(24) {
		switch turn {
		case 9, 14: // two forks of nine and fourteen tokens, and somebody else
			fork, err := s.seqs[0].Fork()
			require.NoError(s.t, err)
			s.seqs = append(s.seqs, fork)
		case 17:
			s.seqs = append(s.seqs, s.open())
		case 12:
			if s.pool.cfg.Attention.Scores { // and goes on where the window is behind what is quantized
				require.NoError(s.t, s.seqs[0].Truncate(s.seqs[0].Len()-3))
			}
		case 20:
			require.NoError(s.t, s.seqs[0].Release())
			s.seqs = s.seqs[1:]
		}
		s.decode(turn)
	}
	for _, seq := range s.seqs {
		if c := s.pool.Config(); c.Attention.Scores {
			scores := make([]float32, c.Model.Layers*c.Model.KVHeads*seq.Len())
			require.NoError(s.t, seq.Scores(s.s, 0, scores))
			s.scores = append(s.scores, scores)
		}
		require.NoError(s.t, seq.Release())
	}
	require.NoError(s.t, s.step.Close())
	s.free(s.operands[:]...)
	s.close()
	return s.out
}

// sameScores compares those of two scripts that are over, up to the order of sums.
func (s *script) sameScores(other *script) {
	require.Len(s.t, other.scores, len(s.scores))
	for i := range s.scores {
		require.InDeltaSlice(s.t, s.scores[i], other.scores[i], 1e-4, "sequence %d", i)
	}
}

// Steps of one size, with empty sequences, give what steps of their own sizes give, and where
// they are captured and replayed the very same.
func TestFixedSteps(t *testing.T) {
	run := func(name string, cfg Config) {
		t.Run(name, func(t *testing.T) {
			free, same := opening(t, cfg, false, false), opening(t, cfg, true, false)
			want, fixed := free.run(), same.run()
			free.sameScores(same)
			require.Len(t, fixed, len(want))
			for i := range want {
				require.InDeltaSlice(t, want[i], fixed[i], 1e-5)
			}
			if captures(t, cfg) {
				replayed := opening(t, cfg, true, true)
				require.Equal(t, fixed, replayed.run())
				free.sameScores(replayed)
			}
		})
	}
	for _, shared := range []int{-1, 0, 4} {
		for _, layout := range []Layout{Contiguous, Paged} {
			cfg := small(layout)
			cfg.Attention.MinShared = shared
			run(fmt.Sprint(layout, " MinShared ", shared), cfg)
		}
		for _, f := range windowFormats(backend.F32)[:1] { // blocks are quantized in captured steps, or none are
			cfg := windowConfig(f)
			cfg.Storage.Residual, cfg.Attention.MinShared, cfg.Storage.SkipLayers = 2, shared, []int{1}
			run(fmt.Sprint("Residual MinShared ", shared), cfg)
			cfg.Attention.Scores = true
			run(fmt.Sprint("Residual, Scores, MinShared ", shared), cfg)
		}
	}
}

// captures tells whether the test device has graphs.
func captures(t *testing.T, cfg Config) bool {
	r := deviceRig(t, cfg)
	graph, err := backend.Capture(r.be, r.s, func() error { return nil })
	if err == nil {
		require.NoError(t, graph.Close())
	}
	require.NoError(t, r.step.Close())
	r.close()
	if !errors.Is(err, backend.ErrUnsupported{}) {
		require.NoError(t, err)
	}
	return err == nil
}

// What was captured is replayed only for steps that are the same: of its size, on its stream, with
// its outputs. A layer that is left out is noticed.
func TestReplayMisuse(t *testing.T) {
	cfg := small(Paged)
	if !captures(t, cfg) {
		r := deviceRig(t, cfg)
		a := r.open()
		require.NoError(t, r.step.FixShape(1, 1))
		require.NoError(t, r.plan(r.s, feed[buffer]{a, []uint32{1}}))
		require.ErrorIs(t, r.step.Capture(func() error { return nil }), backend.ErrUnsupported{})
		require.ErrorIs(t, r.step.Replay(), ErrStep{})
		require.NoError(t, errors.Join(r.step.Reset(), a.Release(), r.step.Close()))
		r.close()
		return
	}
	s := opening(t, cfg, true, true)
	s.seqs = append(s.seqs, s.open())
	s.decode(1)
	plan := func(stream backend.Stream) {
		require.NoError(t, s.step.Reset())
		require.NoError(t, s.step.Add(s.seqs[0], []uint32{7}))
		require.NoError(t, s.step.Plan(stream))
	}
	other, err := s.be.NewStream()
	require.NoError(t, err)
	plan(other)
	require.ErrorIs(t, s.step.Replay(), ErrStep{}, "another stream")
	s.step.AccumulateScores(true)
	plan(s.s)
	require.ErrorIs(t, s.step.Replay(), ErrStep{}, "with attention scores")
	s.step.AccumulateScores(false)
	failed := errors.New("of a layer")
	plan(s.s)
	require.ErrorIs(t, s.step.Capture(func() error { return failed }), failed)
	require.ErrorIs(t, s.step.Replay(), ErrStep{}, "what was captured before is gone")
	require.ErrorIs(t, s.step.Capture(func() error { return nil }), ErrStep{}, "no layer is written")
	require.ErrorIs(t, s.step.Replay(), ErrStep{})
	require.NoError(t, s.step.Capture(s.layers))
	require.NoError(t, s.step.Replay())
	require.NoError(t, s.step.Commit())
	require.NoError(t, s.step.Reset())
	require.NoError(t, s.step.FixShape(fixedSeqs, 1))
	plan(s.s)
	require.ErrorIs(t, s.step.Replay(), ErrStep{}, "Fix forgets")
	require.NoError(t, s.step.Capture(s.layers))
	require.NoError(t, s.step.Reset())
	require.NoError(t, errors.Join(s.seqs[0].Release(), s.step.Close(), other.Close()))
	s.free(s.operands[:]...)
	s.close()
}

// spy notes what plans were asked for.
type spy struct {
	backend.Backend[buffer]
	shapes []backend.AttendShape
}

func (s *spy) PlanAttend(shape backend.AttendShape) (backend.AttendPlan, error) {
	noted := shape
	noted.Table = slices.Clone(shape.Table)
	s.shapes = append(s.shapes, noted)
	return s.Backend.PlanAttend(shape)
}

// Plans get the tables of the step, where common prefixes may be read once.
func TestPlansGetTables(t *testing.T) {
	for minShared, want := range map[int]bool{-1: false, 0: true, 4: true} {
		for _, fix := range []bool{false, true} {
			cfg := small(Paged)
			cfg.Attention.MinShared = minShared
			watched := &spy{Backend: openDevice(t)}
			r := newRig[buffer](t, watched, cfg)
			a := r.open()
			require.NoError(t, r.feed(feed[buffer]{a, sequence(1, 9)}))
			b, err := a.Fork()
			require.NoError(t, err)
			if fix {
				require.NoError(t, r.step.Reset())
				require.NoError(t, r.step.FixShape(3, 1))
			}
			require.NoError(t, r.plan(r.s, feed[buffer]{a, []uint32{5}}, feed[buffer]{b, []uint32{6}}))
			require.NoError(t, r.commit())
			shape := watched.shapes[len(watched.shapes)-1]
			require.Equal(t, fix, shape.Fixed)
			require.Equal(t, max(minShared, 0), shape.MinShared)
			if fix && minShared == 0 {
				want = false
			}
			if !want {
				require.Nil(t, shape.Table)
			} else {
				require.Equal(t, shape.Table[:2], shape.Table[shape.TableStride:][:2], "two whole blocks of the fork")
				require.NotEqual(t, shape.Table[2], shape.Table[shape.TableStride+2])
				require.Len(t, shape.Table, len(shape.ContextLens)*shape.TableStride)
			}
			require.NoError(t, errors.Join(a.Release(), b.Release(), r.step.Close()))
			r.close()
		}
	}
}

// Plans ask for scores where there is a place for them: with two stores that is the pool's own alone.
func TestPlansAskForScores(t *testing.T) {
	for _, c := range []struct {
		residual           int
		kept, asked, wants bool
	}{{0, false, false, false}, {0, false, true, true}, {0, true, true, true}, {8, false, true, false}, {8, true, true, true}} {
		cfg := small(Paged)
		if cfg.Attention.Scores, cfg.Storage.Residual = c.kept, c.residual; c.residual > 0 {
			cfg.Storage.K, cfg.Storage.V = backend.Int8, backend.Int8
		}
		watched := &spy{Backend: openDevice(t)}
		r := newRig[buffer](t, watched, cfg)
		r.step.AccumulateScores(c.asked)
		a := r.open()
		require.NoError(t, r.feed(feed[buffer]{a, sequence(1, 9)}))
		require.NotEmpty(t, watched.shapes)
		for _, shape := range watched.shapes {
			require.Equal(t, c.wants, shape.Scores, "%+v", c)
		}
		require.NoError(t, errors.Join(a.Release(), r.step.Close()))
		r.close()
	}
}

// The size of a batch is kept to.
func TestFixedMisuse(t *testing.T) {
	r := deviceRig(t, small(Paged))
	a, b, c := r.open(), r.open(), r.open()
	require.ErrorIs(t, r.step.FixShape(2, 0), backend.ErrArgument{})
	require.ErrorIs(t, r.step.FixShape(-1, 1), backend.ErrArgument{})
	require.ErrorIs(t, r.step.FixShape(2, 41), backend.ErrArgument{}, "more than a sequence has")
	require.ErrorIs(t, r.step.FixShape(41, 1), backend.ErrArgument{}, "more than there are blocks")
	require.ErrorIs(t, r.step.FixShape(math.MaxInt, 2), backend.ErrArgument{})
	require.ErrorIs(t, r.step.Replay(), ErrStep{}, "not planned")
	require.ErrorIs(t, r.step.Capture(nil), ErrStep{}, "not planned")
	require.NoError(t, r.step.FixShape(2, 2))
	require.ErrorIs(t, r.step.Add(a, []uint32{1}), backend.ErrArgument{})
	require.NoError(t, r.step.Add(a, []uint32{1, 2}))
	require.ErrorIs(t, r.step.FixShape(3, 1), ErrStep{})
	require.NoError(t, r.step.Add(b, []uint32{1, 2}))
	require.ErrorIs(t, r.step.Add(c, []uint32{1, 2}), backend.ErrArgument{})
	require.NoError(t, r.step.Reset())
	require.NoError(t, r.step.FixShape(0, 0))
	require.NoError(t, r.feed(feed[buffer]{c, []uint32{1, 2, 3}}))
	require.NoError(t, r.plan(r.s, feed[buffer]{a, []uint32{1}}))
	require.ErrorIs(t, r.step.Replay(), ErrStep{}, "steps that differ")
	require.ErrorIs(t, r.step.Capture(nil), backend.ErrArgument{})
	differ := error(ErrStep{})
	if !captures(t, small(Paged)) {
		differ = backend.ErrUnsupported{} // to Fix the size would not help
	}
	require.ErrorIs(t, r.step.Capture(func() error { return nil }), differ, "steps that differ")
	require.NoError(t, errors.Join(r.step.Reset(), a.Release(), b.Release(), c.Release(), r.step.Close()))
	r.close()
}
