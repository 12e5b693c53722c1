package kvcache

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ferrumkv/ferrumkv/kvcache/config"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
	"github.com/ferrumkv/ferrumkv/kvcache/tier"
	"github.com/ferrumkv/ferrumkv/kvcache/tier/memory"
	"github.com/stretchr/testify/require"
)

// meeting is a rig above a tier that gives nothing yet, and has a prompt.
func meeting(t testT, prompt []uint32) (*rig[buffer], *gated, func()) {
	m, err := memory.Open(memory.Options{Bytes: 16 << 20})
	require.NoError(t, err)
	g := &gated{m, make(chan struct{}, 100), make(chan struct{})}
	r := tiered(t, 12, config.Tiers{More: []tier.Tier{g}})
	r.below(prompt, OpenOptions{})
	return r, g, func() {
		r.close()
		require.NoError(t, m.Close())
	}
}

// What came before the cache was cleared is not met after it, and does not enter the cache again.
func TestMeetsNothingOfBeforeClear(t *testing.T) {
	prompt := sequence(1, 33)
	r, g, end := meeting(t, prompt)
	x, m := r.overlapped(prompt, OpenOptions{})
	require.Equal(t, 32, m.Loading)
	for range 2 {
		g.tickets <- struct{}{}
	}
	require.Eventually(t, func() bool {
		r.pool.mu.Lock()
		defer r.pool.mu.Unlock()
		return x.seq.coming.Transfer.Between() < 8
	}, time.Minute, time.Millisecond)
	require.NoError(t, r.pool.Clear(false))
	close(g.open)
	for n := 0; n < 32; n += 4 {
		require.NoError(t, r.run(r.s, part[buffer]{x, x.rest[:4]}))
		require.Equal(t, n+4, x.seq.Len(), "nothing came")
	}
	r.drop(x)
	end()
}

// Queries of a sequence that has nothing yet change nothing of it.
func TestMeetsNotByQueries(t *testing.T) {
	prompt := sequence(1, 33)
	r, g, end := meeting(t, prompt)
	x, _ := r.overlapped(prompt, OpenOptions{})
	require.NoError(t, r.step.Reset())
	require.NoError(t, r.step.Query(x.seq, []View{{0, 0}}))
	require.NoError(t, r.step.Plan(r.s))
	require.NoError(t, r.step.Commit())
	require.Zero(t, x.seq.Len())
	close(g.open)
	r.drop(x)
	end()
}

// What is found by nobody is not met either: nothing is loaded for it in vain.
func TestMeetsOnlyWhatIsPublished(t *testing.T) {
	prompt := sequence(1, 33)
	r, g, end := meeting(t, prompt)
	r.knows()
	x, _ := r.read(prompt, OpenOptions{Overlap: true, NoPublish: true})
	require.True(t, x.seq.coming == nil || !x.seq.coming.Transfer.Meets())
	close(g.open)
	r.drop(x)
	end()
}

// The prompt is the caller's again once Open has returned.
func TestTierLoadsWhatWasOpened(t *testing.T) {
	prompt := sequence(1, 33)
	r, g, end := meeting(t, prompt)
	mine := append([]uint32(nil), prompt...)
	seq, m, err := r.pool.Open(mine, OpenOptions{})
	require.NoError(t, err)
	require.Equal(t, 32, m.Loading)
	clear(mine)
	close(g.open)
	x := &reader[buffer]{seq: seq, rest: prompt}
	require.Equal(t, 32, x.wait(r).Cached)
	require.Equal(t, 32, r.matched(prompt, OpenOptions{}))
	require.Zero(t, r.matched(make([]uint32, 33), OpenOptions{}))
	require.NoError(t, seq.Release())
	end()
}

// What is loading is of what is left, also where the cache has the beginning of a block that comes.
func TestTierLoadsTheRestOfABlock(t *testing.T) {
	prompt := sequence(1, 33)
	r, g, end := meeting(t, prompt)
	r.cache(prompt[:7], OpenOptions{NoReuse: true})
	for _, n := range []int{9, 33} {
		m, err := r.pool.Match(prompt[:n], OpenOptions{})
		require.NoError(t, err)
		require.Equal(t, Match{Cached: 7, Uncached: n - 7, MissReason: m.MissReason, Loading: n - 8}, m)
	}
	x, m := r.read(prompt, OpenOptions{})
	require.Equal(t, []int{7, 26, 25}, []int{m.Cached, m.Uncached, m.Loading})
	close(g.open)
	require.Equal(t, 32, x.wait(r).Cached)
	r.drop(x)
	end()
}

