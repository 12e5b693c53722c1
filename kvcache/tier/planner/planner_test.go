package planner

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

const (
	limit = 1.1 + 1e-6 // times computing
	gb    = 1e9
)

// A fast tier is used, after a probe that costs nothing.
func TestFastTiersAreUsed(t *testing.T) {
	s := newSim(store{100 * time.Microsecond, 10 * gb})
	took, whole := s.prompt(0, Piece{0, 100})
	require.InDelta(t, whole, took, 1e-9, "nothing is known")
	require.Equal(t, Compute, s.last[0].Choice)
	require.Contains(t, s.last[0].Why, "not known")
	for range 3 {
		took, whole = s.prompt(0, Piece{0, 100})
	}
	require.Less(t, took, 0.15*whole) // 2 MiB in 0.2 ms instead of 1.6 ms
	require.Equal(t, Load, s.last[0].Choice)
	require.Less(t, len(s.last), 8, "pieces grow")
	st := s.p.Stats()
	require.Equal(t, int64(1), st.Probes)
	require.Positive(t, st.Saved)
	require.Less(t, st.Regret, time.Microsecond)
}

// Case 17: a tier that is slower than computing is not used, but for a probe each minute, beside.
func TestThrottledTiers(t *testing.T) {
	for _, rate := range []float64{0, 1e3, 0.1 * gb, 1.0 * gb, 1.29 * gb} { // 1.31 GB/s is as fast as computing
		s := newSim(store{time.Millisecond, rate})
		begin := s.now
		for range 200 {
			took, whole := s.prompt(0, Piece{0, 60})
			require.LessOrEqual(t, took, whole*limit, "%g bytes a second", rate)
			require.Equal(t, Compute, s.last[len(s.last)-1].Choice)
		}
		minutes := int64(s.now.Sub(begin) / time.Minute)
		require.LessOrEqual(t, s.p.Stats().Probes, minutes+2)
		require.GreaterOrEqual(t, s.p.Stats().Probes, minutes)
		require.Less(t, s.p.Stats().Regret, time.Microsecond)
	}
}

// A tier that was fast and is throttled, or stands still, costs a tenth once, and is left alone. When it is fast again, a probe
// finds out within a minute.
func TestTiersThatChange(t *testing.T) {
	for _, slow := range []float64{0, 1e6, 0.3 * gb} {
		s := newSim(store{100 * time.Microsecond, 10 * gb})
		for range 10 {
			s.prompt(0, Piece{0, 100})
		}
		require.Equal(t, Load, s.last[0].Choice)
		s.stores[0].rate = slow
		for i := range 30 {
			took, whole := s.prompt(0, Piece{0, 100})
			require.LessOrEqual(t, took, whole*limit, "prompt %d at %g bytes a second", i, slow)
			if i > 1 {
				require.Equal(t, Compute, s.last[0].Choice, "prompt %d", i)
			}
		}
		require.Positive(t, s.p.Stats().GivenUp)
		require.Positive(t, s.p.Stats().Regret)
		s.stores[0].rate = 10 * gb
		for begin := s.now; s.now.Sub(begin) < 90*time.Second; {
			s.prompt(0, Piece{0, 100})
		}
		took, whole := s.prompt(0, Piece{0, 100})
		require.Less(t, took, 0.3*whole, "after %g bytes a second", slow)
	}
}

// Blocks of a fast tier are loaded, and those behind them, of a slow one, computed.
func TestPrefix(t *testing.T) {
	s := newSim(store{10 * time.Microsecond, 20 * gb}, store{time.Millisecond, 0.2 * gb})
	s.prompt(0, Piece{0, 20})
	s.prompt(0, Piece{1, 20})
	for range 3 {
		took, whole := s.prompt(0, Piece{0, 50}, Piece{1, 50})
		require.Less(t, took, 0.6*whole)
	}
	require.Equal(t, Prefix, s.last[0].Choice)
	require.Equal(t, Compute, s.last[len(s.last)-1].Choice)
}

// Where loading and computing are equally fast, doing both takes half the time.
func TestMeet(t *testing.T) {
	s := newSim(store{0, blockBytes / (blockTokens * 1e-4)})
	s.both = true
	for range 3 {
		s.prompt(0, Piece{0, 100})
	}
	took, whole := s.prompt(0, Piece{0, 100})
	require.InDelta(t, 0.5*whole, took, 0.02*whole)
	require.Equal(t, Meet, s.last[0].Choice)
	require.Equal(t, 50, s.last[0].Blocks)
	s.stores[0].rate = 0
	took, whole = s.prompt(0, Piece{0, 100})
	require.InDelta(t, whole, took, 1e-9, "computing went on")
}

