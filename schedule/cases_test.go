package schedule

import (
	"context"
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache"
	"github.com/stretchr/testify/require"
)

// Prompts that arrive together compute what they share once.
func TestArriveTogether(t *testing.T) {
	cfg := small(80)
	cfg.Memory.BlockSize, cfg.Memory.Capacity = 16, 128
	r := newRig(t, openCPU(t), cfg, Options{StepTokens: 40})
	for i := range 6 {
		r.submit(Request{Prompt: tokens(i, 65, 67), MaxTokens: 2})
	}
	r.drain()
	require.Equal(t, [][]int{{40}, {27, 3, 3, 3, 3, 1}, {1, 1, 1, 1, 1, 2}, {1}}, r.model.steps)
	stats := r.s.Stats()
	require.EqualValues(t, []int64{402, 320, 82}, []int64{stats.Prompt, stats.Cached, stats.Computed})
	r.close()
}

// A prompt waits for the pieces of another one, and not for one that fails or gives way, nor for one with another salt.
func TestTogetherInVain(t *testing.T) {
	r := newRig(t, openCPU(t), small(40), Options{StepTokens: 8})
	first := r.submit(Request{Prompt: tokens(1, 30, 40), MaxTokens: 2})
	first.touched = true
	r.submit(Request{Prompt: tokens(2, 30, 40), MaxTokens: 2})
	salted := Request{Prompt: tokens(3, 30, 40), MaxTokens: 2}
	salted.Open.Salt = []byte{1}
	r.submit(salted)
	r.model.forward = func(s *Step[buffer]) error {
		if len(r.model.steps) == 2 {
			stats := r.s.Stats()
			require.Equal(t, []int{0, 3}, []int{stats.Waiting, stats.Running})
			require.Equal(t, [][]int{{8}, {8}}, r.model.steps, "the second one waits for the first")
			return errBoom
		}
		return nil
	}
	r.drain()
	require.ErrorIs(t, first.Report().Err, errBoom)
	r.close()
}

// A prompt is computed in pieces beside the answers of others, which get a token in each step.
func TestChunkedPrefill(t *testing.T) {
	r := newRig(t, openCPU(t), small(40), Options{StepTokens: 10, MaxRunning: 4})
	q := Request{Prompt: tokens(1, 0, 3), MaxTokens: 6}
	want, _ := alone(&q, 64)
	require.Len(t, want, 6, "one that the model does not end")
	r.submit(q)
	r.model.forward = func(*Step[buffer]) error {
		if len(r.model.steps) == 1 {
			r.submit(Request{Prompt: tokens(2, 0, 40), MaxTokens: 1})
		}
		return nil
	}
	first := r.answers[0]
	go func() { <-first.Done(); r.s.Drain() }()
	r.run(context.Background())
	require.Equal(t, [][]int{{3}, {1, 9}, {1, 9}, {1, 9}, {1, 9}, {1, 4}}, r.model.steps)
	r.close()
}

func TestRefusals(t *testing.T) {
	r := newRig(t, openCPU(t), small(40), Options{StepTokens: 10, MaxWaiting: 2})
	for _, o := range []Options{{StepTokens: 7}, {MaxRunning: -1}, {MaxWaiting: -1}, {Flush: -1}} {
		_, err := New[buffer](r.model, r.pool, r.batch, r.stream, o)
		require.ErrorAs(t, err, &backend.ErrArgument{}, "%+v", o)
	}
	_, err := New[buffer](nil, r.pool, r.batch, r.stream, Options{})
	require.ErrorAs(t, err, &backend.ErrArgument{})
	ctx := context.Background()
	for _, q := range []Request{{}, {Prompt: []uint32{1}, MaxTokens: -1}, {Prompt: make([]uint32, 9), Open: kvcache.OpenOptions{Spans: []kvcache.Span{{Begin: 2, End: 6}}}}} {
		_, err := r.s.Submit(ctx, q)
		require.ErrorAs(t, err, &backend.ErrArgument{}, "%+v", q)
	}
	_, err = r.s.Submit(ctx, Request{Prompt: make([]uint32, 65)})
	require.ErrorIs(t, err, kvcache.ErrCapacity{Have: 65, Max: 64})
	r.submit(Request{Prompt: tokens(1, 0, 64)})
	r.submit(Request{Prompt: tokens(1, 0, 9), MaxTokens: 3})
	_, err = r.s.Submit(ctx, Request{Prompt: []uint32{1}})
	require.ErrorIs(t, err, ErrQueueFull{Waiting: 2})
	require.EqualError(t, err, "schedule: 2 requests are waiting, and no more may; try again later")
	r.drain()
	_, err = r.s.Submit(ctx, Request{Prompt: []uint32{1}})
	require.ErrorIs(t, err, ErrDraining)
	require.ErrorIs(t, r.s.Run(ctx), ErrRunning)
	require.EqualValues(t, 2, r.s.Stats().Refused)
	r.close()
}

