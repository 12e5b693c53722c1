package prefix

import (
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/ferrumkv/ferrumkv/internal/testutil/race"
	"github.com/ferrumkv/ferrumkv/kvcache/block"
	"github.com/stretchr/testify/require"
)

// history is a long random life of a tree: prompts that share beginnings, sequences
// that stay for a while and grow, leases, limits, and operators.
type history struct {
	*rig
	rng   *rand.Rand
	roots []Root
	live  [][]block.Block
	lease []*Lease
}

func newHistory(t testing.TB, blocks int, p Policy, seed uint64) *history {
	return newTiered(t, blocks, 0, p, seed)
}

// newTiered is newHistory where as many entries as away may outlive their blocks.
func newTiered(t testing.TB, blocks, away int, p Policy, seed uint64) *history {
	h := &history{
		rng:   rand.New(rand.NewPCG(seed, 0)),
		roots: []Root{fingerprint.Root(Scope{}), salted("a"), salted("b"), fingerprint.Root(Scope{Adapter: &Adapter{ID: "a"}})},
	}
	h.rig = newRig(t, blocks, Config{BlockSize: 2, Policy: p, MaxOffloaded: away, Demote: func(block.Block, Key) bool {
		return h.rng.IntN(8) > 0
	}})
	return h
}

func (h *history) tokens(n int) []uint32 {
	tokens := make([]uint32, h.rng.IntN(n+1))
	for i := range tokens {
		tokens[i] = uint32(h.rng.IntN(i%7/6 + 2))
	}
	return tokens
}

func (h *history) step() {
	root := h.roots[h.rng.IntN(len(h.roots))]
	if h.tree.offloaded.most > 0 && h.rng.IntN(4) == 0 {
		h.load(root)
		return
	}
	switch op := h.rng.IntN(100); {
	case op < 50:
		h.serve(root)
	case op < 70:
		h.end()
	case op < 80:
		h.match(root, h.tokens(40))
	case op < 85:
		h.tree.Evict(h.rng.IntN(4), root)
	case op < 88:
		h.tree.EvictAny(h.rng.IntN(3))
	case op < 90:
		l := Limits{Quota: h.rng.IntN(40)}
		if l.Quota > 0 {
			l.Floor = h.rng.IntN(l.Quota + 1)
		}
		_ = h.tree.SetLimits(root, l)
	case op < 93:
		if l, err := h.tree.Pin(root, Query{Tokens: h.tokens(40)}, time.Duration(1+h.rng.IntN(20))*time.Second); err == nil {
			h.lease = append(h.lease, l)
		}
	case op < 95:
		if len(h.lease) > 0 {
			_ = h.tree.Unpin(h.lease[0]) // it may have expired
			h.lease = h.lease[1:]
		}
	case op < 97:
		h.now = h.now.Add(time.Duration(h.rng.IntN(3000)) * time.Millisecond)
	case op < 98:
		if len(h.live) > 0 && len(h.live[0]) > 0 {
			h.tree.Forget(h.live[0][h.rng.IntN(len(h.live[0]))])
		}
	case h.rng.IntN(100) == 0:
		_ = h.tree.Clear(h.rng.IntN(2) == 0)
	}
}

// serve takes what is known of a prompt, computes the rest if there is room, and
// publishes it.
func (h *history) serve(root Root) {
	p := Path{Root: root, Private: h.rng.IntN(20) == 0}
	if h.rng.IntN(10) == 0 {
		p.TTL = time.Duration(1+h.rng.IntN(5)) * time.Second
	}
	p.Priority = h.rng.IntN(4) * 30
	if h.rng.IntN(10) == 0 {
		p.Fidelity = Fidelity(h.rng.IntN(4))
	}
	tokens := h.tokens(60)
	q := Query{Tokens: tokens, Accept: p.Fidelity}
	if h.rng.IntN(10) == 0 {
		q.Extra = []Key{{}, {byte(h.rng.IntN(2))}}
	}
	_, m := h.tree.Lookup(nil, root, q)
	blocks, m, err := h.tree.Take(nil, root, q, p.RetentionHint, m)
	if err == nil && m.Tail > 0 {
		err = h.tree.Release(blocks[m.Blocks:])
		blocks = blocks[:m.Blocks]
	}
	need := (len(tokens)+1)/2 - m.Blocks
	if short := need - h.alloc.Free(); err == nil && short > 0 && !h.tree.Evict(short, root) {
		err, need = h.tree.Release(blocks), -1
	}
	if err != nil || need < 0 {
		h.must(err)
		return
	}
	if m.Blocks > 0 {
		p.Parent = blocks[m.Blocks-1]
	}
	blocks, err = h.alloc.AllocateN(blocks, need)
	h.must(err)
	p.Extra = q.Extra[min(m.Blocks, len(q.Extra)):]
	_, old, err := h.tree.Insert(nil, p, tokens[m.Blocks*2:], blocks[m.Blocks:])
	h.must(err)
	h.must(h.tree.Release(old))
	h.live = append(h.live, blocks)
}

