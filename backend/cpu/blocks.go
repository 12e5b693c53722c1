package cpu

import (
	"fmt"

	"github.com/ferrumkv/ferrumkv/backend"
)

// blockTask copies whole blocks. Its parts are the heads of each pair's blocks, or as many
// of them together as make a piece.
type blockTask struct {
	pairs        []uint32
	keys, values plane
	mass         []float32 // of each slot, nil: none
	heads        int       // of a part
	around       bool      // the copies go around the caches
}

// CopyBlocks copies whole blocks within a cache. A block outside it is ErrShape.
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
	for i, id := range pairs {
		if uint64(id) >= uint64(p.Cache.Blocks) {
			return backend.ErrShape{Op: "copy blocks", What: fmt.Sprintf("pairs: element %d is block %d, the cache has %d", i, id, p.Cache.Blocks)}
		}
	}
	c := be.pool.borrow(extent{})
	defer giveBack(be.pool, c, &c.blocks)
	t := &c.blocks
	*t = blockTask{pairs: pairs, keys: planeOf(p.Cache, p.Cache.K), values: planeOf(p.Cache, p.Cache.V), mass: optional[float32](p.Mass)}
	head := t.keys.block * (t.keys.row + t.values.row)
	t.heads = min(max(copyPiece/head, 1), t.keys.heads)
	written := p.N * t.keys.heads * head
	t.around = written >= largeCopy
	return be.pool.run(t, p.N*ceilDiv(t.keys.heads, t.heads), 2*written, c.scratch)
}

func (t *blockTask) part(i int, _ *scratch) {
	shares := ceilDiv(t.keys.heads, t.heads)
	pair, head := t.pairs[i/shares*2:][:2], i%shares*t.heads
	from, to, n := int(pair[0]), int(pair[1]), min(t.heads, t.keys.heads-head)
	t.keys.copyHeads(to, from, head, n, t.around)
	t.values.copyHeads(to, from, head, n, t.around)
	if t.mass != nil {
		slots := n * t.keys.block
		copy(t.mass[t.keys.index(to*t.keys.block, head):][:slots], t.mass[t.keys.index(from*t.keys.block, head):])
	}
	if t.around {
		t.keys.k.fence()
	}
}

// copyHeads copies n heads of a block from one on, and the scales in it.
func (p *plane) copyHeads(to, from, head, n int, around bool) {
	bytes := n * p.block * p.row
	p.k.move(p.mem[p.index(to*p.block, head)*p.row:][:bytes], p.mem[p.index(from*p.block, head)*p.row:][:bytes], around)
	if p.perBlock > 0 {
		scales := n * p.perHead
		copy(p.scales[to*p.perBlock+head*p.perHead:][:scales], p.scales[from*p.perBlock+head*p.perHead:])
	}
}

// moveTask copies slots in the order given, which every part keeps: its parts are
// the heads of the keys and those of the values.
type moveTask struct {
	pairs        []int64
	keys, values plane
	mass         []float32 // of each slot, nil: none
}

// MoveSlots copies single slots within a cache, one after another. A slot outside
// it is ErrShape.
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
	*t = moveTask{pairs: view[int64](p.Pairs)[:2*p.N], mass: optional[float32](p.Mass),
		keys: planeOf(p.Cache, p.Cache.K), values: planeOf(p.Cache, p.Cache.V)}
	for i, slot := range t.pairs {
		if slots := int64(p.Cache.Blocks) * int64(p.Cache.BlockSize); slot < 0 || slot >= slots {
			return backend.ErrShape{Op: "move slots", What: fmt.Sprintf("pairs: element %d is slot %d, the cache has %d", i, slot, slots)}
		}
	}
	return be.pool.run(t, 2*p.Cache.KVHeads, p.N*p.Cache.KVHeads*(p.Cache.K.Dim+p.Cache.V.Dim), c.scratch)
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
