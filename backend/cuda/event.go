//go:build linux && cgo && !nocuda

package cuda

import (
	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/cuda/driver"
	"github.com/ferrumkv/ferrumkv/backend/internal/device"
)

// event is a CUevent without timing.
type event struct {
	device.Member
	be *Backend
	cu driver.Event
}

// NewEvent returns an event that was never recorded, so it is done.
func (be *Backend) NewEvent() (backend.Event, error) {
	if err := be.dev.Lock("new event"); err != nil {
		return nil, err
	}
	defer be.dev.Unlock()
	cu, err := be.ctx.NewEvent(driver.Waiting)
	if err != nil {
		return nil, be.dev.Failed("new event", err)
	}
	e := &event{be: be, cu: cu}
	be.dev.AddEvent(e)
	return e, nil
}

// Done reports whether the mark was reached.
func (e *event) Done() (bool, error) {
	if err := e.be.dev.BeginEvent("event done", e); err != nil {
		return false, err
	}
	defer e.be.dev.End()
	done, err := e.be.ctx.Done(e.cu)
	return done, e.be.dev.Failed("event done", err)
}

// Sync waits until the mark is reached.
func (e *event) Sync() error {
	if err := e.be.dev.HoldEvent("event sync", e); err != nil {
		return err
	}
	defer e.Release()
	return e.be.dev.Failed("event sync", e.be.ctx.SyncEvent(e.cu))
}

// Close ends the event once nobody waits for it.
func (e *event) Close() error { return e.be.dev.CloseEvent(e) }

// Destroy gives the CUevent back, once nobody uses the event any more.
func (e *event) Destroy() error { return e.be.ctx.DestroyEvent(e.cu) }
