//go:build cgo && !nometal && (darwin || metalsimt)

package metal

import (
	"sync"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/device"
	"github.com/ferrumkv/ferrumkv/backend/metal/mtl"
)

// event is the mark of a queue that was recorded last.
type event struct {
	device.Member
	be *Backend

	mu   sync.Mutex
	mark mtl.Mark // zero: never recorded
}

// NewEvent returns an event that was never recorded, so it is done.
func (be *Backend) NewEvent() (backend.Event, error) {
	if err := be.dev.Lock("new event"); err != nil {
		return nil, err
	}
	defer be.dev.Unlock()
	e := &event{be: be}
	be.dev.AddEvent(e)
	return e, nil
}

// set replaces the mark and takes it over.
func (e *event) set(m mtl.Mark) {
	e.mu.Lock()
	old := e.mark
	e.mark = m
	e.mu.Unlock()
	old.Release()
}

// get returns the mark, which the caller releases.
func (e *event) get() mtl.Mark {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.mark.Retain()
}

// Done reports whether the mark was reached.
func (e *event) Done() (bool, error) {
	if err := e.be.dev.BeginEvent("event done", e); err != nil {
		return false, err
	}
	defer e.be.dev.End()
	mark := e.get()
	defer mark.Release()
	done, err := mark.Done()
	return done, e.be.dev.Failed("event done", err)
}

// Sync waits until the mark is reached.
func (e *event) Sync() error {
	if err := e.be.dev.HoldEvent("event sync", e); err != nil {
		return err
	}
	defer e.Release()
	mark := e.get()
	defer mark.Release()
	return e.be.dev.Failed("event sync", mark.Wait())
}

// Close ends the event once nobody waits for it.
func (e *event) Close() error { return e.be.dev.CloseEvent(e) }

// Destroy forgets the mark.
func (e *event) Destroy() error {
	e.set(mtl.Mark{})
	return nil
}
