package kvcache

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
	"github.com/stretchr/testify/require"
)

// Bugs that earlier systems had with prefixes, each shown not to be here.

// Copy-on-write was a flag only: decoding changed cached blocks, and the same prompt
// gave another text the next time.
func TestRegressionF9DecodeChangesCachedBlocks(t *testing.T) {
	r := reuseRig(t, 40)
	for n := 5; n <= 9; n++ {
		for i := range 4 {
			a, _ := r.serve(sequence(1, n), OpenOptions{})
			b, err := a.seq.Fork()
			require.NoError(t, err)
			fork := *a
			fork.seq = b
			for j := range 6 {
				require.NoError(t, r.run(r.s, part[buffer]{a, []uint32{uint32(100*i + j)}}))
				require.NoError(t, r.run(r.s, part[buffer]{&fork, []uint32{uint32(1000*i + j)}}))
			}
			c, m := r.read(sequence(1, n), OpenOptions{})
			require.GreaterOrEqual(t, m.Cached, 4)
			r.drop(a, &fork, c)
		}
	}
	r.close()
}

// A prompt of whole blocks that was cached entirely left the device's table unwritten,
// and the last block was computed again in place while others read it.
func TestRegressionF16F17WholePromptCached(t *testing.T) {
	r := reuseRig(t, 40)
	prompt := sequence(1, 8)
	a, _ := r.serve(prompt, OpenOptions{})
	b, m := r.read(prompt, OpenOptions{})
	require.Equal(t, Match{Cached: 7, Uncached: 1}, m)
	require.Equal(t, a.numbers(), b.numbers())
	layers, err := b.seq.Layers(r.s)
	require.NoError(t, err)
	table, length := make([]uint32, 2), make([]uint32, 1)
	require.NoError(t, backend.Download(r.be, r.s, table, layers[0].BlockTable.Buf, 0))
	require.NoError(t, backend.Download(r.be, r.s, length, layers[0].ContextLens.Buf, 0))
	require.Equal(t, a.numbers(), table)
	require.Equal(t, []uint32{7}, length)
	require.NoError(t, r.enqueue(r.s, part[buffer]{b, prompt[7:]}))
	ix, err := r.step.Metadata(0)
	require.NoError(t, err)
	slot := make([]int64, 1)
	require.NoError(t, backend.Download(r.be, r.s, slot, ix.Slots, 0))
	require.NotEqual(t, int64(a.numbers()[1])*4+3, slot[0], "in place")
	require.NoError(t, r.committed(part[buffer]{b, prompt[7:]}))
	require.NoError(t, r.step.Reset())
	require.Equal(t, a.numbers(), b.numbers(), "the copy is the same, and given up")
	r.drop(a, b)
	r.close()
}

// What a hash says was believed, without a look at the tokens; and what was used most
// recently was the first to be reused.
func TestRegressionF18HashIsNotEnough(t *testing.T) {
	r := reuseRig(t, 8)
	prompts := [][]uint32{{1, 2, 3, 4, 9}, {2, 1, 3, 4, 9}, {1, 2, 3, 5, 9}, {1<<8 | 2, 0, 3, 4, 9}, {0, 0, 0, 0, 9}, {0, 0, 0, 1 << 31, 9}}
	for i, p := range prompts {
		for _, later := range prompts[i+1:] {
			require.Less(t, r.matched(later, OpenOptions{}), 4)
		}
		r.cache(p[:4], OpenOptions{})
		require.Equal(t, 4, r.matched(p, OpenOptions{}))
	}
	hot, _ := r.read(prompts[0], OpenOptions{})
	r.drop(hot)
	a, _ := r.serve(sequence(50, 28), OpenOptions{})
	require.Equal(t, 4, r.matched(prompts[0], OpenOptions{}))
	r.drop(a)
	r.close()
}

// A query that left a stored prompt inside of an edge found nothing, or panicked.
func TestRegressionDivergenceInsideAnEdge(t *testing.T) {
	r := reuseRig(t, 40)
	r.cache(sequence(1, 8), OpenOptions{})
	for at := range 8 {
		p := sequence(1, 12)
		p[at] = 99
		a, m := r.serve(p, OpenOptions{NoPublish: true})
		require.Equal(t, at, m.Cached)
		r.drop(a)
	}
	r.close()
}

// A snapshot was longer than the prompt under which it was stored: the position after
// reuse was wrong.
func TestRegressionPositionIsTheMatch(t *testing.T) {
	r := reuseRig(t, 40)
	a, _ := r.serve(sequence(1, 6), OpenOptions{})
	require.NoError(t, r.run(r.s, part[buffer]{a, sequence(50, 12)}))
	r.drop(a)
	b, m := r.read(sequence(1, 6), OpenOptions{})
	require.Equal(t, 5, m.Cached) // its last block goes on with what was generated
	require.Equal(t, 5, b.seq.Len())
	require.NoError(t, r.prefill(r.s, b))
	r.drop(b)
	r.close()
}

