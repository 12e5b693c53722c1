package cpu

import "github.com/ferrumkv/ferrumkv/backend"

// scratch is the memory that one goroutine works in. Its contents are those of
// an earlier use.
type scratch struct {
	size           extent
	q, acc, scores []float32 // of a tile
	top            []float32 // a row's largest score
	sum            []float64 // and the sum of its weights
	vectors        []float32
	rounded        []byte   // query rows as Int8
	steps          []uint32 // and their scales
	integers       integers
}

// extent is how much scratch a call needs, in elements.
type extent struct {
	q, acc, scores int // of all rows of a tile
	rows           int // of a tile
	vectors        int // decoded rows of keys or values
	rounded        int // query rows as Int8, of all rows of a tile
	integers       int // of a key that is multiplied as integers
}

func (e extent) max(o extent) extent {
	return extent{max(e.q, o.q), max(e.acc, o.acc), max(e.scores, o.scores), max(e.rows, o.rows), max(e.vectors, o.vectors),
		max(e.rounded, o.rounded), max(e.integers, o.integers)}
}

func newScratch(e extent) *scratch {
	return &scratch{size: e, q: make([]float32, e.q), acc: make([]float32, e.acc), scores: make([]float32, e.scores),
		top: make([]float32, e.rows), sum: make([]float64, e.rows), vectors: make([]float32, e.vectors),
		rounded: make([]byte, e.rounded), steps: make([]uint32, e.rows), integers: newIntegers(e.integers)}
}

// call is one operation in progress: the parameters of its task, kept here so
// that handing them to the workers does not allocate, and its goroutine's scratch.
type call struct {
	*scratch
	append    appendTask
	rotate    rotateTask
	gather    gatherTask
	move      moveTask
	convert   convertTask
	merge     mergeTask
	attention attention
	attend    backend.AttendParams[*Buffer]
}

// borrow returns a call whose scratch, and that of every worker, has the extent
// needed. It allocates when more is needed than ever before, or when more calls
// are in progress.
func (p *pool) borrow(need extent) *call {
	p.mu.Lock()
	defer p.mu.Unlock()
	if size := p.size.max(need); size != p.size {
		p.size = size
		for i := range p.scratch {
			p.scratch[i].Store(newScratch(size))
		}
	}
	var c *call
	if n := len(p.calls); n > 0 {
		c, p.calls = p.calls[n-1], p.calls[:n-1]
	} else {
		c = new(call)
	}
	if c.scratch == nil || c.size != p.size {
		c.scratch = newScratch(p.size)
	}
	return c
}

// giveBack ends a call and drops its operands, so that they are not kept alive.
func (p *pool) giveBack(c *call) {
	*c = call{scratch: c.scratch}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls = append(p.calls, c)
}
