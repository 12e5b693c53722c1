package schedule

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/backendtest"
	"github.com/ferrumkv/ferrumkv/kvcache"
	"github.com/ferrumkv/ferrumkv/kvcache/config"
	"github.com/ferrumkv/ferrumkv/kvcache/group"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

var errBoom = errors.New("boom")

// event is something that happens after some steps, or when all that was submitted is answered.
type event struct {
	steps int
	do    func()
}

// history plays events while Run runs.
type history struct {
	*rig
	span   int // most tokens of one
	mu     sync.Mutex
	events []event
	past   int
}

func newHistory(t *rapid.T, be backend.Backend[buffer], cfg kvcache.Config, o Options) *history {
	h := &history{rig: newRig(t, be, cfg, o)}
	if h.span = h.s.opt.StepTokens - h.s.opt.MaxRunning + 1; cfg.Model.Groups != nil {
		h.span = 0
	}
	return h
}

// play does what is due: all events of the past, and the next one where nothing else would happen.
func (h *history) play(idle bool) (more bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !idle {
		h.past++
	}
	for len(h.events) > 0 && (idle || h.events[0].steps <= h.past) {
		do := h.events[0].do
		h.events, idle = h.events[1:], false
		do()
	}
	return len(h.events) > 0
}

// drawRequest draws a request of a few families of prompts, with spans of at most so many tokens.
func drawRequest(t *rapid.T, span int) Request {
	q := Request{
		Prompt:    tokens(rapid.IntRange(0, 3).Draw(t, "seed"), rapid.SampledFrom([]int{0, 3, 8, 17}).Draw(t, "common"), rapid.IntRange(1, 40).Draw(t, "prompt")),
		MaxTokens: rapid.SampledFrom([]int{0, 1, 2, 9, 30}).Draw(t, "most"),
	}
	if rapid.IntRange(0, 4).Draw(t, "salted") == 0 {
		q.Open.Salt = []byte{1}
	}
	switch rapid.IntRange(0, 11).Draw(t, "open") {
	case 0:
		q.Open.NoReuse = true
	case 1:
		q.Open.NoPublish = true
	case 2, 3:
		q.Open.Items = []prefix.Item{{Begin: min(2, len(q.Prompt)-1), End: len(q.Prompt), Hash: []byte{byte(rapid.IntRange(1, 2).Draw(t, "image"))}}}
	}
	if n := len(q.Prompt); span > 1 && n > 3 && rapid.IntRange(0, 4).Draw(t, "span") == 0 {
		begin := rapid.IntRange(0, n-2).Draw(t, "begin")
		q.Open.Spans = []kvcache.Span{{Begin: begin, End: min(begin+span, n-1)}}
	}
	q.Open.Overlap = rapid.IntRange(0, 3).Draw(t, "overlap") == 0
	return q
}

// fair checks what holds whenever a step is computed.
func (h *history) fair(step *Step[buffer]) {
	s, n := h.s, 0
	for _, p := range step.Parts {
		n += len(p.Tokens)
		require.NotEmpty(h.t, p.Tokens)
	}
	require.LessOrEqual(h.t, n, s.opt.StepTokens)
	require.LessOrEqual(h.t, len(step.Parts), s.opt.MaxRunning)
	var last state
	for i, r := range s.queue {
		in := slices.ContainsFunc(step.Parts, func(p Part[buffer]) bool { return p.of == r })
		require.Equal(h.t, in && r.state == running, in, "only what runs is computed")
		switch {
		case r.state == running && r.generated() > 0 && r.pending() == 1:
			require.True(h.t, in, "an answer that gets no token in a step")
		case i == 0 && r.state == running:
			require.True(h.t, in, "the oldest one waits")
		}
		require.False(h.t, last == suspended && r.state == running, "one that came later goes on")
		if r.state == running || r.state == suspended {
			last = r.state
		}
	}
}

