package cpu

import (
	"fmt"

	"github.com/ferrumkv/ferrumkv/backend"
)

// gatherTask materialises one sequence: its parts are pieces of it, so that blocks are
// read as they lie in memory.
type gatherTask struct {
	keys, values plane
	k, v         []byte // nil: not wanted
	mass, scores []float32
	kType, vType backend.DType
	table        blockTable
	begin, n     int
	around       bool // the result goes around the caches
}

// gatherPiece is the tokens of a part.
const gatherPiece = 32

// Gather copies one sequence to dense memory [heads, length, dim]. A block outside the cache is
// ErrArgument.
func (be *Backend) Gather(s backend.Stream, p backend.GatherParams[*Buffer]) error {
	ops, err := be.begin("gather", s)
	if err != nil {
		return err
	}
	defer be.end()
	if err := ops.Gather(&p); err != nil || p.Len == 0 {
		return err
	}
	c := be.pool.borrow(extent{vectors: gatherPiece * max(p.Cache.K.Dim, p.Cache.V.Dim)})
	defer giveBack(be.pool, c, &c.gather)
	t := &c.gather
	*t = gatherTask{keys: planeOf(p.Cache, p.Cache.K), table: blockTable{block: p.TableOffset}, begin: p.Begin, n: p.Len}
	t.values.ofValues(&p.Cache)
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
	if p.Scores.Set {
		t.mass, t.scores = view[float32](p.CacheScores.Buf), view[float32](p.Scores.Buf)[p.ScoresOffset:]
	}
	written := t.bytes(&t.keys, t.kType) + t.bytes(&t.values, t.vType)
	t.around = written >= largeCopy
	return be.pool.run(t, ceilDiv(p.Begin+p.Len, gatherPiece)-p.Begin/gatherPiece, 2*written, c.scratch)
}

// bytes is the size of what is gathered of a plane, as dt; Invalid: nothing.
func (t *gatherTask) bytes(from *plane, dt backend.DType) int {
	return from.heads * t.n * from.dim * dt.Bits() / 8
}

// check looks at the ids of the blocks that hold tokens [begin, end).
func (t *blockTable) check(op string, seq, begin, end int, v *backend.CacheView[*Buffer]) error {
	if begin >= end {
		return nil
	}
	for i := begin / v.BlockSize; i <= (end-1)/v.BlockSize; i++ {
		if id := t.ids[i]; uint64(id) >= uint64(v.Blocks) {
			return backend.ErrArgument{Op: op, What: fmt.Sprintf("block table: entry %d of sequence %d is block %d, the cache has %d", i, seq, id, v.Blocks)}
		}
	}
	return nil
}

func (t *gatherTask) part(i int, w *scratch) {
	first := t.begin/gatherPiece + i
	begin, end := max(t.begin, first*gatherPiece), min(t.begin+t.n, (first+1)*gatherPiece)
	t.gather(&t.keys, t.k, t.kType, begin, end, w)
	t.gather(&t.values, t.v, t.vType, begin, end, w)
	t.gatherScores(begin, end)
	if t.around {
		t.keys.k.fence()
	}
}

// gatherScores gathers the attention scores of tokens [begin, end).
func (t *gatherTask) gatherScores(begin, end int) {
	if t.scores == nil {
		return
	}
	for key := begin; key < end; {
		offset := key % t.keys.block
		n := min(end-key, t.keys.block-offset)
		slot := t.table.at(key/t.keys.block)*t.keys.block + offset
		for head := range t.keys.heads {
			copy(t.scores[head*t.n+key-t.begin:][:n], t.mass[t.keys.index(slot, head):])
		}
		key += n
	}
}

// copyRows copies rows as they are.
func (t *gatherTask) copyRows(dst []byte, rows *stored, k *kernels) {
	if rows.wide == 0 {
		k.move(dst, rows.data, t.around)
		return
	}
	for i := range rows.n {
		row := rows.row(i).data
		k.move(dst[i*len(row):][:len(row)], row, t.around)
	}
}

// gather gathers the rows of tokens [begin, end), a run of a block at a time.
func (t *gatherTask) gather(from *plane, to []byte, dt backend.DType, begin, end int, w *scratch) {
	if to == nil {
		return
	}
	row := from.dim * dt.Bits() / 8
	for key := begin; key < end; {
		offset := key % from.block
		n := min(end-key, from.block-offset)
		block := t.table.at(key / from.block)
		for head := range from.heads {
			dst, src := to[(head*t.n+key-t.begin)*row:][:n*row], from.at(block, head, offset, n)
			if dt == from.dt && !(from.hadamard && dt == backend.F32) {
				t.copyRows(dst, &src, from.k)
				continue
			}
			x := w.vectors[:n*from.dim]
			src.decode(x, from.k.decode[from.dt])
			if from.hadamard {
				from.k.hadamard(x, from.dim)
			}
			from.k.move(dst, backend.BytesOf(x), t.around)
		}
		key += n
	}
}
