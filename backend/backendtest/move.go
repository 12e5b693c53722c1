package backendtest

import (
	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/stretchr/testify/require"
)

func moveChecks[B backend.Buffer]() []check[B] {
	out := []check[B]{
		{"no pairs", func(r *rig[B]) {
			c := r.moved(r.plain(), false)
			c.copyBlocks(r, c, nil)
			r.moved(r.plain(), false).moveSlots(r, nil)
		}},
	}
	chains := []struct {
		name  string
		pairs [][2]int64
	}{
		{"a slot", [][2]int64{{5, 40}}},
		{"a slot to itself", [][2]int64{{9, 9}}},
		{"a chain that carries one slot along", [][2]int64{{1, 2}, {2, 3}, {3, 4}, {4, 40}}},
		{"a chain that shifts up", [][2]int64{{3, 4}, {2, 3}, {1, 2}, {0, 1}}},
		{"a swap over a third slot", [][2]int64{{7, 30}, {20, 7}, {30, 20}}},
		{"one source, many destinations", [][2]int64{{7, 1}, {7, 2}, {7, 47}}},
		{"one destination, many sources", [][2]int64{{1, 9}, {2, 9}, {3, 9}}},
		{"gaps closed in place", gaps(48)},
	}
	for _, dt := range append([]backend.DType{backend.F32, backend.F16, backend.BF16}, quantizedTypes...) {
		for _, mass := range []bool{false, true} {
			name := dt.String()
			if mass {
				name += " with mass"
			}
			out = append(out, check[B]{"blocks of " + name, func(r *rig[B]) {
				c := r.moved(r.storing(dt), mass)
				c.copyBlocks(r, c, [][2]uint32{{0, 5}, {3, 2}, {0, 4}})
			}}, check[B]{"blocks of another cache of " + name, func(r *rig[B]) { checkCopyBetween(r, dt, mass) }})
			for _, chain := range chains {
				if !byChannel(dt) {
					out = append(out, check[B]{chain.name + " of " + name, func(r *rig[B]) {
						r.moved(r.storing(dt), mass).moveSlots(r, chain.pairs)
					}})
				}
			}
		}
	}
	return append(out, check[B]{"random lists of slots", checkRandomMoves[B]},
		check[B]{"single slots of blocks that share scales", checkSlotsThatShare[B]},
		check[B]{"attention scores alone, between caches of different types", checkCopyMassOnly[B]})
}

// gaps are the moves, sorted by destination, that close the gaps left by every
// third slot.
func gaps(slots int64) [][2]int64 {
	var out [][2]int64
	for from, to := int64(0), int64(0); from < slots; from++ {
		if from%3 != 1 {
			out = append(out, [2]int64{from, to})
			to++
		}
	}
	return out
}

// flat is pairs as they lie in a buffer.
func flat[T uint32 | int64](pairs [][2]T) []T {
	out := make([]T, 0, 2*len(pairs))
	for _, p := range pairs {
		out = append(out, p[0], p[1])
	}
	return out
}

// moved is a filled cache of at least 48 slots and 6 blocks.
func (r *rig[B]) moved(f backend.Format, mass bool) *cache[B] { return r.movedOf(f, mass, 0) }

// movedOf is one with that many blocks more.
func (r *rig[B]) movedOf(f backend.Format, mass bool, more int) *cache[B] {
	return r.movedAs(false, f, mass, more)
}

// movedAs is one that may be latent.
func (r *rig[B]) movedAs(latent bool, f backend.Format, mass bool, more int) *cache[B] {
	kDim, vDim := r.dimsOf(latent, 192, 128)
	block := r.blockSize(8)
	r.needsOf(latent, f, kDim, vDim, block, true)
	c := r.cacheOf(latent, geometry{3, block, max(6, 48/block) + more, kDim, vDim, f}).fill(r)
	if mass {
		c.addMass(r)
	}
	return c
}

// checkCopyBetween copies to a cache that is larger, and back: blocks that only one of the
// two has, and some that have the number of another pair's.
func checkCopyBetween[B backend.Buffer](r *rig[B], dt backend.DType, mass bool) {
	c, larger := r.moved(r.storing(dt), mass), r.movedOf(r.storing(dt), mass, 3)
	last := uint32(larger.blocks - 1)
	c.copyBlocks(r, larger, [][2]uint32{{0, last}, {3, 0}, {backend.NoBlock, 1}, {0, 3}, {5, 5}})
	larger.copyBlocks(r, c, [][2]uint32{{last, 2}, {2, 1}, {1, 0}})
}