// Requests that have begun do not count as waiting while a step is computed.
func TestQueueIsNotFull(t *testing.T) {
	r := newRig(t, openCPU(t), small(40), Options{MaxWaiting: 1})
	r.submit(Request{Prompt: tokens(1, 0, 9), MaxTokens: 2})
	r.model.forward = func(*Step[buffer]) error {
		if len(r.model.steps) == 1 {
			stats := r.s.Stats()
			require.Equal(t, []int{1, 0}, []int{stats.Running, stats.Waiting})
			r.submit(Request{Prompt: tokens(2, 0, 9), MaxTokens: 2})
			r.s.Drain()
		}
		return nil
	}
	r.run(context.Background())
	r.close()
}

// The tokens of an answer can be read by a caller that is gone, and again.
func TestTokens(t *testing.T) {
	r := newRig(t, openCPU(t), small(40), Options{})
	g := r.submit(Request{Prompt: tokens(1, 0, 9), MaxTokens: 3})
	g.touched = true
	g.Cancel()
	for _, err := range g.Tokens() {
		require.ErrorIs(t, err, context.Canceled, "nobody runs the scheduler")
	}
	whole := r.submit(Request{Prompt: tokens(1, 0, 9), MaxTokens: 3})
	r.drain()
	for range 2 {
		whole.check(t, 64)
	}
	r.close()
}

// When the pool is closed all requests end, and Run goes on until it is drained.
func TestClosedPool(t *testing.T) {
	r := newRig(t, openCPU(t), small(40), Options{StepTokens: 8})
	for i := range 4 {
		r.submit(Request{Prompt: tokens(i, 0, 20), MaxTokens: 3})
	}
	r.model.forward = func(*Step[buffer]) error {
		if len(r.model.steps) == 3 {
			return r.pool.Close()
		}
		return nil
	}
	r.drain()
	for _, g := range r.answers {
		require.ErrorIs(t, g.Report().Err, kvcache.ErrClosed)
		require.Equal(t, Failed, g.Report().Reason)
	}
	require.NoError(t, r.stream.Close())
	require.NoError(t, r.be.Close())
}

// hoarder is a device with host memory that a test can refuse and change.
type hoarder struct {
	backend.Backend[buffer]
	refuses bool
	given   []backend.HostMemory
}

func (h *hoarder) NewBlockSet(planes []backend.BlockPlane[buffer]) (backend.BlockSet, error) {
	return backend.NewBlockSet(h.Backend, planes)
}

func (h *hoarder) HostAlloc(n int64) (backend.HostMemory, error) {
	if h.refuses {
		return nil, backend.ErrOutOfMemory{Bytes: n}
	}
	m, err := backend.HostAlloc(h.Backend, n)
	h.given = append(h.given, m)
	return m, err
}

// A request that cannot be suspended, or whose suspended bytes changed, is computed again.
func TestComputedAgain(t *testing.T) {
	for name, refuses := range map[string]bool{"no host memory": true, "damaged": false} {
		t.Run(name, func(t *testing.T) {
			dev := &hoarder{Backend: openCPU(t), refuses: refuses}
			r := newRig(t, dev, small(16), Options{})
			for i := range 4 {
				r.submit(Request{Prompt: tokens(i+20, 0, 12), MaxTokens: 20})
			}
			damaged := 0
			r.model.forward = func(*Step[buffer]) error {
				for _, m := range dev.given {
					if m.Bytes() != nil {
						m.Bytes()[0]++
						damaged++
					}
				}
				dev.given = nil
				return nil
			}
			r.drain()
			require.Positive(t, r.s.Stats().Preempted)
			require.Equal(t, !refuses, damaged > 0)
			r.close()
		})
	}
}
