package group

import (
	"strings"

	"github.com/ferrumkv/ferrumkv/kvcache/block"
)

// common is the length of what two strings begin with.
func common(a, b string) (n int) {
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// find is the path that the tree has of a text, and the tokens of that.
func (w *world) find(text string) (path []*known, n int) {
	for rest := len(text) - 1; rest-n >= w.size; n += w.size {
		e := w.known[text[:1+n+w.size]]
		if e == nil {
			break
		}
		path = append(path, e)
	}
	e, shared := w.child(text[:1+n], text[1+n:min(1+n+w.size, len(text))])
	if shared > 0 {
		path = append(path, e)
	}
	return path, n + shared
}

// child is the entry behind a text that has the most of a label: one of its neighbours in their order.
func (w *world) child(at, label string) (best *known, shared int) {
	var before, behind *known
	for text, e := range w.known {
		if len(text) <= len(at) || len(text) > len(at)+w.size || !strings.HasPrefix(text, at) {
			continue
		}
		switch of := text[len(at):]; {
		case of == label:
			return e, len(label)
		case of < label && (before == nil || text > before.text):
			before = e
		case of > label && (behind == nil || text < behind.text):
			behind = e
		}
	}
	for _, e := range []*known{before, behind} {
		if e != nil && common(e.text[len(at):], label) > shared {
			best, shared = e, common(e.text[len(at):], label)
		}
	}
	return best, shared
}

// fits reports whether a part has what is read after n tokens of a path.
func (w *world) fits(part int, path []*known, n int) bool {
	p := &w.parts[part]
	if p.Kind == State {
		e := path[(n-1)/w.size]
		return len(e.text)-1 == n && e.with[part][0] != block.Block{}
	}
	for i, needed := range p.needs(n) {
		if needed && (path[i/p.Each].with[part][i%p.Each] == block.Block{}) {
			return false
		}
	}
	return true
}

// longest is the tokens of a path after which all parts can go on: all of them, or those of whole entries.
func (w *world) longest(path []*known, n int) int {
	for n > 0 {
		all := true
		for part := range w.parts {
			all = all && w.fits(part, path, n)
		}
		if all {
			return n
		}
		n = (n - 1) / w.size * w.size
	}
	return 0
}

// answer is what Match finds.
func (w *world) answer(text string) (path []*known, n, missing int) {
	path, all := w.find(text)
	if all < w.minPrefix {
		return nil, 0, 0
	}
	n = w.longest(path, all)
	missing = all - n
	if n < w.minPrefix {
		n = 0
	}
	return path[:(n+w.size-1)/w.size], n, missing
}

// runs are the blocks that each part has of n tokens of a path, those that it needs.
func (w *world) runs(path []*known, n int) []Run {
	out := make([]Run, len(w.parts))
	if n == 0 {
		return out
	}
	for part := range w.parts {
		p, run := &w.parts[part], &out[part]
		switch run.Gone = p.gone(n); p.Kind {
		case State:
			run.Blocks = []block.Block{path[len(path)-1].with[part][0]}
		case Full, Window, Chunked:
			for i := range (n + p.Block - 1) / p.Block {
				if i < p.sinks() || i >= p.sinks()+run.Gone {
					run.Blocks = append(run.Blocks, path[i/p.Each].with[part][i%p.Each])
				}
			}
		}
	}
	return out
}
