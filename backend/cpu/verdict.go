package cpu

import (
	"sync"
	"sync/atomic"

	"github.com/ferrumkv/ferrumkv/backend"
)

// A step attends in every layer over the same lengths, offsets, tables and work. What they hold is
// looked at once, by one goroutine before the others begin: buffers count the writes of this
// backend, and what was found right is right until the count of one of them changes. Memory that
// others can write is looked at in every call.

// history is what became of a buffer's memory; sub-buffers have that of the whole.
type history struct {
	writes  atomic.Uint64 // begun, and ended
	exposed atomic.Bool   // others than Upload, Copy and Fill may write it, at any time
}

// past is the history of b's memory.
func (b *Buffer) past() *history {
	for b.parent != nil {
		b = b.parent
	}
	return &b.history
}

// changes is called before a transfer writes to b, and after it: what is found meanwhile does
// not last.
func (b *Buffer) changes() { b.past().writes.Add(1) }

// expose gives up the count of writes for good.
func (b *Buffer) expose() {
	if past := b.past(); !past.exposed.Load() {
		past.exposed.Store(true)
	}
}

// indexType reports whether the elements are ones that no operation writes, but for scales.
func indexType(dt backend.DType) bool {
	return dt == backend.U32 || dt == backend.I32 || dt == backend.I64
}

// verdict is all that the check of a batch depends on.
type verdict struct {
	batch  backend.Ragged[*Buffer]
	work   *Buffer
	blocks int // of the cache
	space  int // planned
	load   workload
	writes [6]uint64 // of each buffer
}

// fewEntries is the size of tables below which a look takes no longer than to recognise the batch.
const fewEntries = 64

// finding is what a look found in the work.
type finding struct {
	items, listed int
	abreast       int
	space, rows   int // of the workspace, and of partial results in it
}

// checkOnce is look, unless what it would find is known.
func (a *attention) checkOnce(p *backend.AttendParams[*Buffer]) error {
	known := &p.Q.Buf.be.verdicts
	var v verdict
	lasts := v.of(a, p)
	if lasts {
		if f, ok := known.find(&v); ok {
			a.accept(p, f)
			return nil
		}
	}
	err := a.look(p)
	if err == nil && lasts {
		known.add(&v, finding{len(a.items) / itemWords, len(a.listed) / listedWords, a.abreast, a.space, a.spaceRows})
	}
	return err
}

// accept is what a look does to a where it found that.
func (a *attention) accept(p *backend.AttendParams[*Buffer], f finding) {
	if a.offsets != nil {
		a.offsets = a.offsets[:p.Batch.Seqs+1]
	}
	work := view[uint32](p.Work.Buf)[headerWords:]
	a.items, a.listed = work[:f.items*itemWords], work[f.items*itemWords:][:f.listed*listedWords]
	a.abreast, a.space, a.spaceRows = f.abreast, f.space, f.rows
}

// of sets v, which is zero, to what is to be checked. It is false where what is found cannot last.
func (v *verdict) of(a *attention, p *backend.AttendParams[*Buffer]) (lasts bool) {
	v.batch, v.work, v.blocks, v.space, v.load = p.Batch, p.Work.Buf, p.Cache.Blocks, p.Plan.Workspace, a.workload
	for i, b := range [...]*Buffer{p.Batch.Table.Buf, p.Batch.ContextLens, p.Batch.QueryOffsets.Buf, p.Batch.Views.Buf, p.Batch.Tree.Buf, p.Work.Buf} {
		if b == nil {
			continue
		}
		past := b.past()
		if past.exposed.Load() {
			return false
		}
		v.writes[i] = past.writes.Load()
	}
	return true
}

// mostVerdicts is how many are remembered: layers differ in their masks and formats.
const mostVerdicts = 8

// verdicts are the last batches that were found right. The zero value has none.
type verdicts struct {
	mu       sync.Mutex // never waited for: who does not get it checks
	known    [mostVerdicts]verdict
	findings [mostVerdicts]finding
	added    int // ever
}

func (vs *verdicts) find(v *verdict) (finding, bool) {
	if !vs.mu.TryLock() {
		return finding{}, false
	}
	defer vs.mu.Unlock()
	for i := range vs.known { // the last first
		at := (vs.added - 1 - i) & (mostVerdicts - 1)
		if known := &vs.known[at]; known.writes == v.writes && *known == *v {
			return vs.findings[at], true
		}
	}
	return finding{}, false
}

func (vs *verdicts) add(v *verdict, f finding) {
	if !vs.mu.TryLock() {
		return
	}
	defer vs.mu.Unlock()
	at := vs.added % mostVerdicts
	vs.known[at], vs.findings[at] = *v, f
	vs.added++
}

// forget has to be called when a buffer ends, which would be held otherwise. The caller holds
// the device's mu, so that nobody asks.
func (vs *verdicts) forget() { clear(vs.known[:]) }
