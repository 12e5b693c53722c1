package host

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
)

// hostModelCache is a PrefixKvCache as a map of all blocks by the tokens up to their end,
// with the moment when each was last used. It evicts by looking at everything.
type hostModelCache struct {
	cfg   PrefixCacheConfig
	clock int
	used  map[string]int
	data  map[string]*float32 // where the content of a block is
}

func hostPath(scope int, tokens []uint32) string { return fmt.Sprint(scope, tokens) }

// blocksOf are the paths of a prompt's blocks.
func (m *hostModelCache) blocksOf(scope int, tokens []uint32) []string {
	var out []string
	for end := m.cfg.BlockSize; end < len(tokens); end += m.cfg.BlockSize {
		out = append(out, hostPath(scope, tokens[:end]))
	}
	return append(out, hostPath(scope, tokens))
}

// extends reports whether block b lies after or is block a.
func extends(a, b string) bool {
	a = a[:len(a)-1]
	return len(b) > len(a) && b[:len(a)] == a && (b[len(a)] == ' ' || b[len(a)] == ']')
}

// find is the longest beginning of a prompt that some block's path begins with.
func (m *hostModelCache) find(scope int, tokens []uint32) int {
	for n := len(tokens); n > 0; n-- {
		for b := range m.used {
			if extends(hostPath(scope, tokens[:n]), b) {
				return n
			}
		}
	}
	return 0
}

// use makes the blocks that hold a prompt, which is known, the most recent ones. Where it
// ends inside of a block there may be several that begin alike: tail says which it is.
func (m *hostModelCache) use(t *rapid.T, scope int, tokens []uint32, tail *float32) {
	path := m.blocksOf(scope, tokens)
	end := &path[len(path)-1]
	for b := range m.used {
		if m.used[*end] == 0 && m.data[b] == tail {
			require.True(t, extends(*end, b), "%s is not %s", b, *end)
			*end = b
		}
	}
	for _, b := range slices.Backward(path) { // the end is the first to go
		require.NotZero(t, m.used[b])
		m.clock++
		m.used[b] = m.clock
	}
}

// tail is the content of the last block that c finds for a prompt.
func (c prefixes) tail(tokens []uint32) *float32 {
	path, _ := c.store.tree.Lookup(nil, c.root, prefix.Query{Tokens: tokens})
	if len(path) == 0 {
		return nil
	}
	return &c.store.slots[path[len(path)-1].ID].data[0]
}

func (m *hostModelCache) length(b string) int {
	n := 0
	for _, r := range b {
		if r == ' ' {
			n++
		}
	}
	return n
}

func (m *hostModelCache) ends() []string {
	var out []string
	for a := range m.used {
		if !slices.ContainsFunc(m.all(), func(b string) bool { return a != b && extends(a, b) }) {
			out = append(out, a)
		}
	}
	return out
}

func (m *hostModelCache) all() []string {
	out := make([]string, 0, len(m.used))
	for b := range m.used {
		out = append(out, b)
	}
	return out
}

// store stores what c has stored. tail is where it had the prompt's end before.
func (m *hostModelCache) store(t *rapid.T, scope int, tokens []uint32, tail *float32, c prefixes) {
	if m.find(scope, tokens) < len(tokens) {
		for i, b := range m.blocksOf(scope, tokens) {
			m.used[b] = max(m.used[b], 1)
			m.data[b] = c.tail(tokens[:min((i+1)*m.cfg.BlockSize, len(tokens))])
		}
		for _, b := range m.ends() { // a partial block that this prompt goes on from
			for a := range m.used {
				if a != b && extends(a, b) && m.length(a)%m.cfg.BlockSize != 0 {
					delete(m.used, a)
				}
			}
		}
	}
	m.use(t, scope, tokens, tail)
	for ends := m.ends(); len(ends) > m.cfg.MaxEntries; ends = m.ends() {
		delete(m.used, slices.MinFunc(ends, func(a, b string) int { return m.used[a] - m.used[b] }))
	}
}