// schedule draws when requests come and go.
func (h *history) schedule(t *rapid.T, faults bool, fault func()) {
	var all []*given
	add := func(do func()) {
		h.events = append(h.events, event{rapid.IntRange(0, 60).Draw(t, "when"), do})
	}
	for range rapid.IntRange(1, 14).Draw(t, "requests") {
		q := drawRequest(t, h.span)
		ends, how := rapid.IntRange(0, 80).Draw(t, "ends"), rapid.IntRange(0, 5).Draw(t, "how")
		var g *given
		add(func() {
			g = h.submit(q)
			all = append(all, g)
			g.touched = faults
			if how == 2 { // it leaves while it reads
				g.touched = true
				go func() {
					for range g.Tokens() {
						break
					}
				}()
			}
		})
		if how < 2 {
			h.events = append(h.events, event{ends, func() {
				switch {
				case g == nil: // not yet
				case how == 0:
					g.touched = true
					g.cancel()
				default:
					g.touched = true
					g.Cancel()
				}
			}})
		}
	}
	if faults {
		for range rapid.IntRange(1, 4).Draw(t, "faults") {
			add(fault)
		}
	}
	slices.SortStableFunc(h.events, func(a, b event) int { return a.steps - b.steps })
}

// live runs until all events are past, and everything is answered.
func (h *history) live(ctx context.Context) {
	step := h.model.forward
	h.model.forward = func(s *Step[buffer]) error {
		h.fair(s)
		h.play(false)
		if step != nil {
			return step(s)
		}
		return nil
	}
	go func() {
		for h.play(true) {
			h.mu.Lock()
			answers := slices.Clone(h.answers)
			h.mu.Unlock()
			for _, g := range answers {
				<-g.Done()
			}
		}
		h.s.Drain()
	}()
	h.run(ctx)
}

// pass runs all of it, and ends as drawn.
func (h *history) pass(t *rapid.T, mend func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	if rapid.IntRange(0, 3).Draw(t, "stops") == 0 {
		h.events = append(h.events, event{rapid.IntRange(1, 100).Draw(t, "stop"), func() {
			for _, g := range h.answers {
				g.touched = true
			}
			h.events = nil
			cancel(errBoom)
		}})
		slices.SortStableFunc(h.events, func(a, b event) int { return a.steps - b.steps })
	}
	h.live(ctx)
	mend()
	h.close()
}

func drawConfig(t *rapid.T) (kvcache.Config, Options) {
	cfg := small(rapid.SampledFrom([]int{6, 11, 16, 17, 20, 40}).Draw(t, "blocks"))
	switch rapid.IntRange(0, 9).Draw(t, "pool") {
	case 0:
		cfg.Memory = kvcache.Memory{Layout: kvcache.Contiguous, Capacity: 64, MaxSeqs: 3}
	case 1:
		cfg.Memory.Prefix = prefix.Off
	case 2, 3:
		cfg.Model.Layers, cfg.Memory.Blocks, cfg.Memory.Rollback = 3, 90, -1
		cfg.Model.Groups = []config.Group{{Layers: []int{0}}, {Kind: group.Window, Layers: []int{1}, Window: 8}, {Kind: group.State, Layers: []int{2}, StateBytes: 100}}
	}
	o := Options{MaxRunning: rapid.IntRange(0, 8).Draw(t, "running")}
	o.StepTokens = rapid.SampledFrom([]int{0, 8, 9, 20, 64}).Draw(t, "step")
	return cfg, o
}

// Whatever comes and goes, every request ends once, with the tokens that it would have alone.
func TestHistories(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg, o := drawConfig(t)
		h := newHistory(t, openCPU(t), cfg, o)
		h.schedule(t, false, nil)
		h.pass(t, func() {})
	})
}

// A device that fails, or a model, costs the requests of the step at most.
func TestHistoriesOfFailures(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg, o := drawConfig(t)
		late := backendtest.NewLate(openCPU(t), backendtest.LateOptions{Seed: rapid.Uint64().Draw(t, "seed")})
		dev := backendtest.NewFaulty[buffer](late)
		h := newHistory(t, dev, cfg, o)
		var forwards, nexts atomic.Int64 // until one fails
		h.model.forward = func(*Step[buffer]) error {
			if forwards.Add(-1) == 0 {
				return errBoom
			}
			return nil
		}
		h.model.next = func(*Step[buffer], int) error {
			if nexts.Add(-1) == 0 {
				return errBoom
			}
			return nil
		}
		h.schedule(t, true, func() {
			switch n := 1 + len(h.answers)%3; len(h.events) % 3 {
			case 0:
				forwards.Store(int64(n))
			case 1:
				nexts.Store(int64(n))
			default:
				dev.SetFault(backendtest.Nth(7*n, errBoom))
			}
		})
		h.pass(t, func() { dev.SetFault(nil) })
	})
}
