package cpu

import (
	"fmt"
	"math"

	"github.com/ferrumkv/ferrumkv/backend"
)

// convertTask stores blocks of one cache as blocks of another: its parts are the
// heads of each block's keys and those of its values.
type convertTask struct {
	pairs            []uint32
	keys, values     conversion
	planes           int       // 1: values are in the keys
	fromMass, toMass []float32 // of each slot, nil: none
	saturate         bool
	bad              firstRow // by pair and slot of its block
}

// conversion is the way of one plane.
type conversion struct {
	from, to plane
	hadamard bool // rows are turned, there or back
}

// rows is how many rows are converted at a time: by channel all of a block.
func (c *conversion) rows() int {
	if c.to.dt.Coding().Scope == backend.ByChannel {
		return c.to.block
	}
	return min(c.to.block, chunk)
}

// ConvertBlocks copies whole blocks between caches of different storage types. A block outside its
// cache is ErrArgument, a value that is to be quantized and is not finite ErrNonFinite; then nothing
// is written.
func (be *Backend) ConvertBlocks(s backend.Stream, p backend.ConvertBlocksParams[*Buffer]) error {
	ops, err := be.begin("convert blocks", s)
	if err != nil {
		return err
	}
	defer be.end()
	if err := ops.ConvertBlocks(&p); err != nil {
		return err
	}
	pairs := view[uint32](p.Pairs)[:2*p.N]
	if err := blocksOf("convert blocks", pairs, p.From.Blocks, p.To.Blocks); err != nil {
		return err
	}
	keys := conversion{planeOf(p.From, p.From.K), planeOf(p.To, p.To.K), p.From.K.Hadamard != p.To.K.Hadamard}
	values := conversion{from: ownValues(p.From), to: ownValues(p.To)}
	c := be.pool.borrow(extent{vectors: max(keys.rows()*keys.to.dim, values.rows()*values.to.dim)})
	defer giveBack(be.pool, c, &c.convert)
	t := &c.convert
	*t = convertTask{pairs: pairs, keys: keys, values: values, planes: planes(&p.From), saturate: p.Saturate,
		fromMass: optional[float32](p.FromScores), toMass: optional[float32](p.ToScores)}
	heads := p.From.KVHeads
	parts, rows := t.planes*heads*p.N, heads*p.From.BlockSize*p.N
	read := rows * (keys.from.row + values.from.row)
	if keys.to.dt.Quantized() && !p.Saturate {
		t.bad.reset()
		if err := be.pool.run(examining{t}, parts, read, c.scratch); err != nil {
			return err
		}
		if row, name, head, found := t.bad.found(heads); found {
			block, slot := pairs[2*(row/p.From.BlockSize)], row%p.From.BlockSize
			return backend.ErrNonFinite{Op: "convert blocks", What: fmt.Sprintf("%s of block %d, slot %d, head %d", name, block, slot, head)}
		}
	}
	return be.pool.run(t, parts, read+rows*(keys.to.row+values.to.row), c.scratch)
}

// share is the conversion, the pair and the head of part i of [pairs, keys and values, heads].
func (t *convertTask) share(i int) (c *conversion, pair, head int) {
	heads := t.keys.from.heads
	pair, head = i/(t.planes*heads), i%(t.planes*heads)
	if head >= heads {
		return &t.values, pair, head - heads
	}
	return &t.keys, pair, head
}

func (t *convertTask) part(i int, w *scratch) {
	c, pair, head := t.share(i)
	if t.pairs[2*pair] == backend.NoBlock {
		return
	}
	from, to := int(t.pairs[2*pair]), int(t.pairs[2*pair+1])
	for slot := 0; slot < c.to.block; slot += c.rows() {
		x := c.load(w, from, head, slot)
		c.store(c.to.at(to, head, slot, len(x)/c.to.dim), x, t.saturate)
	}
	if t.fromMass != nil && c == &t.keys { // with which it goes
		copy(t.toMass[c.to.number(to, head, 0):][:c.to.block], t.fromMass[c.from.number(from, head, 0):])
	}
}

// store writes rows. A code's value may exceed the largest number of a float type; it is then stored as that number.
func (c *conversion) store(to stored, x []float32, saturate bool) {
	k := c.to.k
	k.encode[to.dt](to, x, saturate)
	if to.dt.Quantized() || !c.beyond(to.dt) || k.finiteStored(to.dt, to, x) {
		return
	}
	bound(x, largest(to.dt))
	k.encode[to.dt](to, x, saturate)
}

// beyond reports whether rows may leave the range of a type of floats. Scales of their own keep values within the range of bf16.
func (c *conversion) beyond(to backend.DType) bool {
	return to == backend.F16 || c.hadamard || c.from.dt.HeadFactors()
}

// finiteStored reports whether x, of which to has what a type of floats stores, is finite there. It may be false
// where it is.
func (k *kernels) finiteStored(dt backend.DType, to stored, x []float32) bool {
	return dt == backend.F32 && k.finite(x) || k.finiteHalves(dt, to.data)
}

// largest is the largest number of a type of floats, and of f32 for others.
func largest(dt backend.DType) float32 {
	switch dt {
	case backend.F16:
		return 65504
	case backend.BF16:
		return 0x1.fep127
	}
	return math.MaxFloat32
}

// load is what becomes of a block's rows from a slot on.
func (c *conversion) load(w *scratch, block, head, slot int) []float32 {
	n := min(c.rows(), c.from.block-slot)
	x := w.vectors[:n*c.from.dim]
	c.from.k.decode[c.from.dt](x, c.from.at(block, head, slot, n))
	if c.hadamard {
		c.from.k.hadamard(x, c.from.dim)
	}
	return x
}

// examining looks, before anything is written, for rows that cannot be quantized.
type examining struct{ *convertTask }

func (e examining) part(i int, w *scratch) {
	c, pair, head := e.share(i)
	if e.pairs[2*pair] == backend.NoBlock {
		return
	}
	side := i % (e.planes * c.from.heads)
	for slot := 0; slot < c.from.block; slot += c.rows() {
		x := c.load(w, int(e.pairs[2*pair]), head, slot)
		for r := range len(x) / c.from.dim {
			if row := pair*c.from.block + slot + r; !e.bad.look(c.from.k, row*2*c.from.heads+side, x[r*c.from.dim:][:c.from.dim], c.from.dim) {
				return
			}
		}
	}
}
