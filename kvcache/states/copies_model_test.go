// Random histories of stores over one tier, which loses blocks.

package states

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/internal/testutil/testsize"
	"github.com/ferrumkv/ferrumkv/kvcache/tier"
)

// crowd is stores over a tier, and what may be found: the state of each store, and the one that was copied last.
type crowd struct {
	t      *testing.T
	random *rand.Rand
	tier   *shared
	keys   []tier.Key // that were put
	stores []*Store
	here   []map[ID][]byte
	copies map[ID][]byte
	lossy  bool
}

func (c *crowd) key() Key {
	n := c.random.IntN(6)
	k := long([]int{3, 256, 300, 520, 800, 1100}[n])
	k.Salt = string(rune('a' + c.random.IntN(2)))
	return k
}

// lose has the tier lose some of what it has.
func (c *crowd) lose() {
	for range c.random.IntN(4) {
		if len(c.keys) > 0 {
			require.NoError(c.t, c.tier.Tier.Delete(ctx, []tier.Key{c.keys[c.random.IntN(len(c.keys))]}))
		}
	}
}

func (c *crowd) put(at int) {
	k := c.key()
	content := append(noise(uint64(len(k.Tokens)), c.random.IntN(40_000)), noise(c.random.Uint64(), c.random.IntN(20_000))...)
	info, err := c.stores[at].Put(ctx, k, PutOptions{}, sources([][]byte{content})...)
	require.NoError(c.t, err)
	c.stores[at].settled()
	c.here[at][info.ID], c.copies[info.ID] = content, content
}

// found is that a store has what it found, from where it was.
func (c *crowd) found(at int, info Info) {
	parts, err := c.stores[at].Get(ctx, info.ID, nil)
	require.NoError(c.t, err)
	want, ok := c.here[at][info.ID]
	if !ok || !bytes.Equal(want, parts[0].Bytes) { // it is not here, or was evicted
		want, ok = c.copies[info.ID]
	}
	require.True(c.t, ok && bytes.Equal(want, parts[0].Bytes))
	c.here[at][info.ID] = parts[0].Bytes
}

func (c *crowd) fetch(at int) {
	k := c.key()
	info, err := c.stores[at].Fetch(ctx, k)
	if err == nil {
		c.found(at, info)
		return
	}
	require.ErrorIs(c.t, err, ErrMiss{})
	_, copied := c.copies[c.stores[at].names.id(&k)]
	require.True(c.t, c.lossy || !copied)
}

func (c *crowd) near(at int) {
	k := c.key()
	s := c.stores[at]
	_, most, _ := s.Nearest(k.Identity, k.Tokens)
	for id := range c.copies {
		for _, n := range []int{3, 256, 300, 520, 800, 1100} {
			other := long(n)
			if other.Salt = k.Salt; s.names.id(&other) == id {
				most = max(most, common(other.Tokens, k.Tokens))
			}
		}
	}
	find := s.FetchNearest
	if c.random.IntN(3) == 0 {
		find, most = s.FetchWhole, 0
	}
	info, n, err := find(ctx, k.Identity, k.Tokens)
	if err == nil {
		c.found(at, info)
	} else {
		require.ErrorIs(c.t, err, ErrMiss{})
	}
	require.True(c.t, c.lossy || n > most-stride, "%d of %d", n, most)
}

func (c *crowd) remove(at int) {
	k := c.key()
	if c.random.IntN(4) == 0 {
		_, err := c.stores[at].Clear(k.Salt)
		require.NoError(c.t, err)
		for _, n := range []int{3, 256, 300, 520, 800, 1100} {
			other := long(n)
			other.Salt = k.Salt
			id := c.stores[at].names.id(&other)
			delete(c.here[at], id)
			delete(c.copies, id)
		}
		return
	}
	id := c.stores[at].names.id(&k)
	next, copied := c.stores[at].nextTo(&state{Info: Info{ID: id, Key: k}})
	copied = copied && c.copies[next] != nil
	if err := c.stores[at].Delete(id); errors.Is(err, ErrMiss{}) {
		copied = false
	} else {
		require.NoError(c.t, err)
	}
	c.stores[at].settled()
	delete(c.here[at], id)
	delete(c.copies, id)
	if copied {
		c.copies[next] = c.here[at][next]
	}
}

