package device

import (
	"errors"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/check"
	"github.com/ferrumkv/ferrumkv/backend/internal/launch"
)

// Begin starts an operation on s: until End, no buffer is freed, s is not
// destroyed, and the device stays open. It returns the check of the operation's
// operands. With an error there is nothing to end.
func (d *Device[B, S, E, R]) Begin(op string, s backend.Stream) (check.Operands[B, owner[B, S, E, R]], S, error) {
	d.mu.RLock()
	var own S
	var graph *Graph[B, S, E, R]
	err := d.open(op)
	if err == nil {
		own, err = d.streams.find(d, d.name, op, s)
	}
	if err != nil {
		d.mu.RUnlock()
	} else if len(d.captures) > 0 {
		graph = d.captures[own]
	}
	return check.Operands[B, owner[B, S, E, R]]{Owner: owner[B, S, E, R]{d, graph}, Op: op}, own, err
}

// BeginNow is Begin for what is done at once and cannot be captured: ErrCapture, with what
// to do, on a stream that is.
func (d *Device[B, S, E, R]) BeginNow(op, do string, s backend.Stream) (check.Operands[B, owner[B, S, E, R]], S, error) {
	ops, own, err := d.Begin(op, s)
	if err == nil && ops.Owner.graph != nil {
		d.End()
		err = backend.ErrCapture{Op: op, Do: do}
	}
	return ops, own, err
}

// Use is Begin for what needs no stream.
func (d *Device[B, S, E, R]) Use(op string) error {
	d.mu.RLock()
	err := d.open(op)
	if err != nil {
		d.mu.RUnlock()
	}
	return err
}

// End ends what Begin, BeginNow, BeginBuffer, BeginEvent, BeginMark, Use or Info began.
func (d *Device[B, S, E, R]) End() { d.mu.RUnlock() }

// Hold begins a wait of the host: until s.Release, s is not destroyed.
func (d *Device[B, S, E, R]) Hold(op string, s S) error {
	_, _, err := d.BeginNow(op, "wait before the capture or after it", s)
	if err == nil {
		s.member().waiting.RLock()
		d.End()
	}
	return err
}

// AddStream makes s a stream of the device; the caller holds Lock.
func (d *Device[B, S, E, R]) AddStream(s S) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.streams.add(d, s)
	s.Calls().Status = func() (launch.Place, error) { return d.status(s) }
}

// drain waits for everything enqueued on s, and holds s. With an error there is nothing
// to release.
func (d *Device[B, S, E, R]) drain(op string, s S) error {
	if err := d.Hold(op, s); err != nil {
		return err
	}
	err := d.Failed(op, s.Drain())
	if err != nil {
		s.member().Release()
	}
	return err
}

// Sync waits for everything enqueued on s, and says whether some of it could not be
// quantized.
func (d *Device[B, S, E, R]) Sync(op string, s S) error {
	if err := d.drain(op, s); err != nil {
		return err
	}
	defer s.member().Release()
	return d.collected(op, s)
}

// CloseStream waits for the work of s and destroys it and its graphs.
func (d *Device[B, S, E, R]) CloseStream(s S) error {
	const op = "close stream"
	if err := d.drain(op, s); err != nil {
		return err
	}
	s.member().Release()
	d.life.Lock()
	defer d.life.Unlock()
	_, _, err := d.Begin(op, s)
	if err != nil {
		return err
	}
	d.End()
	d.mu.Lock()
	d.streams.remove(s)
	graphs := d.removeGraphs(s)
	d.mu.Unlock()
	return d.Failed(op, s.member().alone(func() error { return errors.Join(destroyGraphs(graphs), s.Destroy()) }))
}

// EachStream calls do with every stream; the caller holds Lock, or has begun an operation,
// so none comes or goes.
func (d *Device[B, S, E, R]) EachStream(do func(s S)) {
	for s := range d.streams.live {
		do(s)
	}
}
