package cpu

import "unsafe"

// scratch is the memory that one goroutine works in. Its contents are those of
// an earlier use.
type scratch struct {
	size           extent
	q, acc, scores []float32      // of a tile
	top            []float32      // a row's largest score
	sum            []float64      // and the sum of its weights
	shrink         []float32      // factors of a head's rows
	weights        [chunk]float32 // of partial results
	vectors        []float32
	panel          []float32 // keys of a tall tile, [dim, panel]
	rounded        []byte    // query rows as Int8
	steps          []uint32  // and their scales
	integers       integers
	route          keyWalk
	keys, values   []stored // of a step of it; their rooms are of the same size
	used           int      // how many of either have been in use since forget
	job            *job     // of a goroutine that calls; a worker has none
	shown          []shown  // of a tile's queries
}

// extent is how much scratch a call needs, in elements.
type extent struct {
	q, acc, scores int // of all rows of a tile
	rows           int // of a tile
	vectors        int // decoded rows of keys or values
	panel          int // keys of a tall tile
	rounded        int // query rows as Int8, of all rows of a tile
	integers       int // of a key that is multiplied as integers
}

func (e extent) max(o extent) extent {
	return extent{max(e.q, o.q), max(e.acc, o.acc), max(e.scores, o.scores), max(e.rows, o.rows), max(e.vectors, o.vectors), max(e.panel, o.panel),
		max(e.rounded, o.rounded), max(e.integers, o.integers)}
}

func newScratch(e extent) *scratch {
	return &scratch{size: e, q: aligned[float32](e.q), acc: aligned[float32](e.acc), scores: aligned[float32](e.scores),
		top: aligned[float32](e.rows), sum: aligned[float64](e.rows), vectors: aligned[float32](e.vectors), panel: aligned[float32](e.panel),
		shrink:  aligned[float32](e.rows),
		rounded: aligned[byte](e.rounded), steps: aligned[uint32](e.rows), integers: newIntegers(e.integers),
		keys: make([]stored, chunk), values: make([]stored, chunk)}
}

// runs are the first n of keys and of values, for a step.
func (w *scratch) runs(n int) (keys, values []stored) {
	w.keys, w.values, w.used = w.keys[:n], w.values[:n], max(w.used, n)
	return w.keys, w.values
}

// forget drops what keys and values refer to, so that it is not kept alive.
func (w *scratch) forget() {
	clear(w.keys[:w.used])
	clear(w.values[:w.used])
	w.used = 0
}

// aligned is make for memory that starts with a cache line, as the kernels like it best.
func aligned[T float32 | float64 | uint32 | byte](n int) []T {
	var zero T
	size := int(unsafe.Sizeof(zero))
	all := make([]T, n+cacheLine/size)
	shift := int(-uintptr(unsafe.Pointer(unsafe.SliceData(all)))%cacheLine) / size
	return all[shift:][:n:n]
}

const cacheLine = 64

// call is one operation in progress: the parameters of its task, kept here so
// that handing them to the workers does not allocate, and its goroutine's scratch.
type call struct {
	*scratch
	append    appendTask
	rotate    rotateTask
	gather    gatherTask
	move      moveTask
	blocks    blockTask
	copy      copyTask
	exchange  exchangeTask
	convert   convertTask
	clear     clearTask
	merge     mergeTask
	attention attention
}

// borrow returns a call whose scratch, and that of every worker, has the extent
// needed. It allocates when more is needed than ever before, or when more calls
// are in progress.
func (p *pool) borrow(need extent) *call {
	last := p.last.Swap(nil)
	if last != nil && last.size.max(need) == last.size { // and that of the workers is no less
		return last
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if size := p.size.max(need); size != p.size {
		for i := range p.scratch {
			p.scratch[i].Store(newScratch(size))
		}
		p.size = size
	}
	c := last
	if n := len(p.calls); c == nil && n > 0 {
		c, p.calls = p.calls[n-1], p.calls[:n-1]
	} else if c == nil {
		c = new(call)
	}
	if c.scratch == nil || c.size != p.size {
		c.scratch = newScratch(p.size)
		c.job = newJob()
	}
	return c
}

// giveBack ends a call and drops the operands of its task, so that they are not kept alive.
func giveBack[T any](p *pool, c *call, task *T) {
	var zero T
	*task = zero
	if p.last.CompareAndSwap(nil, c) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls = append(p.calls, c)
}
