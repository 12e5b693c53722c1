package cpu

import (
	"fmt"

	"github.com/ferrumkv/ferrumkv/backend"
)

// gatherTask materialises one sequence: its parts are the heads of the keys and
// those of the values.
type gatherTask struct {
	keys, values plane
	k, v         []byte // nil: not wanted
	kType, vType backend.DType
	table        blockTable
	begin, n     int
}

// Gather materialises one sequence as [heads, length, dim]. A block outside the
// cache is ErrShape.
func (be *Backend) Gather(s backend.Stream, p backend.GatherParams[*Buffer]) error {
	ops, err := be.begin("gather", s)
	if err != nil {
		return err
	}
	defer be.end()
	if err := ops.Gather(p); err != nil || p.Len == 0 {
		return err
	}
	c := be.pool.borrow(extent{})
	defer be.pool.giveBack(c)
	t := &c.gather
	*t = gatherTask{keys: planeOf(p.Cache, p.Cache.K), values: planeOf(p.Cache, p.Cache.V),
		table: blockTable{block: p.TableOffset}, begin: p.Begin, n: p.Len}
	if p.K.Set {
		t.k, t.kType = p.K.Buf.mem, p.K.Buf.dt
	}
	if p.V.Set {
		t.v, t.vType = p.V.Buf.mem, p.V.Buf.dt
	}
	if p.Table.Set {
		t.table.ids = view[uint32](p.Table.Buf)[p.TableOffset:]
		if err := t.table.check("gather", 0, p.Begin, p.Begin+p.Len, &p.Cache); err != nil {
			return err
		}
	}
	return be.pool.run(t, 2*p.Cache.KVHeads, p.Len*p.Cache.KVHeads*(p.Cache.K.Dim+p.Cache.V.Dim), c.scratch)
}

// check looks at the ids of the blocks that hold tokens [begin, end).
func (t *blockTable) check(op string, seq, begin, end int, v *backend.CacheView[*Buffer]) error {
	if begin >= end {
		return nil
	}
	for i := begin / v.BlockSize; i <= (end-1)/v.BlockSize; i++ {
		if id := t.ids[i]; uint64(id) >= uint64(v.Blocks) {
			return backend.ErrShape{Op: op, What: fmt.Sprintf("block table: entry %d of sequence %d is block %d, the cache has %d", i, seq, id, v.Blocks)}
		}
	}
	return nil
}

func (t *gatherTask) part(i int, _ *scratch) {
	heads := t.keys.heads
	if i < heads {
		t.head(&t.keys, i, t.k, t.kType)
	} else {
		t.head(&t.values, i-heads, t.v, t.vType)
	}
}

// head gathers one head's rows, a block's run at a time.
func (t *gatherTask) head(from *plane, head int, dst []byte, dt backend.DType) {
	if dst == nil {
		return
	}
	row := from.dim * dt.Bits() / 8
	dst = dst[head*t.n*row:][:t.n*row]
	for key, end := t.begin, t.begin+t.n; key < end; {
		offset := key % from.block
		n := min(end-key, from.block-offset)
		src := from.at(t.table.at(key/from.block), head, offset, n)
		if dt == from.dt {
			copy(dst, src.data)
		} else {
			x := of[float32](dst[:n*row])
			from.k.decode[from.dt](x, src)
			if from.hadamard {
				hadamard(x, from.dim)
			}
		}
		key, dst = key+n, dst[n*row:]
	}
}
