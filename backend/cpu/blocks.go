package cpu

import (
	"fmt"

	"github.com/ferrumkv/ferrumkv/backend"
)

// CopyBlocks copies whole blocks within a cache. A block outside it is ErrShape.
func (be *Backend) CopyBlocks(s backend.Stream, p backend.CopyBlocksParams[*Buffer]) error {
	ops, err := be.begin("copy blocks", s)
	if err != nil {
		return err
	}
	defer be.end()
	if err := ops.CopyBlocks(p); err != nil {
		return err
	}
	pairs := view[uint32](p.Pairs)[:2*p.N]
	for i, id := range pairs {
		if uint64(id) >= uint64(p.Cache.Blocks) {
			return backend.ErrShape{Op: "copy blocks", What: fmt.Sprintf("pairs: element %d is block %d, the cache has %d", i, id, p.Cache.Blocks)}
		}
	}
	keys, values := planeOf(p.Cache, p.Cache.K), planeOf(p.Cache, p.Cache.V)
	mass, slots := optional[float32](p.Mass), p.Cache.KVHeads*p.Cache.BlockSize
	for ; len(pairs) > 0; pairs = pairs[2:] {
		from, to := int(pairs[0]), int(pairs[1])
		keys.copyBlock(to, from)
		values.copyBlock(to, from)
		if mass != nil {
			copy(mass[to*slots:][:slots], mass[from*slots:])
		}
	}
	return nil
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
	if err := ops.MoveSlots(p); err != nil {
		return err
	}
	c := be.pool.borrow(extent{})
	defer be.pool.giveBack(c)
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