// A Shift over published blocks takes nothing from those who read them.
func TestShiftOverPublishedBlocks(t *testing.T) {
	r := reuseRig(t, 40)
	for _, cut := range [][2]int{{0, 4}, {4, 8}, {2, 5}, {5, 12}, {9, 12}} {
		a, _ := r.serve(sequence(1, 13), OpenOptions{})
		b, _ := r.read(sequence(1, 13), OpenOptions{})
		require.NoError(t, a.seq.Shift(r.s, cut[0], cut[1]))
		gone := cut[1] - cut[0]
		kept := slices.Clone(a.want[:cut[0]])
		for _, tk := range a.want[cut[1]:] {
			kept = append(kept, token{tk.id, tk.turn - gone})
		}
		a.tokens, a.want = append(slices.Clone(a.tokens[:cut[0]]), a.tokens[cut[1]:]...), kept
		require.NoError(t, r.run(r.s, part[buffer]{a, sequence(60, 5)}))
		c, m := r.read(sequence(1, 13), OpenOptions{})
		require.Equal(t, 12, m.Cached)
		r.drop(a, b, c)
		require.NoError(t, r.pool.Check())
	}
	r.close()
}

// Goroutines that share prefixes, each with its own step: neither races nor wrong
// content, whatever is cleared, pinned and watched meanwhile.
func TestReuseByConcurrentUsers(t *testing.T) {
	be := openDevice(t)
	cfg := small(Paged)
	cfg.Model.Layers, cfg.Memory.Blocks = 1, 48
	r := newRig(t, be, cfg)
	var failed atomic.Bool
	var users sync.WaitGroup
	for u := range 4 {
		users.Add(1)
		go func() {
			defer users.Done()
			if err := useConcurrently(r, uint32(u)); err != nil {
				t.Error(err)
				failed.Store(true)
			}
		}()
	}
	stop := make(chan struct{})
	var others sync.WaitGroup
	calls := 0
	for _, work := range []func() error{
		func() error { _, err := r.pool.Match(sequence(1, 13), OpenOptions{}); return err },
		func() error { _, err := r.pool.Stats(); return err },
		func() error {
			l, err := r.pool.Pin(sequence(1, 9), time.Minute, OpenOptions{})
			if errors.Is(err, ErrOutOfBlocks{}) {
				return nil
			}
			return cmp.Or(err, r.pool.Unpin(l))
		},
		func() error {
			sub, _, err := r.pool.Watch(3)
			for range min(len(sub.C), 2) {
				<-sub.C
			}
			r.pool.Unwatch(sub)
			return err
		},
		func() error {
			if calls++; calls%100 != 0 { // at times there is something to clear
				return nil
			}
			return r.pool.Clear(true)
		},
		func() error { _, err := r.pool.SaltStats(prefix.Scope{}); return cmp.Or(err, r.pool.Check()) },
	} {
		others.Add(1)
		go func() {
			defer others.Done()
			for {
				select {
				case <-stop:
					return
				default:
					if err := work(); err != nil && !errors.Is(err, prefix.ErrLeaseEnded) {
						t.Error(err)
						return
					}
					time.Sleep(20 * time.Microsecond) // the users are to meet it, not to wait for it
				}
			}
		}()
	}
	users.Wait()
	close(stop)
	others.Wait()
	require.False(t, failed.Load())
	r.close()
}

// useConcurrently serves prompts that others serve, too, forks them and decodes.
func useConcurrently(shared *rig[buffer], u uint32) error {
	s, err := shared.be.NewStream()
	if err != nil {
		return err
	}
	r := shared.on(s)
	for i := range 60 {
		x, _ := r.read(append(sequence(1, 4*(i%3)+1), u, uint32(i%5), 7), OpenOptions{})
		if err := r.prefill(s, x); err != nil {
			return fmt.Errorf("user %d: %w", u, err)
		}
		child := *x
		if child.seq, err = x.seq.Fork(); err != nil {
			return err
		}
		for range 4 {
			if err := r.run(s, part[buffer]{x, []uint32{5}}, part[buffer]{&child, []uint32{5}}); err != nil {
				return err
			}
		}
		r.check(s, x)
		r.check(s, &child)
		if err := errors.Join(x.seq.Release(), child.seq.Release()); err != nil {
			return err
		}
	}
	return errors.Join(r.step.Close(), s.Close())
}
