//go:build linux && cgo && !nocuda

package cuda

import (
	"fmt"
	"sync"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/cuda/driver"
)

// event is a CUevent without timing.
type event struct {
	be     *Backend
	cu     driver.Event
	closed bool // guarded by be.mu

	waiting sync.RWMutex // as in stream
}

// NewEvent returns an event that was never recorded, so it is done.
func (be *Backend) NewEvent() (backend.Event, error) {
	be.life.Lock()
	defer be.life.Unlock()
	if err := be.alive("new event"); err != nil {
		return nil, err
	}
	cu, err := be.ctx.NewEvent(false)
	if err != nil {
		return nil, be.failed("new event", err)
	}
	e := &event{be: be, cu: cu}
	be.mu.Lock()
	defer be.mu.Unlock()
	be.events[e] = struct{}{}
	return e, nil
}

// usable reports whether e and its device are open; the caller holds be.mu.
func (e *event) usable(op string) error {
	if e.closed {
		return fmt.Errorf("%s: %s: event %w", e.be.name, op, backend.ErrClosed)
	}
	return e.be.open(op)
}

// Done reports whether the mark was reached.
func (e *event) Done() (bool, error) {
	e.be.mu.RLock()
	defer e.be.mu.RUnlock()
	if err := e.usable("event done"); err != nil {
		return false, err
	}
	done, err := e.be.ctx.Done(e.cu)
	return done, e.be.failed("event done", err)
}

// Sync waits until the mark is reached.
func (e *event) Sync() error {
	e.be.mu.RLock()
	err := e.usable("event sync")
	if err == nil {
		e.waiting.RLock()
		defer e.waiting.RUnlock()
	}
	e.be.mu.RUnlock()
	if err != nil {
		return err
	}
	return e.be.failed("event sync", e.be.ctx.SyncEvent(e.cu))
}

// Close ends the event once nobody waits for it.
func (e *event) Close() error {
	e.be.life.Lock()
	defer e.be.life.Unlock()
	e.be.mu.Lock()
	err := e.usable("close event")
	if err == nil {
		e.closed = true
		delete(e.be.events, e)
	}
	e.be.mu.Unlock()
	if err != nil {
		return err
	}
	return e.be.failed("close event", e.destroy())
}

// destroy gives the CUevent back; the caller holds life.
func (e *event) destroy() error {
	e.waiting.Lock()
	defer e.waiting.Unlock()
	return e.be.ctx.DestroyEvent(e.cu)
}