// A sequence that was changed is not the beginning of its prompt any more: nothing comes behind that.
func TestMeetsNotWhatWasChanged(t *testing.T) {
	for name, change := range map[string]func(r *rig[buffer], s *Sequence[buffer]) error{
		"shift": func(r *rig[buffer], s *Sequence[buffer]) error { return s.Shift(r.s, 0, 4) },
		"retain": func(r *rig[buffer], s *Sequence[buffer]) error {
			return s.Retain(r.s, [][]int{numbersOf(4, 20)}, RetainOptions{})
		},
	} {
		prompt := sequence(1, 33)
		r, g, end := meeting(t, prompt)
		x, _ := r.overlapped(prompt, OpenOptions{})
		require.NoError(t, r.run(r.s, part[buffer]{x, x.rest[:20]}))
		require.NotNil(t, x.seq.coming)
		require.NoError(t, change(r, x.seq))
		close(g.open)
		for n := 16; n < 32; n += 4 {
			require.Equal(t, n, x.seq.Len(), name)
			require.NoError(t, r.run(r.s, part[buffer]{x, sequence(900, 4)}))
			time.Sleep(time.Millisecond)
		}
		require.NoError(t, x.seq.Release())
		end()
	}
}

// numbersOf are the numbers from one up to another.
func numbersOf(from, to int) (all []int) {
	for i := from; i < to; i++ {
		all = append(all, i)
	}
	return all
}

// slow is a tier that forgets when it is told to go on.
type slow struct {
	tier.Tier
	asked, goes chan struct{}
}

func (s *slow) Clear(ctx context.Context, root tier.Key) error {
	close(s.asked)
	<-s.goes
	return s.Tier.Clear(ctx, root)
}

// Nothing that is to be forgotten comes back while tiers forget it, and nothing that came before is a sequence's after it.
func TestTierLoadsNothingDuringClear(t *testing.T) {
	m, err := memory.Open(memory.Options{Bytes: 16 << 20})
	require.NoError(t, err)
	on := &slow{m, make(chan struct{}), make(chan struct{})}
	r := tiered(t, 12, config.Tiers{More: []tier.Tier{on}})
	prompt := sequence(1, 33)
	r.below(prompt, OpenOptions{})
	x, match := r.read(prompt, OpenOptions{})
	require.Equal(t, 32, match.Loading)
	<-x.seq.coming.Transfer.Done
	cleared := make(chan error)
	go func() { cleared <- r.pool.Clear(true) }()
	<-on.asked
	require.Zero(t, x.wait(r).Cached)
	y, match := r.read(prompt, OpenOptions{})
	require.Zero(t, match.Cached+match.Loading)
	close(on.goes)
	require.NoError(t, <-cleared)
	require.Zero(t, r.matched(prompt, OpenOptions{}))
	r.drop(x, y)
	r.close()
	require.NoError(t, m.Close())
}

// upper is a tier that says that blocks were put into it.
type upper struct {
	tier.Tier
	put chan struct{}
}

func (u *upper) Put(ctx context.Context, blocks []tier.Block) error {
	err := u.Tier.Put(ctx, blocks)
	select {
	case u.put <- struct{}{}:
	default:
	}
	return err
}

// lower is a tier whose first loads hang until they are not wanted any more, and the others until it forgets, which is when something that
// it had was put into the upper one, or not.
type lower struct {
	tier.Tier
	hang  atomic.Int32
	hangs chan struct{}
	asked chan struct{}
	upper *upper
}

func (l *lower) Get(ctx context.Context, blocks []tier.Block) (int, error) {
	if l.hang.Add(-1) >= 0 {
		l.hangs <- struct{}{}
		<-ctx.Done()
		return 0, ctx.Err()
	}
	<-l.asked
	return l.Tier.Get(ctx, blocks)
}

func (l *lower) Clear(ctx context.Context, root tier.Key) error {
	close(l.asked)
	select {
	case <-l.upper.put:
	case <-time.After(300 * time.Millisecond):
	}
	return l.Tier.Clear(ctx, root)
}

// A load that waited for memory does not bring what tiers forget from one that still has it to one that has forgotten.
func TestTierPromotesNothingDuringClear(t *testing.T) {
	near, err := memory.Open(memory.Options{Name: "near", Bytes: 16 << 20})
	require.NoError(t, err)
	far, err := memory.Open(memory.Options{Name: "far", Bytes: 16 << 20})
	require.NoError(t, err)
	up := &upper{near, make(chan struct{}, 1)}
	down := &lower{Tier: far, hangs: make(chan struct{}), asked: make(chan struct{}), upper: up}
	r := tiered(t, 60, config.Tiers{More: []tier.Tier{up, down}})
	const loads = 4 // one more than there is memory for
	for i := range loads {
		r.below(sequence(1000*i, 33), OpenOptions{})
	}
	require.NoError(t, near.Clear(context.Background(), tier.Key{}))
	<-up.put
	down.hang.Store(loads - 1)
	var all []*reader[buffer]
	for i := range loads {
		x, match := r.read(sequence(1000*i, 33), OpenOptions{})
		require.Equal(t, 32, match.Loading)
		if all = append(all, x); i < loads-1 {
			<-down.hangs
		}
	}
	require.NoError(t, r.pool.Clear(true))
	for i, x := range all {
		require.Zero(t, x.wait(r).Cached)
		m, err := r.pool.Match(sequence(1000*i, 33), OpenOptions{})
		require.NoError(t, err)
		require.Zero(t, m.Cached+m.Loading)
	}
	require.Zero(t, near.Stats().Blocks)
	r.drop(all...)
	r.close()
	require.NoError(t, errors.Join(near.Close(), far.Close()))
}

