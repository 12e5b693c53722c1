package kvcache

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ferrumkv/ferrumkv/kvcache/config"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
	"github.com/ferrumkv/ferrumkv/kvcache/tier"
	"github.com/ferrumkv/ferrumkv/kvcache/tier/memory"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// moody is a tier that fails, panics, is slow, waits for its context's end or returns wrong blocks, as often as it is set to.
type moody struct {
	tier.Tier
	bad  atomic.Int32 // of 100 calls
	lies atomic.Int32 // of 100 that read something
}

func (m *moody) mood(ctx context.Context) error {
	if rand.Int32N(100) >= m.bad.Load() {
		return nil
	}
	switch rand.IntN(4) {
	case 0:
		return errors.New("a bad day")
	case 1:
		panic("a very bad day")
	case 2:
		time.Sleep(time.Duration(rand.IntN(2000)) * time.Microsecond)
		return nil
	default:
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(5 * time.Millisecond):
			return nil
		}
	}
}

func (m *moody) Has(ctx context.Context, keys []tier.Key) (int, error) {
	if err := m.mood(ctx); err != nil {
		return 0, err
	}
	return m.Tier.Has(ctx, keys)
}

func (m *moody) Get(ctx context.Context, blocks []tier.Block) (int, error) {
	if err := m.mood(ctx); err != nil {
		return 0, err
	}
	n, err := m.Tier.Get(ctx, blocks)
	if n > 0 && rand.Int32N(100) < m.lies.Load() {
		all := slices.Sorted(maps.Keys(lies))
		lies[all[rand.IntN(len(all))]](blocks[rand.IntN(n):])
	}
	return n, err
}

func (m *moody) Put(ctx context.Context, blocks []tier.Block) error {
	if err := m.mood(ctx); err != nil {
		return err
	}
	return m.Tier.Put(ctx, blocks)
}

// Whatever sequences do with a pool above tiers that have their moods, they have what a run without a cache would have, and
// nothing is left behind.
func TestTiersAgainstReaders(t *testing.T) {
	took := readersAboveTiers(t)
	for more := 0; took == 0 && more < 10; more++ { // few histories may do without
		took = readersAboveTiers(t)
	}
	require.Positive(t, took)
	t.Logf("%d tokens came back", took)
}

