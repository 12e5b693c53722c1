package cpu

import "github.com/ferrumkv/ferrumkv/backend"

// clearTask sets the attention scores of slots to 0. Its parts are runs of slots.
type clearTask struct {
	mass         []float32 // [blocks, heads, block]
	slots        []int64
	heads, block int
}

// clearRun is the slots of a part.
const clearRun = 256

// ClearScores sets the attention scores of slots to 0. A slot outside the cache is ErrArgument.
func (be *Backend) ClearScores(s backend.Stream, p backend.ClearScoresParams[*Buffer]) error {
	ops, err := be.begin("clear scores", s)
	if err != nil {
		return err
	}
	defer be.end()
	if err := ops.ClearScores(&p); err != nil || p.N == 0 {
		return err
	}
	c := be.pool.borrow(extent{})
	defer giveBack(be.pool, c, &c.clear)
	t := &c.clear
	*t = clearTask{mass: view[float32](p.Scores), slots: view[int64](p.Slots)[:p.N], heads: p.KVHeads, block: p.BlockSize}
	v := backend.CacheView[*Buffer]{Blocks: p.Blocks, BlockSize: p.BlockSize}
	for i, slot := range t.slots {
		if err := checkSlot("clear scores", i, slot, &v); err != nil {
			return err
		}
	}
	return be.pool.run(t, ceilDiv(p.N, clearRun), 4*p.N*p.KVHeads, c.scratch)
}

func (t *clearTask) part(i int, _ *scratch) {
	for _, slot := range t.slots[i*clearRun : min((i+1)*clearRun, len(t.slots))] {
		if slot < 0 {
			continue
		}
		block, offset := int(slot)/t.block, int(slot)%t.block
		for head := range t.heads {
			t.mass[(block*t.heads+head)*t.block+offset] = 0
		}
	}
}