// A block that others computed takes the place of one that a tier brings. Where their step fails the sequence that waits does not have it.
func TestTierBringsNothingThatFailed(t *testing.T) {
	for _, fails := range []bool{false, true} {
		m, err := memory.Open(memory.Options{Bytes: 16 << 20})
		require.NoError(t, err)
		g := &gated{m, make(chan struct{}, 100), make(chan struct{})}
		cfg := small(LayoutUnset)
		cfg.Memory.BlockSize, cfg.Memory.Blocks, cfg.Memory.Prefix, cfg.Tiers = 4, 24, prefix.LRU, config.Tiers{More: []tier.Tier{g}}
		r, dev, be := lateRig(t, cfg)
		s2, err := dev.NewStream()
		require.NoError(t, err)
		prompt := sequence(1, 33)
		r.below(prompt, OpenOptions{})
		x, match := r.read(prompt, OpenOptions{})
		require.Equal(t, 32, match.Loading)
		if fails {
			dev.failEvents(s2, errBoom)
		}
		r.pool.mu.Lock()
		r.pool.parts.Blocks.OnWriting = nil // nobody but the load waits for the step
		r.pool.mu.Unlock()
		other, _ := r.read(prompt[:13], OpenOptions{NoReuse: true})
		require.NoError(t, r.prefill(s2, other))
		close(g.open)
		<-x.seq.coming.Transfer.Done
		had := x.wait(r)
		dev.SetFault(nil)
		if fails {
			if had.Cached > 0 { // the step had failed before the tier's blocks came, which are in its blocks' place
				require.Equal(t, 32, had.Cached)
				require.NotEqual(t, other.seq.runs.In[0].Kept.Blocks[:3], x.seq.runs.In[0].Kept.Blocks[:3])
			} else {
				require.Zero(t, r.matched(prompt, OpenOptions{}), "what hangs on a failed block is not found, either")
			}
			require.ErrorIs(t, r.step.Add(other.seq, sequence(9, 1)), errBoom)
		} else {
			require.Equal(t, 32, had.Cached)
		}
		require.NoError(t, r.prefill(r.s, x))
		r.check(r.s, x)
		require.NoError(t, errors.Join(x.seq.Release(), other.seq.Release(), s2.Sync(), s2.Close()))
		r.flush()
		closeLate(t, r, dev, be)
	}
}

// asked is a tier that has something happen when it is asked what it has.
type asked struct {
	tier.Tier
	then atomic.Pointer[func()]
}

func (a *asked) Has(ctx context.Context, keys []tier.Key) (int, error) {
	if then := a.then.Swap(nil); then != nil {
		(*then)()
	}
	return a.Tier.Has(ctx, keys)
}

// A sequence that got lossy content, which it accepts and which came while tiers were asked, is not extended by what they have exactly: what
// it computes after that is not what its tokens alone would say.
func TestTierDoesNotMakeLossyContentExact(t *testing.T) {
	defer func(wait, least time.Duration) { findWait, findLeast = wait, least }(findWait, findLeast)
	findWait, findLeast = time.Minute, time.Minute
	for _, overlap := range []bool{false, true} {
		m, err := memory.Open(memory.Options{Bytes: 16 << 20})
		require.NoError(t, err)
		a := &asked{Tier: m}
		r := tiered(t, 30, config.Tiers{More: []tier.Tier{a}})
		prompt := append(sequence(1, 4), sequence(10, 29)...)
		r.below(prompt, OpenOptions{})
		then := func() { // the same tokens, of which those after the first four were computed after others
			s, _, err := r.pool.Open(nil, OpenOptions{})
			require.NoError(t, err)
			require.NoError(t, r.feed(feed[buffer]{s, append(append(sequence(1, 4), sequence(90, 4)...), prompt[4:12]...)}))
			require.NoError(t, s.Shift(r.s, 4, 8))
			require.NoError(t, r.feed2(s, prompt[12:16]))
			require.NoError(t, s.Release())
			require.NoError(t, r.step.Reset())
		}
		if overlap {
			r.knows()
		}
		a.then.Store(&then)
		s, found, err := r.pool.Open(prompt, OpenOptions{Accept: prefix.Truncated, Overlap: overlap})
		require.NoError(t, err)
		require.Equal(t, 16, found.Cached)
		require.NotZero(t, s.text.Fidelity)
		lossy := s.Blocks(nil)[1]
		got, err := s.Wait(t.Context())
		require.NoError(t, err)
		if s.Blocks(nil)[1] == lossy {
			require.NotZero(t, s.text.Fidelity, "it has lossy blocks")
		}
		require.NoError(t, r.feed2(s, prompt[got.Cached:]))
		require.NoError(t, r.feed2(s, sequence(200, 7)))
		require.NotZero(t, s.text.Fidelity)
		all := append(append([]uint32(nil), prompt...), sequence(200, 7)...)
		require.NoError(t, s.Release())
		r.idle()
		exact, err := r.pool.Match(all, OpenOptions{})
		require.NoError(t, err)
		require.LessOrEqual(t, exact.Cached, 32)
		r.close()
		require.NoError(t, m.Close())
	}
}