// readersAboveTiers runs histories, and returns how many tokens came from tiers.
func readersAboveTiers(t *testing.T) int {
	took := 0
	rapid.Check(t, func(t *rapid.T) {
		var tiers config.Tiers
		var moods []*moody
		for i, name := range []string{"near", "far"} {
			m, err := memory.Open(memory.Options{Name: name, Bytes: int64(rapid.IntRange(1, 30).Draw(t, name)) << (11 + 3*i)})
			require.NoError(t, err)
			moods = append(moods, &moody{Tier: m})
			tiers.More = append(tiers.More, moods[i])
		}
		r := tiered(t, rapid.IntRange(8, 24).Draw(t, "blocks"), tiers)
		var live []*reader[buffer]
		scopes := []prefix.Scope{{}, {Salt: []byte("a")}, {Salt: []byte("b")}}
		most := 0 // that the second one may have in the tree; 0: what it likes
		pick := func(t *rapid.T) (x *reader[buffer], i int) {
			if len(live) == 0 {
				t.Skip("none is open")
			}
			i = rapid.IntRange(0, len(live)-1).Draw(t, "which")
			return live[i], i
		}
		step := func(t *rapid.T, err error) {
			if errors.Is(err, ErrOutOfBlocks{}) || errors.Is(err, ErrCapacity{}) || errors.Is(err, ErrPrompt{}) {
				t.Skip("not now: ", err)
			}
			require.NoError(t, err)
		}
		t.Repeat(map[string]func(*rapid.T){
			"open": func(t *rapid.T) {
				if len(live) >= 3 {
					t.Skip("enough are open")
				}
				common := rapid.IntRange(0, 30).Draw(t, "common")
				prompt := append(sequence(1, common), sequence(100*rapid.IntRange(1, 3).Draw(t, "tail"), rapid.IntRange(0, 8).Draw(t, "own"))...)
				x, _ := r.read(prompt, OpenOptions{Scope: scopes[rapid.IntRange(0, 2).Draw(t, "scope")], NoPublish: rapid.IntRange(0, 5).Draw(t, "silent") == 0})
				live = append(live, x)
			},
			"serve": func(t *rapid.T) {
				x, _ := r.read(sequence(1, rapid.IntRange(1, 40).Draw(t, "length")), OpenOptions{Scope: scopes[rapid.IntRange(0, 1).Draw(t, "scope")]})
				live = append(live, x)
				if rapid.IntRange(0, 3).Draw(t, "wait") > 0 {
					for _, n := range x.wait(r).Tiers {
						took += n
					}
				}
				step(t, r.run(r.s, part[buffer]{x, x.rest}))
				r.check(r.s, x)
				live = live[:len(live)-1]
				require.NoError(t, x.seq.Release())
			},
			"wait": func(t *rapid.T) {
				x, _ := pick(t)
				m := x.wait(r)
				for _, n := range m.Tiers {
					took += n
				}
				r.check(r.s, x)
			},
			"wait not long": func(t *rapid.T) {
				x, _ := pick(t)
				ctx, cancel := context.WithTimeout(context.Background(), time.Duration(rapid.IntRange(0, 1000).Draw(t, "us"))*time.Microsecond)
				defer cancel()
				m, err := x.seq.Wait(ctx)
				if err != nil {
					require.ErrorIs(t, err, context.DeadlineExceeded)
				}
				x.arrived(r, m)
				r.check(r.s, x)
			},
			"prefill": func(t *rapid.T) {
				x, _ := pick(t)
				if len(x.rest) == 0 {
					t.Skip("it is there")
				}
				n := rapid.IntRange(1, len(x.rest)).Draw(t, "piece")
				step(t, r.run(r.s, part[buffer]{x, x.rest[:n]}))
			},
			"decode": func(t *rapid.T) {
				x, _ := pick(t)
				if len(x.rest) > 0 || len(x.tokens) == 40 {
					t.Skip("not yet, or no more")
				}
				step(t, r.run(r.s, part[buffer]{x, []uint32{uint32(rapid.IntRange(1, 3).Draw(t, "token"))}}))
			},
			"truncate": func(t *rapid.T) {
				x, _ := pick(t)
				n := rapid.IntRange(0, len(x.tokens)).Draw(t, "keep")
				require.NoError(t, x.seq.Truncate(n))
				x.tokens, x.want, x.rest = x.tokens[:n:n], x.want[:n:n], nil
				x.cut = min(x.cut, n)
			},
			"reserve": func(t *rapid.T) {
				x, _ := pick(t)
				n := rapid.IntRange(len(x.tokens)+len(x.rest), 40).Draw(t, "reserve")
				step(t, r.pool.Reserve(Reservation[buffer]{x.seq, n}))
				if rapid.Bool().Draw(t, "wait") {
					x.wait(r)
				}
				var others []*reader[buffer] // who take all that is left
				for err := error(nil); err == nil; {
					y, _ := r.read(nil, OpenOptions{NoPublish: true})
					others = append(others, y)
					err = r.run(r.s, part[buffer]{y, sequence(900, 4)})
				}
				require.NoError(t, r.step.Reset())
				x.rest = append(slices.Clip(x.rest), sequence(50, n-len(x.tokens)-len(x.rest))...)
				for len(x.rest) > 0 { // what was promised is there
					require.NoError(t, r.run(r.s, part[buffer]{x, x.rest[:rapid.IntRange(1, len(x.rest)).Draw(t, "piece")]}))
				}
				r.check(r.s, x)
				for _, y := range others {
					require.NoError(t, y.seq.Release())
				}
			},
			"limit": func(t *rapid.T) {
				quota := rapid.IntRange(0, 8).Draw(t, "quota")
				require.NoError(t, r.pool.Limit(scopes[1], prefix.Limits{Quota: quota}))
				if most = quota; quota > 0 { // what is in use stays
					most = max(quota, r.share(OpenOptions{Scope: scopes[1]}).Blocks)
				}
			},
			"release": func(t *rapid.T) {
				x, i := pick(t)
				r.check(r.s, x)
				require.NoError(t, x.seq.Release())
				live = append(live[:i], live[i+1:]...)
			},
			"suspend": func(t *rapid.T) {
				x, i := pick(t)
				if !r.away(x.seq) {
					live = append(live[:i], live[i+1:]...)
				}
			},
			"flush": func(*rapid.T) { r.flush() },
			"forget": func(t *rapid.T) {
				for _, x := range live {
					require.NoError(t, x.seq.Release())
				}
				live = nil
				if rapid.Bool().Draw(t, "flush") {
					r.flush()
				}
				r.forget()
			},
			"mood": func(t *rapid.T) {
				mood := moods[rapid.IntRange(0, 1).Draw(t, "tier")]
				mood.bad.Store(int32(rapid.SampledFrom([]int{0, 0, 30, 100}).Draw(t, "bad")))
				mood.lies.Store(int32(rapid.SampledFrom([]int{0, 30}).Draw(t, "lies")))
			},
			"clear": func(t *rapid.T) {
				if rapid.IntRange(0, 3).Draw(t, "seldom") > 0 {
					t.Skip("seldom")
				}
				for _, m := range moods { // else they may still have some, which Clear says
					m.bad.Store(0)
				}
				if err := r.pool.ClearScope(scopes[1], false); err != nil {
					require.ErrorIs(t, err, prefix.ErrInUse{})
				}
				require.NoError(t, r.pool.Clear(true))
				m, err := r.pool.Match(sequence(1, 30), OpenOptions{})
				require.NoError(t, err)
				require.Zero(t, m.Cached+m.Loading)
			},
			"": func(t *rapid.T) {
				require.NoError(t, r.pool.Check())
				if most > 0 {
					require.LessOrEqual(t, r.share(OpenOptions{Scope: scopes[1]}).Blocks, most)
				}
			},
		})
		for _, x := range live {
			r.check(r.s, x)
			require.NoError(t, x.seq.Release())
		}
		r.close()
		for _, m := range moods {
			require.NoError(t, m.Close())
		}
	})
	return took
}

