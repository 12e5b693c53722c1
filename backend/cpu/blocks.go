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
	for ; len(pairs) > 0; pairs = pairs[2:] {
		from, to := int(pairs[0]), int(pairs[1])
		copy(keys.whole(to), keys.whole(from))
		copy(values.whole(to), values.whole(from))
	}
	return nil
}

// moveTask copies slots in the order given, which every part keeps: its parts are
// the heads of the keys and those of the values.
type moveTask struct {
	pairs        []int64
	keys, values plane
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
	*t = moveTask{pairs: view[int64](p.Pairs)[:2*p.N], keys: planeOf(p.Cache, p.Cache.K), values: planeOf(p.Cache, p.Cache.V)}
	for i, slot := range t.pairs {
		if slots := int64(p.Cache.Blocks) * int64(p.Cache.BlockSize); slot < 0 || slot >= slots {
			return backend.ErrShape{Op: "move slots", What: fmt.Sprintf("pairs: element %d is slot %d, the cache has %d", i, slot, slots)}
		}
	}
	return be.pool.run(t, 2*p.Cache.KVHeads, p.N*p.Cache.KVHeads*(p.Cache.K.Dim+p.Cache.V.Dim), c.scratch)
}

func (t *moveTask) part(i int, _ *scratch) {
	plane, head := &t.keys, i
	if i >= t.keys.heads {
		plane, head = &t.values, i-t.keys.heads
	}
	for pairs := t.pairs; len(pairs) > 0; pairs = pairs[2:] {
		copy(plane.slot(int(pairs[1]), head), plane.slot(int(pairs[0]), head))
	}
}
