package schedule

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/cpu"
	"github.com/ferrumkv/ferrumkv/kvcache"
	"github.com/ferrumkv/ferrumkv/kvcache/group"
	"github.com/stretchr/testify/require"
)

// testT is what testing.T, testing.B and rapid.T have in common.
type testT interface {
	require.TestingT
	Helper()
}

// rig is a scheduler over a fake model, and all that it was asked.
type rig struct {
	t       testT
	be      backend.Backend[buffer]
	pool    *kvcache.Pool[buffer]
	batch   *kvcache.Batch[buffer]
	stream  backend.Stream
	model   *fake
	s       *Scheduler[buffer]
	answers []*given

	patience time.Duration // that Run has
}

// given is a request, and what came of it.
type given struct {
	Request
	*Answer
	cancel  context.CancelFunc
	touched bool // cancelled, or hit by an error: it may end before its end
	most    int  // blocks that it can have
}

// small is a pool of a few small blocks.
func small(blocks int) kvcache.Config {
	return kvcache.Config{
		Model:   kvcache.Model{Layers: 1, KVHeads: 1, HeadDim: dim, Act: backend.F32},
		Storage: kvcache.Storage{K: backend.F32},
		Memory:  kvcache.Memory{Layout: kvcache.Paged, BlockSize: 4, Blocks: blocks, Capacity: 64, MaxSeqs: 8},
	}
}

func openCPU(t testT) backend.Backend[buffer] {
	t.Helper()
	be, err := cpu.Open(cpu.Options{Threads: 1})
	require.NoError(t, err)
	return be
}

func newRig(t testT, be backend.Backend[buffer], cfg kvcache.Config, o Options) *rig {
	t.Helper()
	pool, err := kvcache.NewPool(be, cfg)
	require.NoError(t, err)
	stream, err := be.NewStream()
	require.NoError(t, err)
	r := &rig{t: t, be: be, patience: time.Minute, pool: pool, batch: pool.NewBatch(), stream: stream, model: &fake{be: be, stream: stream}}
	for _, g := range cfg.Model.Groups {
		if g.Kind == group.Window {
			r.model.more = g.Layers
		}
	}
	r.s, err = New[buffer](r.model, pool, r.batch, stream, o)
	require.NoError(t, err)
	return r
}

// submit submits a request, and reports whether it was taken.
func (r *rig) submit(q Request) *given {
	r.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	a, err := r.s.Submit(ctx, q)
	require.NoError(r.t, err)
	g := &given{Request: q, Answer: a, cancel: cancel, most: r.pool.Config().Memory.Blocks}
	r.answers = append(r.answers, g)
	return g
}

// drain runs until everything that was submitted is answered.
func (r *rig) drain() {
	r.t.Helper()
	r.s.Drain()
	r.run(context.Background())
}

func (r *rig) run(ctx context.Context) {
	r.t.Helper()
	hangs := time.AfterFunc(r.patience, func() {
		for _, g := range r.answers {
			fmt.Printf("%+v\n", g.Report())
		}
		panic(fmt.Sprintf("Run does not end: %+v", r.s.Stats()))
	})
	defer hangs.Stop()
	if err := r.s.Run(ctx); err != nil || ctx.Err() == nil { // which may have ended after the last answer
		require.ErrorIs(r.t, err, context.Cause(ctx))
	}
}

// check checks an answer: it is what it would be alone, or its beginning.
func (g *given) check(t testT, capacity int) {
	t.Helper()
	select {
	case <-g.Done():
	default:
		require.Fail(t, "not answered")
	}
	report := g.Report()
	want, reason := alone(&g.Request, capacity)
	var got []uint32
	var last error
	for token, err := range g.Tokens() {
		require.NoError(t, last, "a token after an error")
		if last = err; err == nil {
			got = append(got, token)
		}
	}
	require.Equal(t, report.Err, last)
	require.Len(t, got, report.Tokens)
	if short := (kvcache.ErrOutOfBlocks{}); errors.As(report.Err, &short) && g.most > 0 {
		require.Greater(t, (len(g.Prompt)+len(want)+2)/4, g.most, "%v", report)
	} else if report.Reason == Cancelled || report.Reason == Failed {
		require.True(t, g.touched, "%v: %v", report.Reason, report.Err)
	}
	if report.Err != nil {
		require.Contains(t, []Reason{Cancelled, Failed}, report.Reason)
		require.Equal(t, append([]uint32(nil), want[:min(len(got), len(want))]...), got)
		return
	}
	require.Equal(t, want, got, fmt.Sprintf("%+v", report))
	require.Equal(t, reason, report.Reason)
	require.NoError(t, report.Err)
}

// close checks the answers, and that nothing is left.
func (r *rig) close() {
	r.t.Helper()
	ended := int64(0)
	for _, g := range r.answers {
		g.check(r.t, r.pool.Config().Memory.Capacity)
		g.cancel()
	}
	stats := r.s.Stats()
	for _, n := range stats.Ended {
		ended += n
	}
	require.EqualValues(r.t, len(r.answers), ended)
	require.Zero(r.t, stats.Running+stats.Waiting+stats.Suspended+stats.Loading)
	require.NoError(r.t, r.stream.Sync())
	r.settle()
	require.NoError(r.t, r.pool.Check())
	require.NoError(r.t, r.batch.Close())
	require.NoError(r.t, r.pool.Close())
	require.NoError(r.t, r.stream.Close())
	require.Zero(r.t, r.be.Info().Buffers)
	require.NoError(r.t, r.be.Close())
}

// settle waits until tiers have let go of blocks, and checks that nobody else has any.
func (r *rig) settle() {
	r.t.Helper()
	require.NoError(r.t, r.pool.Flush(context.Background()))
	for {
		st, err := r.pool.Stats()
		require.NoError(r.t, err)
		if st.Moves.Loading > 0 {
			time.Sleep(time.Millisecond)
			continue
		}
		require.Zero(r.t, st.Held, "blocks leaked")
		require.Zero(r.t, st.Reserved+st.Sequences+st.Suspended)
		return
	}
}

// tokens are n tokens that begin like those of every other call, up to a number in common.
func tokens(seed, common, n int) []uint32 {
	out := make([]uint32, n)
	for i := range out {
		out[i] = uint32(i*7+3) % vocabulary
		if i >= common {
			out[i] = uint32(i*i+seed*31+5) % vocabulary
		}
	}
	return out
}

// A few requests together have the answers that they have alone.
func TestTogether(t *testing.T) {
	r := newRig(t, openCPU(t), small(24), Options{StepTokens: 16})
	for i := range 8 {
		r.submit(Request{Prompt: tokens(i, i*2, 1+i*5), MaxTokens: 20})
	}
	r.drain()
	require.Positive(t, r.s.Stats().Preempted)
	r.close()
}
