package disk

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ferrumkv/ferrumkv/internal/seal"
	"github.com/ferrumkv/ferrumkv/kvcache/tier"
)

// model is what a tier should have: a list of blocks, the least recently used one first.
type model struct {
	blocks []tier.Block
	slots  int
}

func (m *model) find(k tier.Key) int {
	return slices.IndexFunc(m.blocks, func(b tier.Block) bool { return b.Key == k })
}

func (m *model) use(k tier.Key) bool {
	i := m.find(k)
	if i >= 0 {
		m.blocks = append(slices.Delete(slices.Clone(m.blocks), i, i+1), m.blocks[i])
	}
	return i >= 0
}

func (m *model) put(blocks []tier.Block) {
	declined := map[tier.Key]bool{}
	for _, b := range blocks {
		if m.use(b.Key) {
			continue
		}
		if !declined[b.Parent] && (len(m.blocks) < m.slots || m.giveUp(b.Parent)) {
			m.blocks = append(m.blocks, b)
		} else {
			declined[b.Key] = true
		}
	}
}

// giveUp takes the least recently used block out that is no parent.
func (m *model) giveUp(except tier.Key) bool {
	for i, b := range m.blocks {
		child := func(c tier.Block) bool { return c.Parent == b.Key }
		if b.Key != except && !slices.ContainsFunc(m.blocks, child) {
			m.blocks = slices.Delete(m.blocks, i, i+1)
			return true
		}
	}
	return false
}

// Histories of calls and reopenings leave exactly what a naive model has.
func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := options(newMemoryFS(), rapid.IntRange(1, 12).Draw(t, "slots"))
		if rapid.Bool().Draw(t, "encrypted") {
			o.Secret = make([]byte, seal.SecretBytes)
		}
		o.Durable = rapid.Bool().Draw(t, "durable")
		o.step = rapid.SampledFrom([]int64{1, 5 * page, 1 << 30}).Draw(t, "step")
		m := &model{slots: int((o.Bytes - 3*page) / (2*page + entryBytes))}
		d, err := Open(o)
		require.NoError(t, err)
		chain := rapid.Custom(func(t *rapid.T) []tier.Block {
			first := rapid.IntRange(0, 5).Draw(t, "chain")
			from := rapid.IntRange(0, 5).Draw(t, "from")
			return chainOf(1+8*first, 8)[from : from+rapid.IntRange(0, 8-from).Draw(t, "blocks")]
		})
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				blocks := chain.Draw(t, "put")
				require.NoError(t, d.Put(ctx, blocks))
				m.put(blocks)
			},
			"get": func(t *rapid.T) {
				var dst []tier.Block
				want, missed := 0, false
				for _, b := range chain.Draw(t, "get") {
					dst = append(dst, tier.Block{Key: b.Key, Bytes: make([]byte, len(b.Bytes))})
					if missed = missed || !m.use(b.Key); !missed {
						want++
					}
				}
				n, err := d.Get(ctx, dst)
				require.NoError(t, err)
				require.Equal(t, want, n)
				for i := range n {
					require.Equal(t, content(dst[i].Key, len(dst[i].Bytes)), dst[i].Bytes)
				}
			},
			"delete": func(t *rapid.T) {
				var keys []tier.Key
				for _, b := range chain.Draw(t, "delete") {
					keys = append(keys, b.Key)
					m.blocks = slices.DeleteFunc(m.blocks, func(o tier.Block) bool { return o.Key == b.Key })
				}
				require.NoError(t, d.Delete(ctx, keys))
			},
			"clear": func(t *rapid.T) {
				root := rapid.SampledFrom([]tier.Key{{}, {0, 7}, {1, 7}}).Draw(t, "root")
				require.NoError(t, d.Clear(ctx, root))
				m.blocks = slices.DeleteFunc(m.blocks, func(b tier.Block) bool { return root == tier.Key{} || b.Root == root })
			},
			"reopen": func(t *rapid.T) {
				require.NoError(t, d.Close())
				d, err = Open(o)
				require.NoError(t, err)
			},
			"": func(t *rapid.T) { m.check(t, d) },
		})
		require.NoError(t, d.Close())
	})
}

func (m *model) check(t require.TestingT, d *Tier) {
	require.NoError(t, d.index.check())
	var bytes int64
	for _, b := range m.blocks {
		_, ok := d.index.byKey[b.Key]
		require.True(t, ok)
		bytes += int64(len(b.Bytes))
	}
	s := d.Stats()
	require.Equal(t, [4]int64{int64(len(m.blocks)), bytes, int64(m.slots) * payload, 0}, [4]int64{s.Blocks, s.Bytes, s.Capacity, s.Corrupt})
	sys := d.o.system.(*memoryFS)
	require.LessOrEqual(t, sys.used(), d.o.Bytes)
}

// check walks the books of an index that no call is using.
func (x *index) check() error {
	kids, count := map[tier.Key]int32{}, map[state]int{}
	for i := range x.slots {
		s := &x.slots[i]
		count[s.state]++
		if s.state == held {
			if x.byKey[s.key] != int32(i) {
				return fmt.Errorf("slot %d is not found by its key", i)
			}
			if s.parent != (tier.Key{}) {
				kids[s.parent]++
			}
		}
	}
	leaves := 0
	for i := range x.slots {
		if s := &x.slots[i]; s.state == held && kids[s.key] == 0 {
			leaves++
			if s.place == 0 || x.leaves.items[s.place-1] != int32(i) {
				return fmt.Errorf("slot %d is not among the leaves", i)
			}
		}
	}
	if len(x.kids) != len(kids) || leaves != len(x.leaves.items) || count[held] != len(x.byKey) || count[free] != len(x.free) ||
		count[busy] != 0 || int64(count[bad]) != x.bad {
		return fmt.Errorf("%d parents of %d, %d leaves of %d, slots %v for %d keys, %d free and %d bad",
			len(x.kids), len(kids), len(x.leaves.items), leaves, count, len(x.byKey), len(x.free), x.bad)
	}
	return nil
}
