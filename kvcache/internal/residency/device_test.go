package residency

import (
	"errors"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/block"
	"github.com/ferrumkv/ferrumkv/kvcache/group"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
)

// work is a step on the device: what it reads and writes until it is done.
type work struct {
	uses   []block.Block
	writes []block.Block
	before *work   // the one before it on its stream
	after  []*work // other streams' that it waits for
	done   bool
	err    error
}

// follows reports whether w cannot run before other is done.
func (w *work) follows(other *work) bool {
	if w == nil || w.done {
		return false
	}
	for _, first := range append(w.after, w.before) {
		if first == other || first.follows(other) {
			return true
		}
	}
	return false
}

// queue is a stream of steps, done in their order. It is nobody's device: the test says when.
type queue struct {
	backend.Stream // what residency does not call
	steps          []*work
	waits          []*work // of the next step
	broken         error   // of Record
}

// mark is an event: the steps of a stream up to one.
type mark struct {
	backend.Event
	at *work // nil: nothing
	of *events
}

func (q *queue) Record(e backend.Event) error {
	if q.broken != nil {
		return q.broken
	}
	e.(*mark).at = q.last()
	return nil
}

func (q *queue) Wait(e backend.Event) error {
	if m := e.(*mark); m.at != nil {
		q.waits = append(q.waits, m.at)
	}
	return nil
}

func (q *queue) Sync() error {
	q.last().finish()
	return nil
}

func (q *queue) last() *work {
	if len(q.steps) == 0 {
		return nil
	}
	return q.steps[len(q.steps)-1]
}

// enqueue adds a step that uses blocks, some of which it writes.
func (q *queue) enqueue(uses, writes []block.Block) *work {
	w := &work{uses: append([]block.Block(nil), uses...), writes: append([]block.Block(nil), writes...), before: q.last(), after: q.waits}
	q.steps, q.waits = append(q.steps, w), nil
	return w
}

// finish does w, after everything that it follows.
func (w *work) finish() {
	if w == nil || w.done {
		return
	}
	w.before.finish()
	for _, other := range w.after {
		other.finish()
	}
	w.done = true
}

func (m *mark) Done() (bool, error) {
	if m.of.asked != nil {
		defer m.of.asked()
	}
	if m.at == nil || m.at.done {
		return true, m.failed()
	}
	return false, nil
}

func (m *mark) Sync() error {
	if m.of.waits != nil {
		m.of.waits()
	}
	m.at.finish()
	return m.failed()
}

func (m *mark) failed() error {
	if m.at == nil {
		return nil
	}
	return m.at.err
}

func (m *mark) Close() error { return nil }

// events makes marks; after limit there are none.
type events struct {
	limit int
	waits func() // told of each wait; nil: nobody
	asked func() // called after each answer of Done; nil: nothing
}

var errNoEvents = errors.New("no more events")

func (e *events) NewEvent() (backend.Event, error) {
	if e.limit--; e.limit < 0 {
		return nil, errNoEvents
	}
	return &mark{of: e}, nil
}

// ofBlocks configures a cache whose entries are blocks.
func ofBlocks(tree prefix.Config) *group.Config {
	return &group.Config{Tree: tree, Parts: []group.Part{{Rule: group.Rule{Block: tree.BlockSize}, Each: 1}}}
}

// publish is Publish of blocks that are entries.
func publish(r *Blocks, f *Fence, past *Writers, at prefix.Path, tokens []uint32, blocks []block.Block) (int, error) {
	n, _, err := r.Publish(f, past, nil, at, tokens, func(_, i int) *block.Block { return &blocks[i] })
	return n, err
}
