package device

import (
	"fmt"

	"github.com/ferrumkv/ferrumkv/backend"
)

// AddEvent makes e an event of the device; the caller holds Lock.
func (d *Device[B, S, E, R]) AddEvent(e E) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.events.add(d, e)
}

// BeginEvent is Begin for what needs an event and no stream.
func (d *Device[B, S, E, R]) BeginEvent(op string, e E) error {
	d.mu.RLock()
	var err error
	if e.member().closed {
		err = fmt.Errorf("%s: %s: event %w", d.name, op, backend.ErrClosed)
	} else {
		err = d.open(op)
	}
	if err != nil {
		d.mu.RUnlock()
	}
	return err
}

// BeginMark is Begin for what a stream does with an event.
func (d *Device[B, S, E, R]) BeginMark(op string, s S, e backend.Event) (E, error) {
	var own E
	_, _, err := d.BeginNow(op, "its events are before the capture or after it", s)
	if err != nil {
		return own, err
	}
	if own, err = d.events.find(d, d.name, op, e); err != nil {
		d.End()
	}
	return own, err
}

// HoldEvent begins a wait of the host: until e.Release, e is not destroyed.
func (d *Device[B, S, E, R]) HoldEvent(op string, e E) error {
	err := d.BeginEvent(op, e)
	if err == nil {
		e.member().waiting.RLock()
		d.End()
	}
	return err
}

// CloseEvent destroys e once nobody waits for it.
func (d *Device[B, S, E, R]) CloseEvent(e E) error {
	const op = "close event"
	d.life.Lock()
	defer d.life.Unlock()
	if err := d.BeginEvent(op, e); err != nil {
		return err
	}
	d.End()
	d.mu.Lock()
	d.events.remove(e)
	d.mu.Unlock()
	return d.Failed(op, e.member().alone(e.Destroy))
}