// load makes some of what is offloaded of a prompt resident, as if it was read from somewhere; or
// that fails, or its content is nowhere.
func (h *history) load(root Root) {
	q := Query{Tokens: h.tokens(60), Accept: Fidelity(h.rng.IntN(4))}
	k := RetentionHint{TTL: time.Duration(h.rng.IntN(5)) * time.Second, Priority: h.rng.IntN(4) * 30}
	blocks, m, err := h.tree.Take(nil, root, q, k, h.tree.Match(root, q))
	h.must(err)
	h.must(h.tree.Release(blocks[m.Blocks:]))
	blocks = blocks[:m.Blocks]
	keys := h.tree.OffloadedKeys(nil, root, q, m)
	if len(keys) > 0 && h.rng.IntN(30) == 0 {
		h.tree.Drop(keys[h.rng.IntN(len(keys))])
	}
	keys = keys[:h.rng.IntN(len(keys)+1)]
	if short := len(keys) - h.alloc.Free(); short > 0 && !h.tree.Evict(short, root) {
		keys = nil
	}
	fresh, err := h.alloc.AllocateN(nil, len(keys))
	h.must(err)
	var parent block.Block
	if m.Blocks > 0 {
		parent = blocks[m.Blocks-1]
	}
	n, err := h.tree.Promote(parent, keys, fresh, k)
	h.must(err)
	if n > 0 && h.rng.IntN(10) == 0 {
		h.tree.Forget(fresh[h.rng.IntN(n)])
	}
	if blocks = append(blocks, fresh...); h.rng.IntN(4) == 0 {
		h.live = append(h.live, blocks)
	} else {
		h.must(h.tree.Release(blocks))
	}
}

// end releases a sequence, the oldest or any.
func (h *history) end() {
	if len(h.live) == 0 {
		return
	}
	i := h.rng.IntN(len(h.live))
	h.must(h.tree.Release(h.live[i]))
	h.live = slices.Delete(h.live, i, i+1)
}

// must fails without the cost of a require that holds.
func (h *history) must(err error) {
	if err != nil {
		h.t.Helper()
		require.NoError(h.t, err)
	}
}

func (h *history) drain() {
	for len(h.live) > 0 {
		h.end()
	}
	for _, l := range h.lease {
		_ = h.tree.Unpin(l)
	}
	h.check()
	require.Zero(h.t, h.alloc.Held())
	require.Zero(h.t, h.tree.Stats().Pinned)
	require.NoError(h.t, h.tree.Clear(false))
	require.Equal(h.t, h.alloc.Total(), h.alloc.Free())
}

// A million random operations conserve the blocks; every policy has its part.
func TestMillionOperations(t *testing.T) {
	operations := 1_000_000 / int(lastPolicy)
	if race.Enabled {
		operations /= 20
	}
	for p := Adaptive; p <= lastPolicy; p++ {
		h := newHistory(t, 300, p, uint64(p))
		for i := range operations {
			h.step()
			if a := h.alloc; a.Free()+a.Cached()+a.Held() != a.Total() {
				require.Fail(t, "blocks were lost", "after %d operations", i)
			}
			if i%2000 == 0 {
				h.check()
			}
		}
		h.drain()
	}
}

// Neither do operations on a tree that remembers what has left it, fewer blocks than there
// are or more.
func TestOperationsWithBlocksAway(t *testing.T) {
	operations := 50_000
	if race.Enabled {
		operations /= 10
	}
	for p := Adaptive; p <= lastPolicy; p++ {
		for _, away := range []int{1, 50, 500} {
			h := newTiered(t, 100, away, p, uint64(p))
			for i := range operations {
				if h.step(); i%500 == 0 {
					h.check()
				}
			}
			s := h.tree.Stats()
			t.Logf("%v, %d away: %d evicted, %d demoted, %d promoted", p, away, s.Evicted, s.Demoted, s.Promoted)
			require.Greater(t, s.Promoted, 0)
			h.drain()
		}
	}
}

// The same history once more gives the same events, to the last one, also in another
// process, whose hashes differ.
func TestSameHistorySameEvents(t *testing.T) {
	defer func(s maphash.Seed) { seed = s }(seed)
	for i := range 2 * lastPolicy {
		p, away := Adaptive+i%lastPolicy, int(i/lastPolicy)*60
		var logs [2][]string
		for run := range logs {
			seed = maphash.MakeSeed()
			h := newTiered(t, 100, away, p, 7)
			sub, _ := h.tree.Subscribe(100_000)
			for range 5000 {
				h.step()
			}
			for _, e := range listen(sub) {
				require.Zero(t, e.Lost)
				logs[run] = append(logs[run], fmt.Sprintf("%+v", e))
			}
			h.drain()
		}
		require.Greater(t, len(logs[0]), 1000)
		require.Equal(t, logs[0], logs[1])
	}
}
