package tiertest

import (
	"fmt"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ferrumkv/ferrumkv/kvcache/tier"
)

// model is what a tier may have: what was put since it was forgotten. The tier may have given up any of it.
type model map[tier.Key]tier.Block

// checkHistory runs random histories of calls, one after another.
func checkHistory(r *rig) {
	rapid.Check(r.t, func(t *rapid.T) {
		h := history{t: t, m: model{}}
		slots := rapid.IntRange(4, 12).Draw(t, "slots")
		size := rapid.SampledFrom([]int{2100, 4000, 4096, 4097}).Draw(t, "size")
		pages := (size + 4095) / 4096
		o := Options{Bytes: int64(slots * pages * 4096), Payload: size, Dir: r.dir()}
		h.in = r.open(o)
		defer func() { require.NoError(t, h.in.Close()) }()
		for i := range 4 {
			h.chains = append(h.chains, Chain(fmt.Sprint("history", i%2), fmt.Sprint(i), 12, size))
		}
		h.size = size
		t.Repeat(map[string]func(*rapid.T){
			"put": h.put, "get": h.get, "delete": h.delete, "clear": h.clear, "gap": h.gap,
			"": func(t *rapid.T) { h.check(t, o) },
		})
	})
}

type history struct {
	t      *rapid.T
	in     tier.Tier
	m      model
	chains [][]tier.Block
	size   int
}

// part is a piece of a chain, often its beginning.
func (h *history) part(t *rapid.T) []tier.Block {
	c := rapid.SampledFrom(h.chains).Draw(t, "chain")
	from := rapid.SampledFrom([]int{0, 0, 0, 1, 6}).Draw(t, "from")
	return c[from:rapid.IntRange(from, len(c)).Draw(t, "to")]
}

func (h *history) put(t *rapid.T) {
	part := h.part(t)
	require.NoError(t, h.in.Put(ctx, part))
	for _, b := range part {
		h.m[b.Key] = b
	}
}

// known is how many of the first blocks the tier may have.
func (h *history) known(blocks []tier.Block) int {
	for i := range blocks {
		if _, ok := h.m[blocks[i].Key]; !ok {
			return i
		}
	}
	return len(blocks)
}

func (h *history) get(t *rapid.T) { h.read(t, h.part(t)) }

func (h *history) read(t *rapid.T, blocks []tier.Block) {
	n := has(t, h.in, keys(blocks))
	require.LessOrEqual(t, n, h.known(blocks), "Has finds what is not there")
	found := get(t, h.in, keys(blocks), h.size)
	require.LessOrEqual(t, found, h.known(blocks), "Get finds what is not there")
	if !h.in.Info().Shared {
		require.Equal(t, n, found, "Has and Get")
	}
}

// gap reads a list in which a block is missing or has another length.
func (h *history) gap(t *rapid.T) {
	blocks := append([]tier.Block(nil), h.part(t)...)
	if len(blocks) == 0 {
		return
	}
	at := rapid.IntRange(0, len(blocks)-1).Draw(t, "at")
	if rapid.Bool().Draw(t, "unknown") {
		blocks[at].Key = name("nobody put this")
		h.read(t, blocks)
		return
	}
	dst := buffers(keys(blocks), h.size)
	dst[at].Bytes = dst[at].Bytes[:h.size-1]
	n, err := h.in.Get(ctx, dst)
	require.NoError(t, err)
	require.LessOrEqual(t, n, at, "a payload of another length is a miss")
	require.NoError(t, verify(dst[:n]))
}

func (h *history) delete(t *rapid.T) {
	part := h.part(t)
	require.NoError(t, h.in.Delete(ctx, keys(part)))
	for _, b := range part {
		delete(h.m, b.Key)
	}
}

func (h *history) clear(t *rapid.T) {
	root := rapid.SampledFrom([]tier.Key{{}, h.chains[0][0].Root, h.chains[1][0].Root}).Draw(t, "root")
	require.NoError(t, h.in.Clear(ctx, root))
	for k, b := range h.m {
		if root == (tier.Key{}) || b.Root == root {
			delete(h.m, k)
		}
	}
}

func (h *history) check(t *rapid.T, o Options) {
	var all []tier.Block
	for _, c := range h.chains {
		all = append(all, c...)
	}
	for i := range all {
		if has(t, h.in, keys(all[i:i+1])) == 1 {
			require.Contains(t, h.m, all[i].Key, "forgotten or never put, and found")
		}
	}
	bounded(t, h.in, o, all)
}
