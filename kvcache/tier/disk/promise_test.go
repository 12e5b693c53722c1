package disk

import (
	"maps"
	"slices"
	"sync"

	"github.com/ferrumkv/ferrumkv/kvcache/tier"
)

// span is a call: how many changes and calls there were when it began and when it had ended.
type span struct {
	from, to     int // changes
	began, ended int // calls that began or ended; 0: it is running
}

// promises is what calls have promised to hold after a crash.
type promises struct {
	mu      sync.Mutex
	sys     *memoryFS
	calls   int
	puts    []call
	forgets []call
	kept    []point
	doubted map[int]place
}

// call is one with blocks of these numbers.
type call struct {
	*span
	numbers map[int]bool
}

// place is where a block lies.
type place struct {
	slot       int32
	generation uint64
}

// point is what was there, for good, after some changes and calls.
type point struct {
	changes, calls int
	places         map[int]place // of the numbers of blocks
}

func (p *promises) begin() *span {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls++
	return &span{from: p.sys.changes(), began: p.calls}
}

func (p *promises) end(s *span) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls++
	s.to, s.ended = p.sys.changes(), p.calls
}

// put notes the blocks of a call that begins.
func (p *promises) put(s *span, blocks []tier.Block) {
	p.mu.Lock()
	defer p.mu.Unlock()
	numbers := map[int]bool{}
	for _, b := range blocks {
		numbers[int(b.Key[0])] = true
	}
	p.puts = append(p.puts, call{s, numbers})
}

// forgot notes blocks that are gone for good.
func (p *promises) forgot(s *span, numbers map[int]bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.forgets = append(p.forgets, call{s, numbers})
}

// keep notes that what there was is on the disk, except what has gone meanwhile, and what a sync reported as uncertain.
func (p *promises) keep(had map[int]place, d *Tier) {
	p.mu.Lock()
	defer p.mu.Unlock()
	k := point{p.sys.changes(), p.calls, had}
	has := d.contents()
	maps.DeleteFunc(had, func(n int, is place) bool { return has[n] != is || p.doubted[n] == is })
	p.kept = append(p.kept, k)
}

// doubt notes what a failed sync may not have brought to the disk.
func (p *promises) doubt(places map[int]place) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.doubted = places
}

// gone is what was forgotten for good before a crash, and not put since the call began.
func (p *promises) gone(at int) map[int]bool {
	out := map[int]bool{}
	for _, f := range p.forgets {
		for n := range f.numbers {
			if f.to <= at && !p.putAgain(n, f.began, at) {
				out[n] = true
			}
		}
	}
	return out
}

// putAgain reports whether a block was put after some calls, before a crash.
func (p *promises) putAgain(n, calls, at int) bool {
	return slices.ContainsFunc(p.puts, func(q call) bool { return q.numbers[n] && q.from < at && (q.ended == 0 || q.ended > calls) })
}

// there is what was kept last before a crash, without what may have been overwritten or cut off since, or put again after it
// was given up.
func (p *promises) there(at int, log []op) map[int]bool {
	var last point
	for _, k := range p.kept {
		if k.changes <= at && k.changes >= last.changes {
			last = k
		}
	}
	out := map[int]bool{}
	for n, is := range last.places {
		entry, data := page+int64(is.slot)*entryBytes, int64(is.slot)*2*page
		over := p.putAgain(n, last.calls, at)
		for _, c := range log[last.changes:at] {
			from, end := entry, entry+entryBytes
			if c.file == "/cache/data" {
				from, end = data, data+2*page
			}
			over = over || c.kind == "write" && c.at < end && c.at+int64(len(c.data)) > from || c.kind == "truncate" && c.at < end
		}
		if !over {
			out[n] = true
		}
	}
	return out
}

// contents is where each block that is found now lies.
func (t *Tier) contents() map[int]place {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := map[int]place{}
	for k, i := range t.index.byKey {
		out[int(k[0])] = place{i, t.index.slots[i].generation}
	}
	return out
}
