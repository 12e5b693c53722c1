package cpu

import (
	"fmt"

	"github.com/ferrumkv/ferrumkv/backend"
)

// blockTask copies whole blocks. Its parts are the heads of each pair's blocks, or as many
// of them together as make a piece.
type blockTask struct {
	pairs    []uint32
	from, to carried
	heads    int  // of a part
	around   bool // the copies go around the caches
	massOnly bool
}

// carried is what of a cache goes along with a block.
type carried struct {
	keys, values plane     // the latter zero of a latent cache
	mass         []float32 // of each slot, nil: none
}

// CopyBlocks copies whole blocks within a cache, or between caches of the same types. A block
// outside its cache is ErrArgument.
func (be *Backend) CopyBlocks(s backend.Stream, p backend.CopyBlocksParams[*Buffer]) error {
	ops, err := be.begin("copy blocks", s)
	if err != nil {
		return err
	}
	defer be.end()
	if err := ops.CopyBlocks(&p); err != nil {
		return err
	}
	pairs := view[uint32](p.Pairs)[:2*p.N]
	if err := blocksOf("copy blocks", pairs, p.From.Blocks, p.To.Blocks); err != nil {
		return err
	}
	c := be.pool.borrow(extent{})
	defer giveBack(be.pool, c, &c.blocks)
	t := &c.blocks
	*t = blockTask{pairs: pairs, massOnly: p.ScoresOnly,
		from: carried{planeOf(p.From, p.From.K), ownValues(p.From), optional[float32](p.FromScores)},
		to:   carried{planeOf(p.To, p.To.K), ownValues(p.To), optional[float32](p.ToScores)}}
	keys := &t.from.keys
	head := keys.block * (keys.row + t.from.values.row)
	t.heads = min(max(copyPiece/head, 1), keys.heads)
	written := p.N * keys.heads * head
	t.around = written >= largeCopy
	return be.pool.run(t, p.N*ceilDiv(keys.heads, t.heads), 2*written, c.scratch)
}

// blocksOf checks that pairs name blocks that two caches have.
func blocksOf(op string, pairs []uint32, from, to int) error {
	for i, id := range pairs {
		if pairs[i&^1] == backend.NoBlock {
			continue
		}
		if blocks := [...]int{from, to}[i%2]; uint64(id) >= uint64(blocks) {
			return backend.ErrArgument{Op: op, What: fmt.Sprintf("pairs: element %d is block %d, its cache has %d", i, id, blocks)}
		}
	}
	return nil
}

func (t *blockTask) part(i int, _ *scratch) {
	heads := t.from.keys.heads
	shares := ceilDiv(heads, t.heads)
	pair, head := t.pairs[i/shares*2:][:2], i%shares*t.heads
	if pair[0] == backend.NoBlock {
		return
	}
	from, to, n := int(pair[0]), int(pair[1]), min(t.heads, heads-head)
	if t.massOnly {
		t.from.copyMass(&t.to, from, to, head, n)
		return
	}
	t.from.keys.copyHeads(&t.to.keys, from, to, head, n, t.around)
	if t.from.values.row > 0 {
		t.from.values.copyHeads(&t.to.values, from, to, head, n, t.around)
	}
	t.from.copyMass(&t.to, from, to, head, n)
	if t.around {
		t.to.keys.k.fence()
	}
}

// copyHeads copies n heads of a block from one on, and the scales in it, to a block of dst.
func (p *plane) copyHeads(dst *plane, from, to, head, n int, around bool) {
	bytes := n * p.block * p.row
	p.k.move(dst.mem[dst.number(to, head, 0)*p.row:][:bytes], p.mem[p.number(from, head, 0)*p.row:][:bytes], around)
	if p.perBlock > 0 {
		scales := n * p.perHead
		copy(dst.scales[to*p.perBlock+head*p.perHead:][:scales], p.scales[from*p.perBlock+head*p.perHead:])
	}
}

// copyMass copies the attention scores, if there are any, of n heads of a block from one on.
func (c *carried) copyMass(dst *carried, from, to, head, n int) {
	if c.mass != nil {
		keys := &c.keys
		copy(dst.mass[keys.number(to, head, 0):][:n*keys.block], c.mass[keys.number(from, head, 0):])
	}
}

// moveTask copies slots in the order given, which every part keeps: its parts are
// the heads of the keys and those of the values.
type moveTask struct {
	pairs        []int64
	keys, values plane
	mass         []float32 // of each slot, nil: none
}

// MoveSlots copies single slots within a cache, in order. A slot outside it is ErrArgument.
func (be *Backend) MoveSlots(s backend.Stream, p backend.MoveSlotsParams[*Buffer]) error {
	ops, err := be.begin("move slots", s)
	if err != nil {
		return err
	}
	defer be.end()
	if err := ops.MoveSlots(&p); err != nil {
		return err
	}
	c := be.pool.borrow(extent{})
	defer giveBack(be.pool, c, &c.move)
	t := &c.move
	*t = moveTask{pairs: view[int64](p.Pairs)[:2*p.N], mass: optional[float32](p.Scores),
		keys: planeOf(p.Cache, p.Cache.K), values: ownValues(p.Cache)}
	for i, slot := range t.pairs {
		if slots := int64(p.Cache.Blocks) * int64(p.Cache.BlockSize); slot < 0 || slot >= slots {
			return backend.ErrArgument{Op: "move slots", What: fmt.Sprintf("pairs: element %d is slot %d, the cache has %d", i, slot, slots)}
		}
	}
	return be.pool.run(t, planes(&p.Cache)*p.Cache.KVHeads, p.N*p.Cache.KVHeads*(p.Cache.K.Dim+p.Cache.V.Dim), c.scratch)
}

func (t *moveTask) part(i int, _ *scratch) {
	plane, head, mass := &t.keys, i, t.mass
	if i >= t.keys.heads {
		plane, head, mass = &t.values, i-t.keys.heads, nil // which goes with the keys
	}
	for pairs := t.pairs; len(pairs) > 0; pairs = pairs[2:] {
		from, to := int(pairs[0]), int(pairs[1])
		plane.copySlot(to, from, head)
		if mass != nil {
			mass[plane.index(to, head)] = mass[plane.index(from, head)]
		}
	}
}