// Random histories of stores and lookups in several scopes: what is found, how long
// it is, what it holds, what is evicted and how many entries there are is what a map
// says.
func TestPrefixKvCacheModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := PrefixCacheConfig{
			MaxEntries: rapid.IntRange(1, 5).Draw(t, "entries"), BlockSize: rapid.IntRange(1, 4).Draw(t, "block size"),
			MinPrefixLen: rapid.IntRange(1, 3).Draw(t, "min length"),
		}
		made, err := NewPrefixKvCache[float32](cfg)
		require.NoError(t, err)
		c := prefixes{made}
		m := &hostModelCache{cfg: cfg, used: map[string]int{}, data: map[string]*float32{}}
		views := []prefixes{c, c.scoped(prefix.Scope{Salt: []byte("b")})}
		hits, misses := uint64(0), uint64(0)
		for range rapid.IntRange(1, 25).Draw(t, "steps") {
			scope := rapid.IntRange(0, 1).Draw(t, "scope")
			tokens := rapid.SliceOfN(rapid.Uint32Range(1, 2), 0, 10).Draw(t, "tokens")
			if rapid.Bool().Draw(t, "store") {
				longer := append(slices.Clone(tokens), 9, 9)
				tail := views[scope].tail(tokens)
				stored, err := views[scope].Store(tokens, hostCache(uint64(scope), hostShape, longer))
				require.NoError(t, err)
				require.Equal(t, len(tokens) >= cfg.MinPrefixLen, stored)
				if stored {
					m.store(t, scope, tokens, tail, views[scope])
				}
			} else {
				want, tail := m.find(scope, tokens), views[scope].tail(tokens)
				n, s, ok := views[scope].Lookup(tokens)
				if want < cfg.MinPrefixLen {
					misses++
					require.False(t, ok)
				} else {
					hits++
					require.Equal(t, want, n)
					requireState(t, uint64(scope), s, tokens[:n])
					m.use(t, scope, tokens[:n], tail)
				}
			}
			c.verify(t)
			require.Equal(t, []uint64{hits, misses}, []uint64{c.Hits(), c.Misses()})
			require.Equal(t, len(m.ends()), c.Len(), "%v", m.used)
			require.Equal(t, len(m.used), c.store.tree.Stats().Blocks)
		}
	})
}

// Many users of one cache, small enough that everything is evicted all the time, see
// right content only, at once and later.
func TestPrefixKvCacheConcurrent(t *testing.T) {
	c := newHostPrefix(t, PrefixCacheConfig{MaxEntries: 6, MaxBytes: 12_000, BlockSize: 4})
	scopes := []prefix.Scope{{}, {Salt: []byte("a")}}
	var users sync.WaitGroup
	for u := range 6 {
		users.Go(func() {
			rng := rand.New(rand.NewPCG(1, uint64(u)))
			scope := uint64(u % 2)
			view := c.scoped(scopes[scope])
			type memory struct {
				state  *CachedKvState[float32]
				tokens []uint32
			}
			var kept []memory
			for i := range 400 {
				tokens := append(prompt(100*rng.IntN(3), 4+rng.IntN(12)), prompt(10*rng.IntN(4), rng.IntN(9))...)
				switch rng.IntN(8) {
				case 0, 1, 2:
					if _, err := view.Store(tokens, hostCache(scope, hostShape, tokens)); err != nil {
						t.Error(err)
					}
				case 3:
					if len(kept) > 0 {
						old := kept[rng.IntN(len(kept))]
						if _, err := view.StoreSnapshot(old.tokens, old.state); err != nil {
							t.Error(err)
						}
					}
				case 4:
					_ = c.Len() + int(c.MemoryUsage()) + int(c.Hits()+c.Misses())
					if i%100 == 99 {
						c.Clear()
					}
				default:
					if n, s, ok := view.Lookup(tokens); ok {
						kept = append(kept, memory{s, tokens[:n]})
					}
				}
			}
			for _, m := range kept {
				requireState(t, scope, m.state, m.tokens)
			}
		})
	}
	users.Wait()
}

// Any bytes are a history that leaves the cache sound, within its limits, and right.
func FuzzPrefixKvCache(f *testing.F) {
	f.Add([]byte{2, 3, 0, 5, 1, 1, 2, 1, 1, 1, 4, 1, 1, 2, 2, 2, 6, 1, 2, 1, 2, 1, 2})
	f.Add(binary.BigEndian.AppendUint64(nil, 0x0140_0f01_0203_0405))
	f.Fuzz(func(t *testing.T, history []byte) {
		next := func() int {
			if len(history) == 0 {
				return 0
			}
			b := history[0]
			history = history[1:]
			return int(b)
		}
		made, err := NewPrefixKvCache[float32](PrefixCacheConfig{
			BlockSize: 1 + next()%20, MaxEntries: 1 + next()%8, MaxBytes: int64(1000 + 100*next()), MinPrefixLen: 1 + next()%5,
		})
		require.NoError(t, err)
		c := prefixes{made}
		var state *CachedKvState[float32]
		var known []uint32
		for range min(len(history), 100) {
			op := next()
			tokens := make([]uint32, next()%40)
			for i := range tokens {
				tokens[i] = uint32(next() % 3)
			}
			switch op % 4 {
			case 0, 1:
				_, err = c.Store(tokens, hostCache(0, hostShape, tokens))
			case 2:
				if n, s, ok := c.Lookup(tokens); ok {
					state, known = s, tokens[:n]
				}
			case 3:
				if state != nil {
					_, err = c.StoreSnapshot(known, state)
				}
			}
			if err != nil {
				require.ErrorIs(t, err, ErrOversize{})
				err = nil
			}
			if state != nil {
				requireState(t, 0, state, known)
			}
			c.verify(t)
			c.find(t, tokens...)
		}
	})
}