// A tier whose first block takes longer than a tenth of computing is not waited for, although it would be faster in the end: if it
// stood still, the rule would be broken. It is used where the runner computes meanwhile.
func TestLatency(t *testing.T) {
	for _, part := range []float64{0.05, 0.2, 0.5, 0.8} {
		for _, both := range []bool{false, true} {
			whole := 100 * blockTokens * 1e-4
			s := newSim(store{seconds(part * whole), 100 * gb})
			s.both = both
			var took float64
			for range 4 {
				took, _ = s.prompt(0, Piece{0, 100})
			}
			switch first := s.last[0]; {
			case both || part < slack:
				require.Less(t, took, (part+0.02)*whole, "latency is paid once")
				require.NotEqual(t, Compute, first.Choice)
			default:
				require.InDelta(t, whole, took, 1e-9)
				require.Equal(t, Compute, first.Choice)
				require.Contains(t, first.Why, "not expected within the 16ms")
			}
			require.Equal(t, s.last[len(s.last)-1], s.p.Stats().Last)
		}
	}
}

// Rates that vary around those of computing do not have the planner change its mind each time.
func TestHysteresis(t *testing.T) {
	even := blockBytes / (blockTokens * 1e-4)
	s := newSim(store{0, even})
	s.prompt(0, Piece{0, 100})
	changes, before := 0, Compute
	for i := range 100 {
		s.stores[0].rate = even * (1 + 0.08*float64(i%2))
		s.prompt(0, Piece{0, 100})
		if c := s.last[0].Choice; c != before {
			changes, before = changes+1, c
		}
		s.p.Observe(0, 100*blockBytes, seconds(100*blockBytes/s.stores[0].rate), s.now)
	}
	require.LessOrEqual(t, changes, 2)
}

// What a tier has queued is time, too.
func TestQueues(t *testing.T) {
	p := New(1)
	now := time.Unix(1, 0)
	p.Prefilled(0, 1000, 100*time.Millisecond)
	p.Observe(0, 1<<20, time.Millisecond, now)
	p.Observe(0, 10<<20, 2*time.Millisecond, now)
	q := Prompt{Pieces: []Piece{{0, 100}}, BlockTokens: 16, BlockBytes: 1 << 20, Now: now}
	require.Equal(t, Load, p.Decide(q).Choice)
	q.Queued = []int64{1 << 40}
	d := p.Decide(q)
	require.Equal(t, Compute, d.Choice)
	require.Greater(t, d.Loading, time.Minute)
	require.InDelta(t, 160*time.Millisecond, d.Computing, float64(time.Microsecond))
}

// An estimate finds latency and bandwidth of loads of several sizes.
func TestEstimate(t *testing.T) {
	var e estimate
	for i := range 20 {
		bytes := int64(1+i%5) << 20
		e.observe(bytes, 3*time.Millisecond+time.Duration(float64(bytes)/2), time.Unix(int64(i), 0)) // 2 GB/s
	}
	latency, perByte := e.line()
	require.InDelta(t, 3e-3, latency, 1e-6)
	require.InDelta(t, 0.5e-9, perByte, 1e-13)

	e = estimate{}
	for range 5 {
		e.observe(1<<20, time.Millisecond, time.Unix(0, 0))
	}
	require.InDelta(t, 1e-3, e.seconds(1<<20), 1e-9)
	require.InDelta(t, 4e-3, e.seconds(4<<20), 1e-9, "sizes too alike: all is bandwidth")

	var p prefill
	require.Zero(t, p.perToken(100))
	p.observe(0, 100, time.Millisecond)
	p.observe(4096, 100, 4*time.Millisecond)
	require.InDelta(t, 1e-5, p.perToken(10), 1e-12)
	require.InDelta(t, 4e-5, p.perToken(1<<20), 1e-12)
	require.InDelta(t, 4e-5, p.perToken(5000), 1e-12)
}