// Nothing of a pool with tiers runs on after Close, in the middle of loads.
func TestNothingRunsOn(t *testing.T) {
	before := runtime.NumGoroutine()
	for range 20 {
		m, err := memory.Open(memory.Options{Bytes: 1 << 20})
		require.NoError(t, err)
		slow := &moody{Tier: m}
		r := tiered(t, 12, config.Tiers{More: []tier.Tier{slow}})
		r.cache(sequence(1, 23), OpenOptions{})
		r.flush()
		r.forget()
		slow.bad.Store(100)
		x, _ := r.read(sequence(1, 23), OpenOptions{})
		y, _ := r.read(sequence(1, 22), OpenOptions{})
		require.NoError(t, y.seq.Release())
		require.NoError(t, r.pool.Close())
		_, err = x.seq.Wait(context.Background())
		require.ErrorIs(t, err, ErrClosed)
		require.Zero(t, r.be.Info().Buffers)
		require.NoError(t, r.s.Close())
		require.NoError(t, r.be.Close())
		require.NoError(t, m.Close())
	}
	nothingRuns(t, before)
}

// nothingRuns waits until no more goroutines run than before.
func nothingRuns(t *testing.T, before int) {
	t.Helper()
	for range 1000 {
		if runtime.NumGoroutine() <= before {
			return
		}
		time.Sleep(time.Millisecond)
	}
	stacks := make([]byte, 1<<16)
	t.Fatalf("%d goroutines, %d before:\n%s", runtime.NumGoroutine(), before, stacks[:runtime.Stack(stacks, true)])
}