func TestCopiesRandom(t *testing.T) {
	for i, o := range []Options{{}, {Secret: secret}} {
		for _, lossy := range []bool{false, true} {
			t.Run(fmt.Sprint(i, lossy), func(t *testing.T) {
				c := &crowd{t: t, random: rand.New(rand.NewPCG(uint64(i), 7)), tier: openShared(t), copies: map[ID][]byte{}, lossy: lossy}
				c.tier.puts = func(b []tier.Block) []tier.Block {
					for i := range b {
						c.keys = append(c.keys, b[i].Key)
					}
					return b
				}
				for range 3 {
					with := o
					if lossy {
						with.Bytes = 150 * blockBytes
					}
					c.stores, c.here = append(c.stores, over(t, c.tier, with)), append(c.here, map[ID][]byte{})
				}
				calls := 300
				if testsize.Full() {
					calls = 3000
				}
				for range calls {
					at := c.random.IntN(3)
					switch n := c.random.IntN(20); {
					case n < 7:
						c.put(at)
					case n < 12:
						c.fetch(at)
					case n < 18:
						c.near(at)
					case n < 19 && !lossy:
					case n < 19:
						c.lose()
					default:
						c.remove(at)
					}
				}
				for _, s := range c.stores {
					requireTidy(t, s)
				}
			})
		}
	}
}

// All calls at once, of two stores: what is found is one of what was put, and whole.
func TestCopiesTogether(t *testing.T) {
	c := openShared(t)
	var rewritten atomic.Bool
	on := quick
	on.flush = func(*os.File) error { rewritten.Store(true); return nil } // as no Put does here
	stores := []*Store{over(t, c, Options{Bytes: 200 * blockBytes, disk: &on}), over(t, c, Options{disk: &on})}
	rewritten.Store(false)                       // but for meta.json
	content := func(k Key, version int) []byte { // of which several versions share a half, and packs have several blocks
		return append(noise(1, 15_000+len(k.Tokens)), noise(uint64(version), 15_000)...)
	}
	var all sync.WaitGroup
	for i := range 6 {
		all.Go(func() {
			random, s := rand.New(rand.NewPCG(uint64(i), 9)), stores[i%2]
			for range 40 {
				k := long(200 * random.IntN(5))
				var info Info
				var err error
				short, cancel := context.WithCancel(ctx)
				switch random.IntN(10) {
				case 0:
					err = s.Delete(s.names.id(&k))
				case 1:
					_, err = s.Clear("a")
				case 2, 3, 4:
					_, err = s.Put(ctx, k, PutOptions{}, sources([][]byte{content(k, random.IntN(3))})...)
				case 5:
					go cancel()
					info, err = s.Fetch(short, k)
				case 6:
					info, _, err = s.FetchWhole(short, llama, k.Tokens)
				default:
					info, _, err = s.FetchNearest(short, llama, k.Tokens)
				}
				cancel()
				if err == nil && info.ID != (ID{}) {
					var parts []Part
					parts, err = s.Get(ctx, info.ID, nil)
					is := func(version int) bool { return bytes.Equal(parts[0].Bytes, content(info.Key, version)) }
					if err == nil && !is(0) && !is(1) && !is(2) {
						t.Error("a state that nobody has put")
					}
				}
				if err != nil && !errors.Is(err, ErrMiss{}) && !errors.Is(err, ErrFull{}) && !errors.Is(err, context.Canceled) && !errors.Is(err, ErrCopies{}) {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	require.True(t, rewritten.Load(), "packs")
	for _, s := range stores {
		s.settled()
		requireTidy(t, s)
		require.Zero(t, s.Stats().Damaged)
	}
}
