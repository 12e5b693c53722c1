package prefix

import (
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ferrumkv/ferrumkv/kvcache/block"
	"github.com/stretchr/testify/require"
)

// Concurrent users: a lock guards what changes something, as a pool does; lookups and
// counts run beside it at any time.
func TestConcurrentUse(t *testing.T) {
	alloc, err := block.New(60)
	require.NoError(t, err)
	tree, err := New(alloc, Config{BlockSize: 2, MinPrefix: 1, MaxOffloaded: 40, Demote: func(b block.Block, _ Key) bool { return b.ID%8 > 0 }})
	require.NoError(t, err)
	roots := []Root{fingerprint.Root(Scope{}), salted("a"), salted("b")}
	var lock sync.Mutex // guards alloc
	var users, readers sync.WaitGroup
	stop := make(chan struct{})
	var promoted atomic.Int64

	prompt := func(rng *rand.Rand) []uint32 {
		tokens := make([]uint32, rng.IntN(20))
		for i := range tokens {
			tokens[i] = uint32(rng.IntN(2))
		}
		return tokens
	}
	serve := func(root Root, tokens []uint32) error {
		q := Query{Tokens: tokens}
		_, m := tree.Lookup(nil, root, q) // not under the lock: Take finds out
		lock.Lock()
		blocks, m, err := tree.Take(nil, root, q, RetentionHint{TTL: time.Hour}, m)
		if err == nil && m.Tail > 0 {
			err = tree.Release(blocks[m.Blocks:])
			blocks = blocks[:m.Blocks]
		}
		need := (len(tokens)+1)/2 - m.Blocks
		keys := tree.OffloadedKeys(nil, root, q, m)
		if err == nil && alloc.Free() < need && !tree.Evict(need-alloc.Free(), root) {
			err = tree.Release(blocks)
			lock.Unlock()
			return err
		}
		var fresh []block.Block
		if err == nil {
			fresh, err = alloc.AllocateN(nil, need)
		}
		p := Path{Root: root}
		if m.Blocks > 0 {
			p.Parent = blocks[m.Blocks-1]
		}
		loaded := 0
		if err == nil && len(keys) <= len(fresh) && len(tokens)%3 > 0 { // else all is computed
			if loaded, err = tree.Promote(p.Parent, keys, fresh[:len(keys)], RetentionHint{}); loaded > 0 {
				p.Parent = fresh[loaded-1]
				promoted.Add(1)
			}
		}
		lock.Unlock()
		if err != nil {
			return err
		}
		lock.Lock()
		defer lock.Unlock()
		_, old, err := tree.Insert(nil, p, tokens[(m.Blocks+loaded)*2:], fresh[loaded:])
		return errors.Join(err, tree.Release(old), tree.Release(append(blocks, fresh...)))
	}
	for i := range 4 {
		users.Add(1)
		go func() {
			defer users.Done()
			rng := rand.New(rand.NewPCG(uint64(i), 1))
			for range 300 {
				if err := serve(roots[rng.IntN(3)], prompt(rng)); err != nil {
					t.Error(err)
					return
				}
			}
		}()
	}
	users.Add(1)
	go func() { // an operator
		defer users.Done()
		rng := rand.New(rand.NewPCG(9, 1))
		for i := range 300 {
			lock.Lock()
			switch i % 6 {
			case 0:
				_ = tree.SetLimits(roots[rng.IntN(3)], Limits{Quota: rng.IntN(30)})
			case 1:
				if l, err := tree.Pin(roots[rng.IntN(3)], Query{Tokens: prompt(rng)}, time.Hour); err == nil {
					if err := tree.Unpin(l); err != nil {
						t.Error(err)
					}
				}
			case 2:
				s, _ := tree.Subscribe(1)
				tree.Unsubscribe(s)
			case 3:
				tree.EvictAny(1)
			case 4:
				for key := range tree.offloaded.numbers { // as a tier knows them
					tree.Drop(key)
					break
				}
			case 5:
				if err := tree.Check(); err != nil {
					t.Error(err)
				}
			}
			lock.Unlock()
		}
	}()
	for i := range 3 {
		readers.Add(1)
		go func() {
			defer readers.Done()
			rng := rand.New(rand.NewPCG(uint64(i), 2))
			for {
				select {
				case <-stop:
					return
				default:
				}
				root, q := roots[rng.IntN(3)], Query{Tokens: prompt(rng)}
				blocks, m := tree.Lookup(nil, root, q)
				if len(blocks) < m.Blocks || m.Tokens > len(q.Tokens) {
					t.Error("a match of more than was asked for")
				}
				if m := tree.Match(root, q); len(tree.OffloadedKeys(nil, root, q, m)) > len(q.Tokens)/2 {
					t.Error("more is away than was asked for")
				}
				if s := tree.Stats(); s.Blocks != s.Cached+s.Held {
					t.Error("numbers of two moments")
				}
				tree.SaltStats(root)
				tree.Evictable(root)
				tree.Replacements(nil, Path{Root: root}, q.Tokens)
				if len(blocks) > 0 {
					tree.Has(blocks[0])
				}
				runtime.Gosched()
			}
		}()
	}
	users.Wait()
	close(stop)
	readers.Wait()
	require.NoError(t, tree.Check())
	require.Positive(t, promoted.Load())
	require.Zero(t, alloc.Held())
	require.NoError(t, tree.Clear(false))
	require.Equal(t, 60, alloc.Free())
}
