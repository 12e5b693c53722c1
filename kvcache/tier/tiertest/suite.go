package tiertest

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ferrumkv/ferrumkv/kvcache/tier"
)

// Options are what a tier is opened with.
type Options struct {
	// Bytes is the budget, in whole pages of 4096 bytes a payload. Capacity may be less by what the tier itself needs, but not
	// less than half of it, or a quarter where payloads fill little more than half of their pages.
	Bytes int64
	// Payload is the bytes of the largest payload that the tier is to keep.
	Payload int
	// Dir is an empty folder, or that of an earlier tier of the same options, which is closed: a tier that outlives
	// the process finds what that one left.
	Dir string
}

// Run tests a tier against the contract of package tier.
func Run(t *testing.T, open func(t *testing.T, o Options) tier.Tier) {
	for _, c := range checks {
		t.Run(c.name, func(t *testing.T) {
			r := &rig{t: t, dir: t.TempDir, open: func(o Options) tier.Tier { return open(t, o) }}
			defer r.close()
			c.run(r)
		})
	}
}

// check is a part of the contract.
type check struct {
	name string
	run  func(r *rig)
}

var checks = []check{
	{"info", checkInfo},
	{"prefix", checkPrefix},
	{"lengths", checkLengths},
	{"put", checkPut},
	{"copies", checkCopies},
	{"declined", checkDeclined},
	{"delete", checkDelete},
	{"clear", checkClear},
	{"stats", checkStats},
	{"room", checkRoom},
	{"order", checkOrder},
	{"contexts", checkContexts},
	{"closed", checkClosed},
	{"closing", checkClosing},
	{"concurrent", checkConcurrent},
	{"history", checkHistory},
	{"lasting", checkLasting},
	{"leaks", checkLeaks},
}

// tb is what checks report to: a test, or what tests the checks.
type tb interface {
	require.TestingT
	rapid.TB
}

// rig opens tiers for a check and closes those that it left open.
type rig struct {
	t      tb
	dir    func() string
	open   func(o Options) tier.Tier
	opened []tier.Tier
}

var ctx = context.Background()

// payload is the bytes of most payloads: no multiple of a page, of a cache line or of a word.
const payload = 4001

// room is the blocks of this size that the budget of most tiers has room for.
const room = 32

// tier opens one in a folder of its own.
func (r *rig) tier() tier.Tier {
	return r.with(Options{Bytes: room * (payload + 95), Payload: payload, Dir: r.dir()}) // 95: to whole pages
}

func (r *rig) with(o Options) tier.Tier {
	t := r.open(o)
	r.opened = append(r.opened, t)
	return t
}

func (r *rig) close() {
	for _, t := range r.opened {
		_ = t.Close()
	}
	r.opened = nil
}

// put puts blocks that the tier has room for.
func put(t require.TestingT, in tier.Tier, blocks []tier.Block) {
	require.NoError(t, in.Put(ctx, blocks))
	require.Equal(t, len(blocks), has(t, in, keys(blocks)), "what was put is there")
}

// has is Has without an error and within its list.
func has(t require.TestingT, in tier.Tier, keys []tier.Key) int {
	n, err := in.Has(ctx, keys)
	require.NoError(t, err)
	require.True(t, 0 <= n && n <= len(keys), "Has: %d of %d keys", n, len(keys))
	return n
}

// get is Get of payloads of a length; what it returns is compared with what their keys say.
func get(t require.TestingT, in tier.Tier, keys []tier.Key, size int) int {
	dst := buffers(keys, size)
	n, err := in.Get(ctx, dst)
	require.NoError(t, err)
	require.True(t, 0 <= n && n <= len(keys), "Get: %d of %d keys", n, len(keys))
	require.NoError(t, verify(dst[:n]))
	return n
}

// holds checks that a tier has the first n blocks of a list, by Has and by Get, and no more of it.
func holds(t require.TestingT, in tier.Tier, blocks []tier.Block, n int) {
	require.Equal(t, n, has(t, in, keys(blocks)), "Has")
	require.Equal(t, n, get(t, in, keys(blocks), payload), "Get")
}