// checkCopyMassOnly copies attention scores between caches of other types and sizes, there and back.
func checkCopyMassOnly[B backend.Buffer](r *rig[B]) {
	plain, packed := r.moved(r.plain(), true), r.movedOf(r.quantized(), true, 2)
	for _, way := range [][2]*cache[B]{{plain, packed}, {packed, plain}, {plain, plain}} {
		from, to := way[0], way[1]
		pairs := [][2]uint32{{0, uint32(to.blocks - 1)}, {3, 2}, {backend.NoBlock, 1}, {1, 4}}
		p := backend.CopyBlocksParams[B]{From: from.view(), To: to.view(), FromScores: from.massOperand(), ToScores: to.massOperand(), N: len(pairs),
			Pairs: constant(r, "pairs", backend.U32, flat(pairs)).buf, ScoresOnly: true}
		r.push()
		require.NoError(r, r.be.CopyBlocks(r.s, p))
		for _, pair := range pairs {
			if pair[0] != backend.NoBlock {
				from.copyMass(to, int(pair[0]), int(pair[1]))
			}
		}
		r.verify()
	}
}

// copyBlocks copies blocks of c to to, which may be c.
func (c *cache[B]) copyBlocks(r *rig[B], to *cache[B], pairs [][2]uint32) {
	p := backend.CopyBlocksParams[B]{From: c.view(), To: to.view(), FromScores: c.massOperand(), ToScores: to.massOperand(), N: len(pairs),
		Pairs: constant(r, "pairs", backend.U32, flat(pairs)).buf}
	r.push()
	require.NoError(r, r.be.CopyBlocks(r.s, p))
	for _, pair := range pairs {
		if pair[0] == backend.NoBlock {
			continue
		}
		c.copyBlock(to, int(pair[0]), int(pair[1]))
	}
	r.verify()
}

// moveSlots compares with the pairs done one after another on the image.
func (c *cache[B]) moveSlots(r *rig[B], pairs [][2]int64) {
	p := backend.MoveSlotsParams[B]{Cache: c.view(), Scores: c.massOperand(), N: len(pairs),
		Pairs: constant(r, "pairs", backend.I64, flat(pairs)).buf}
	r.push()
	require.NoError(r, r.be.MoveSlots(r.s, p))
	for _, pair := range pairs {
		c.move(int(pair[0]), int(pair[1]))
	}
	r.verify()
}

// checkRandomMoves draws lists in which slots are sources and destinations again
// and again.
func checkRandomMoves[B backend.Buffer](r *rig[B]) {
	for range 10 {
		pairs := make([][2]int64, r.rng.IntN(200))
		for i := range pairs {
			pairs[i] = [2]int64{r.rng.Int64N(48), r.rng.Int64N(48)}
		}
		r.moved(r.plain(), false).moveSlots(r, pairs)
	}
}

// checkSlotsThatShare asks for what cannot be done to one slot of a block whose scales
// belong to all of its slots.
func checkSlotsThatShare[B backend.Buffer](r *rig[B]) {
	f := r.storing(backend.Int4Channel)
	c := r.moved(f, false)
	const tokens = 3
	slots := constant(r, "slots", backend.I64, []int64{1, 2, 3}).buf
	pairs := constant(r, "pairs", backend.I64, []int64{0, 9}).buf
	rotated := rotateParams(r, c, rotary{10000, c.kDim, backend.HalfSplit, 1}, rotatedSlots, rotatedBy)
	appended := backend.AppendParams[B]{Cache: c.view(), Tokens: tokens, Slots: slots,
		K: r.vectors("K", f.Act, tokens, c.kvHeads*c.kDim, false).fill(r).rows(),
		V: r.vectors("V", f.Act, tokens, c.kvHeads*c.vDim, false).fill(r).rows()}
	r.push()
	for name, err := range map[string]error{
		"append": r.be.Append(r.s, appended),
		"move":   r.be.MoveSlots(r.s, backend.MoveSlotsParams[B]{Cache: c.view(), Pairs: pairs, N: 1}),
		"rotate": r.be.Rotate(r.s, rotated),
	} {
		require.ErrorIs(r, err, backend.ErrUnsupported{}, name)
	}
	r.verify()
}
