package kvcache

import (
	"context"
	"testing"
	"time"

	"github.com/ferrumkv/ferrumkv/kvcache/config"
	"github.com/ferrumkv/ferrumkv/kvcache/tier"
	"github.com/ferrumkv/ferrumkv/kvcache/tier/memory"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// gated is a tier that gives a block for each ticket.
type gated struct {
	tier.Tier
	tickets chan struct{}
	open    chan struct{} // closed: for all
}

func (g *gated) Get(ctx context.Context, blocks []tier.Block) (int, error) {
	for range blocks {
		select {
		case <-g.tickets:
		case <-g.open:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	return g.Tier.Get(ctx, blocks)
}

// knows tells the planner that a block of tier 0 takes as long as computing it.
func (r *rig[B]) knows() {
	r.pool.Prefilled(0, 4000, time.Second)
	p, bytes := r.pool.below.Offload.Planner(), r.pool.below.Offload.BlockBytes()
	for _, n := range []int64{1, 8} {
		p.Observe(0, n*bytes, time.Duration(n)*time.Millisecond, time.Now())
	}
}

// overlapped opens a prompt that tiers have, so that it is computed while they bring its end.
func (r *rig[B]) overlapped(prompt []uint32, o OpenOptions) (*reader[B], Match) {
	r.t.Helper()
	r.knows()
	defer func(least time.Duration) { findLeast = least }(findLeast)
	findLeast = time.Minute // a tier in memory always answers, and late on a busy machine
	o.Overlap = true
	x, m := r.read(prompt, o)
	require.True(r.t, x.seq.coming.Transfer.Meets(), r.stats())
	return x, m
}

// A prompt is computed from the front while its end is loaded, wherever they meet.
func TestMeetsInTheMiddle(t *testing.T) {
	meeting := 0
	rapid.Check(t, func(t *rapid.T) {
		m, err := memory.Open(memory.Options{Bytes: 16 << 20})
		require.NoError(t, err)
		g := &gated{m, make(chan struct{}, 100), make(chan struct{})}
		r := tiered(t, 12, config.Tiers{More: []tier.Tier{g}})
		prompt := sequence(1, rapid.IntRange(30, 40).Draw(t, "prompt"))
		r.below(prompt, OpenOptions{})
		resident := rapid.IntRange(0, 9).Draw(t, "resident")
		if resident > 0 {
			r.cache(prompt[:resident], OpenOptions{NoReuse: true})
		}
		x, match := r.overlapped(prompt, OpenOptions{})
		require.Positive(t, match.Loading)
		require.Equal(t, match.Cached, x.wait(r).Cached, "it does not wait")
		want, jumped := (len(prompt)-1)/4-match.Cached/4, 0
		if rapid.IntRange(0, 5).Draw(t, "never") == 0 {
			want = -1
		}
		for len(x.rest) > 0 {
			there := rapid.IntRange(0, max(want, 0)).Draw(t, "tickets")
			for range there {
				g.tickets <- struct{}{}
			}
			n := min(rapid.IntRange(1, 12).Draw(t, "piece"), len(x.rest))
			if rapid.IntRange(0, 3).Draw(t, "advice") > 0 {
				n = x.seq.Piece(n)
			}
			before := len(x.tokens)
			require.NoError(t, r.run(r.s, part[buffer]{x, x.rest[:n]}))
			if more := x.seq.Len() - before - n; more > 0 {
				jumped += more
				x.arrived(r, Match{Cached: x.seq.Len(), Uncached: len(prompt) - x.seq.Len()})
			}
			r.check(r.s, x)
			require.NoError(t, r.pool.Check())
			time.Sleep(time.Duration(rapid.IntRange(0, 300).Draw(t, "us")) * time.Microsecond)
		}
		meeting += jumped
		require.Nil(t, x.seq.coming)
		r.drop(x)
		close(g.open)
		r.close()
		require.NoError(t, m.Close())
	})
	if !testing.Short() { // 20 histories may lack it
		require.Positive(t, meeting)
	}
	t.Logf("%d tokens were met", meeting)
}
