package residency

import "github.com/ferrumkv/ferrumkv/kvcache/block"

// Writers is the steps that wrote what a sequence has and that may have failed. A block takes as many steps as fill it, and is
// published by the last of them or, where it could not be, by a later one: that one's fence says nothing of the others on a device
// whose steps fail one by one. Those whose tokens were published before stay until they are known to be done. The zero value is of
// no steps.
type Writers struct{ steps []writerStep }

type writerStep struct {
	fence *Fence // held
	from  int    // of the sequence's tokens, the first that it may have written
}

// mostWriters is how many steps Writers hold before they ask the device which of them are done.
const mostWriters = 8

// Add notes a step that wrote tokens of the sequence, from one on.
func (w *Writers) Add(fs *Fences, f *Fence, from int) {
	if f == nil {
		return
	}
	if w.steps == nil {
		w.steps = make([]writerStep, 0, mostWriters)
	}
	w.sift(fs, len(w.steps) == cap(w.steps))
	w.steps = append(w.steps, writerStep{f.Hold(), from})
}

// sift forgets the steps that are known to have written what they were to, and those that failed as another one did.
func (w *Writers) sift(fs *Fences, ask bool) {
	failed := -1 // the first token that a step failed to write
	w.keep(fs, func(s writerStep) bool {
		if ask = ask && s.fence.Reached(); !s.fence.done { // else neither are those after it
			return true
		}
		if s.fence.err == nil || failed >= 0 && failed <= s.from {
			return false
		}
		failed = s.from
		return true
	})
}

// Cut forgets the steps all of whose tokens the sequence gives up: it keeps n.
func (w *Writers) Cut(fs *Fences, n int) { w.keep(fs, func(s writerStep) bool { return s.from < n }) }

// Failed is why one of the steps failed, once all of them are done; nil: none did.
func (w *Writers) Failed() error {
	for _, s := range w.steps {
		if s.fence.Reached() && s.fence.err != nil {
			return s.fence.err
		}
	}
	return nil
}

// CopyTo copies the steps to an empty value, for a sequence that begins like this one.
func (w *Writers) CopyTo(c *Writers) {
	c.steps = append(c.steps[:0], w.steps...)
	for _, s := range c.steps {
		s.fence.Hold()
	}
}

func (w *Writers) keep(fs *Fences, wanted func(writerStep) bool) {
	kept := w.steps[:0]
	for _, s := range w.steps {
		if wanted(s) {
			kept = append(kept, s)
		} else {
			fs.Drop(s.fence)
		}
	}
	clear(w.steps[len(kept):])
	w.steps = kept
}

// Hold notes in books what the writers hold.
func (w *Writers) Hold(b *Books) {
	for _, s := range w.steps {
		b.Hold(s.fence)
	}
}

// Inherit adds to writers the steps that still write an entry of the tree, of which a sequence that had it keeps a part for
// itself: its tokens from one on.
func (r *Blocks) Inherit(p *Writers, e block.Block, from int) {
	for _, w := range r.publications {
		if w.block == e {
			p.Add(r.Fences, w.fence, from)
		}
	}
}
