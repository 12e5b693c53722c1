package tier_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ferrumkv/ferrumkv/kvcache/tier"
	"github.com/ferrumkv/ferrumkv/kvcache/tier/tiertest"
)

// history is a random history of jobs over tiers that fail at random. The model is the set of keys that were given to a store since they
// were last forgotten: tiers may lack any of it, and have nothing else.
type history struct {
	*rig
	stored map[tier.Key]bool
	chains [][]tier.Block
	moves  []*move
}

func TestHistories(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // rapid does not see the test's deadline, which is not in simulated time
		rapid.Check(struct{ rapid.TB }{t}, func(rt *rapid.T) {
			o := tier.MoverOptions{
				Workers: rapid.IntRange(1, 4).Draw(rt, "workers"),
				Bytes:   int64(rapid.IntRange(4, 40).Draw(rt, "room")) * size,
				Promote: rapid.Bool().Draw(rt, "promote"),
				Timeout: 3 * time.Second,
			}
			h := &history{rig: newRig(t, o), stored: map[tier.Key]bool{}}
			for i := range 4 {
				h.chains = append(h.chains, tiertest.Chain(fmt.Sprint("root", i%2), fmt.Sprint(i), 6, size))
			}
			rt.Repeat(map[string]func(*rapid.T){
				"store": func(rt *rapid.T) { h.job(rt, false) },
				"load":  func(rt *rapid.T) { h.job(rt, true) },
				"fail":  h.fail,
				"clear": h.forget,
				"pass":  func(rt *rapid.T) { after(time.Duration(rapid.IntRange(0, 4000).Draw(rt, "ms")) * time.Millisecond) },
				"":      h.check,
			})
			h.fast.set(nil)
			h.low.set(nil)
			if err := h.Drain(ctx); err != nil { // which does not wait for calls that hang
				require.ErrorAs(rt, err, &tier.ErrHung{})
				after(10 * time.Second)
				require.NoError(rt, h.Drain(ctx))
			}
			for _, m := range h.moves {
				require.Equal(rt, int32(2), m.ended.Load(), "Done and Release, once each")
			}
			h.check(rt)
			h.finish()
		})
	})
}

func (h *history) job(rt *rapid.T, load bool) {
	c := rapid.SampledFrom(h.chains).Draw(rt, "chain")
	from := rapid.SampledFrom([]int{0, 0, 2}).Draw(rt, "from")
	blocks := c[from:rapid.IntRange(from, len(c)).Draw(rt, "to")]
	during := ctx
	if ms := rapid.IntRange(0, 3).Draw(rt, "deadline"); ms > 0 {
		var cancel context.CancelFunc
		during, cancel = context.WithTimeout(ctx, time.Duration(ms*700)*time.Millisecond)
		context.AfterFunc(during, cancel)
	}
	m, err := h.try(during, load, uint64(rapid.IntRange(0, 2).Draw(rt, "sequence")), blocks, false)
	if err != nil {
		require.ErrorAs(rt, err, &tier.ErrBusy{})
		return
	}
	h.moves = append(h.moves, m)
	if !load {
		for _, b := range blocks {
			h.stored[b.Key] = true
		}
	}
	if rapid.Bool().Draw(rt, "wait") {
		synctest.Wait()
	}
}

// fail has a tier fail, or work again.
func (h *history) fail(rt *rapid.T) {
	f := rapid.SampledFrom([]*faulty{h.fast, h.low}).Draw(rt, "tier")
	op := rapid.SampledFrom([]string{"get", "put", "has"}).Draw(rt, "op")
	lie, at := rapid.SampledFrom([]string{"", "a flipped bit", "two exchanged", "nothing"}).Draw(rt, "lie"), rapid.IntRange(0, 3).Draw(rt, "at")
	f.mu.Lock()
	f.lie = func(b []tier.Block, n int) int {
		if lie == "" || n < at+3 {
			return n
		}
		return at + lies[lie](b[at:], n-at)
	}
	f.mu.Unlock()
	on := func(do func(context.Context) error) func(context.Context, string) error {
		return func(ctx context.Context, called string) error {
			if called != op {
				return nil
			}
			return do(ctx)
		}
	}
	f.set(map[string]func(context.Context, string) error{
		"works":  nil,
		"errors": on(func(context.Context) error { return errDisk }),
		"panics": on(func(context.Context) error { panic("defect") }),
		"slow":   on(func(context.Context) error { time.Sleep(500 * time.Millisecond); return nil }),
		"blocks": on(func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }),
		"hangs":  on(func(context.Context) error { time.Sleep(10 * time.Second); return nil }),
	}[rapid.SampledFrom([]string{"works", "works", "errors", "panics", "slow", "blocks", "hangs"}).Draw(rt, "how")])
}

// forget clears a root or all of it. When it says that it did, nothing of it is found.
func (h *history) forget(rt *rapid.T) {
	root := rapid.SampledFrom([]tier.Key{{}, h.chains[0][0].Root, h.chains[1][0].Root}).Draw(rt, "root")
	err := h.Clear(ctx, root)
	if err != nil {
		return // they may have it still, or not
	}
	for _, c := range h.chains {
		for _, b := range c {
			if root == (tier.Key{}) || b.Root == root {
				delete(h.stored, b.Key)
			}
		}
	}
}

// check looks at the results that are there, and into the tiers themselves.
func (h *history) check(rt *rapid.T) {
	synctest.Wait()
	for _, m := range h.moves {
		if m.isDone() {
			res := m.result() // compares bytes
			require.LessOrEqual(rt, res.Blocks, len(m.blocks))
			if m.load {
				require.Equal(rt, res.Blocks, res.By[0]+res.By[1])
			}
		}
	}
	for _, in := range []*faulty{h.fast, h.low} {
		for _, c := range h.chains {
			for _, b := range c {
				n, err := in.Tier.Has(ctx, []tier.Key{b.Key})
				require.NoError(rt, err)
				if n == 1 {
					require.True(rt, h.stored[b.Key], "%s has what nobody stored, or what was cleared", in.name)
				}
			}
		}
	}
	s := h.Stats()
	require.Equal(rt, h.lent.Load(), s.InFlight)
}