// Prompts that make no sense are computed.
func TestPromptsThatMakeNoSense(t *testing.T) {
	p := New(1)
	good := Prompt{Pieces: []Piece{{0, 2}}, BlockTokens: 16, BlockBytes: 1, Queued: []int64{1, 2, 3}}
	require.Positive(t, p.Decide(good).Probe)
	for _, edit := range []func(q *Prompt){
		func(q *Prompt) { q.Pieces = nil }, func(q *Prompt) { q.Pieces = []Piece{{1, 2}} }, func(q *Prompt) { q.Pieces = []Piece{{-1, 2}} },
		func(q *Prompt) { q.Pieces = []Piece{{0, -2}} }, func(q *Prompt) { q.BlockTokens = 0 }, func(q *Prompt) { q.BlockBytes = 0 },
		func(q *Prompt) { q.Loaded = 2 }, func(q *Prompt) { q.Loaded = -1 }, func(q *Prompt) { q.Context = -1 },
	} {
		q := good
		edit(&q)
		d := p.Decide(q)
		require.Equal(t, Decision{Why: "nothing to load"}, d)
	}
	p.Observe(3, 1, 1, time.Time{})
	p.Observe(0, 0, 1, time.Time{})
	p.Late(-1, 1, 1, time.Time{})
	p.Prefilled(-1, 1, 1)
	require.Contains(t, p.Decide(good).Why, "not known")
}

// Case 17: whatever tiers do, a prompt takes at most 1.1 times as long as computing it.
func TestNeverMuchWorseThanComputing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func() store {
			return store{
				time.Duration(rapid.IntRange(0, 50000).Draw(t, "latency")) * time.Microsecond,
				rapid.SampledFrom([]float64{0, 1e3, 1e8, 1e9, 1.3e9, 1.5e9, 3e9, 1e10, 1e11}).Draw(t, "rate"),
			}
		}
		s := newSim(draw(), draw())
		s.both = rapid.Bool().Draw(t, "both")
		dear := rapid.Float64Range(0, 1).Draw(t, "dear")
		s.perToken = func(context int) float64 { return 1e-4 * (1 + dear*float64(class(context))) }
		for _, context := range []int{0, 10, 100, 1000, 10000} { // the runner is known
			for c := context; c < 1<<16; c += 1 + c/2 {
				s.p.Prefilled(c, 1, seconds(s.perToken(c)))
			}
		}
		for range rapid.IntRange(1, 40).Draw(t, "prompts") {
			if rapid.IntRange(0, 5).Draw(t, "change") == 0 {
				s.stores[rapid.IntRange(0, 1).Draw(t, "which")] = draw()
			}
			context := rapid.IntRange(0, 5000).Draw(t, "context")
			var pieces []Piece
			for i := range rapid.IntRange(1, 3).Draw(t, "pieces") {
				pieces = append(pieces, Piece{i % 2, rapid.IntRange(1, 100).Draw(t, "blocks")})
			}
			took, whole := s.prompt(context, pieces...)
			if took > whole*limit {
				t.Fatalf("%v instead of %v: %+v", took, whole, s.last)
			}
			s.now = s.now.Add(time.Duration(rapid.IntRange(0, 90).Draw(t, "idle")) * time.Second)
		}
	})
}

// Impossible numbers count as the longest contexts, or as nothing, and take no memory.
func TestNumbersBeyondPrompts(t *testing.T) {
	for _, n := range []int{-1, 0, 1, math.MaxInt >> 24, math.MaxInt >> 23, math.MaxInt - 1, math.MaxInt} {
		p := New(n)
		p.Prefilled(n, n, time.Second)
		p.Prefilled(0, n, time.Second)
		p.Prefilled(n, 1, time.Second)
		p.Observe(n-1, 1<<20, time.Second, time.Unix(1, 0))
		p.Late(n-1, math.MaxInt64, math.MaxInt64, time.Unix(1, 0))
		require.GreaterOrEqual(t, p.Patience(n, n), time.Duration(0))
		p.Prefilled(0, 100, time.Second)
		d := p.Decide(Prompt{Pieces: []Piece{{0, n}, {0, n}}, BlockTokens: n, BlockBytes: 1, Context: n, Now: time.Unix(2, 0)})
		if n < 1 || n > mostBlocks {
			require.Equal(t, "nothing to load", d.Why, n)
		}
		p.Ended(math.MinInt64, math.MaxInt64)
		require.Zero(t, p.Stats().Regret+p.Stats().Saved)
	}
	require.Equal(t, []string{"unknown", "unknown", "meet"}, []string{Choice(-1).String(), Choice(math.MaxInt).String(), Meet.String()})
	require.Equal(t, math.MaxInt, plus(math.MaxInt, math.MaxInt))
}
