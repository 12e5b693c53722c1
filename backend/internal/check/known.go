package check

import (
	"slices"
	"sync"
	"unsafe"

	"github.com/ferrumkv/ferrumkv/backend"
)

// Known remembers calls of a device that were found right: a step makes the same ones again
// and again, one or two for each layer, and to compare one takes a fifth of the time that its
// checks take. The zero value knows none.
type Known[B backend.Buffer] struct {
	mu      sync.Mutex // never waited for: who does not get it checks
	appends calls[backend.AppendParams[B]]
	attends calls[backend.AttendParams[B]]
	masses  calls[backend.AttendScoresParams[B]]
}

// HasAppend reports whether p is known. It is nobody's while another goroutine asks, and of
// a nil Known never.
func (k *Known[B]) HasAppend(p *backend.AppendParams[B]) bool {
	if k == nil || !k.mu.TryLock() {
		return false
	}
	defer k.mu.Unlock()
	return k.appends.has(p)
}

// AddAppend makes p known.
func (k *Known[B]) AddAppend(p *backend.AppendParams[B]) {
	if k != nil && k.mu.TryLock() {
		defer k.mu.Unlock()
		k.appends.add(p)
	}
}

// HasAttend is HasAppend of the other operation.
func (k *Known[B]) HasAttend(p *backend.AttendParams[B]) bool {
	if k == nil || !k.mu.TryLock() {
		return false
	}
	defer k.mu.Unlock()
	return k.attends.has(p)
}

// AddAttend makes p known.
func (k *Known[B]) AddAttend(p *backend.AttendParams[B]) {
	if k != nil && k.mu.TryLock() {
		defer k.mu.Unlock()
		k.attends.add(p)
	}
}

// HasAttendScores is HasAppend of the third.
func (k *Known[B]) HasAttendScores(p *backend.AttendScoresParams[B]) bool {
	if k == nil || !k.mu.TryLock() {
		return false
	}
	defer k.mu.Unlock()
	return k.masses.has(p)
}

// AddAttendScores makes p known.
func (k *Known[B]) AddAttendScores(p *backend.AttendScoresParams[B]) {
	if k != nil && k.mu.TryLock() {
		defer k.mu.Unlock()
		k.masses.add(p)
	}
}

// Forget has to be called when a buffer ends: calls that name it are right no longer.
func (k *Known[B]) Forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.appends.forget()
	k.attends.forget()
	k.masses.forget()
}

// mostKnown bounds what is looked through: the layers of one large model, or of several small ones.
const mostKnown = 256

// calls is the last call for each cache.
type calls[P any] struct {
	caches []uintptr // the first word of each call, which is the buffer of the keys
	all    []P
}

// find is the place of the call for the cache of p; −1 where there is none.
func (c *calls[P]) find(p *P) int {
	return slices.Index(c.caches, *(*uintptr)(unsafe.Pointer(p)))
}

func (c *calls[P]) has(p *P) bool {
	at := c.find(p)
	return at >= 0 && bytesOf(&c.all[at]) == bytesOf(p)
}

func (c *calls[P]) add(p *P) {
	if at := c.find(p); at >= 0 {
		c.all[at] = *p
		return
	}
	if len(c.all) == mostKnown {
		c.forget()
	}
	c.caches, c.all = append(c.caches, *(*uintptr)(unsafe.Pointer(p))), append(c.all, *p)
}

func (c *calls[P]) forget() {
	clear(c.all) // the buffers are no longer held
	c.caches, c.all = c.caches[:0], c.all[:0]
}

// bytesOf is a value as it lies in memory. Values with the same bytes are the same; others may be,
// too, which costs a check. Of a slice, whose elements no check looks at, they are which it is.
func bytesOf[P any](p *P) string {
	return unsafe.String((*byte)(unsafe.Pointer(p)), unsafe.Sizeof(*p))
}
