// Package device is what the open devices of all GPU drivers have alike: what lives
// on one, who may use it when, and the operations as far as they need no driver. A
// driver holds a Device and embeds Buffer and Member in its own types. Those are type
// parameters and no interface values: an operation allocates nothing.
//
// # What waits for what
//
// One lock is held by who makes or ends something on the device, and may wait for the
// device meanwhile (Lock, Unlock). It is taken first. The other orders the release of
// buffers and the ends of streams and graphs after the operations that enqueue: those hold it for
// reading (Begin, End), and nobody waits for the device with it, but for what a driver's
// calls wait for by themselves, as room in a full queue. Kernels are loaded with neither (Missing). Who waits holds only the stream
// or event that must not end (Hold, Release).
package device

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/check"
)

// Device is the state of an open device: B, S and E are the driver's buffers, streams
// and events, and R is the error of its calls. It must not be copied. The zero Device is
// one that is not open, so a driver holds it by value, and its own zero value returns errors.
type Device[B buffer, S stream, E member, R error] struct {
	name string
	caps backend.Caps
	lost atomic.Bool

	known check.Known[B]

	life      sync.Mutex     // taken before mu
	mu        sync.RWMutex   // guards all below
	live      bool           // opened, and not closed since
	buffers   map[B]struct{} // live ones
	streams   set[S]
	events    set[E]
	graphs    map[*Graph[B, S, E, R]]struct{} // live ones, and those that are being captured
	captures  map[S]*Graph[B, S, E, R]        // by the stream that is being captured
	allocated int64
}

// Init makes d, the zero Device that nobody else uses yet, the state of a device that was
// opened under a name: "cuda:0".
func (d *Device[B, S, E, R]) Init(name string, caps backend.Caps) {
	d.name, d.caps, d.live = name, caps, true
	d.buffers = map[B]struct{}{}
	d.streams, d.events = set[S]{"stream", map[S]struct{}{}}, set[E]{"event", map[E]struct{}{}}
	d.graphs, d.captures = map[*Graph[B, S, E, R]]struct{}{}, map[S]*Graph[B, S, E, R]{}
}

// Name is what the device was opened as.
func (d *Device[B, S, E, R]) Name() string { return d.name }

// Caps says what the device accepts.
func (d *Device[B, S, E, R]) Caps() backend.Caps { return d.caps }

// Info is what the device knows of itself, and whether the driver may be asked for
// more until End, which the caller calls in any case.
func (d *Device[B, S, E, R]) Info() (info backend.Info, usable bool) {
	d.mu.RLock()
	return backend.Info{Name: d.name, Allocated: d.allocated, Buffers: len(d.buffers)}, d.live && !d.lost.Load()
}

// Lost reports whether an error has made the device unusable.
func (d *Device[B, S, E, R]) Lost() bool { return d.lost.Load() }

// Failed says which operation the driver refused, nil for nil. An error that no
// call can repair makes the device lost. Errors of other kinds pass as they are.
func (d *Device[B, S, E, R]) Failed(op string, err error) error {
	if err == nil {
		return nil // before anything allocates
	}
	var refused R
	if !errors.As(err, &refused) {
		return err
	}
	if errors.Is(err, backend.ErrLost) {
		d.lost.Store(true)
	}
	return fmt.Errorf("%s: %s: %w", d.name, op, err)
}

// open reports whether the device is, and is not lost; the caller holds mu.
func (d *Device[B, S, E, R]) open(op string) error {
	switch {
	case !d.live:
		return d.shut(op)
	case d.lost.Load():
		return fmt.Errorf("%s: %s: %w", d.name, op, backend.ErrLost)
	}
	return nil
}

// shut is why a device that is not live cannot do op.
func (d *Device[B, S, E, R]) shut(op string) error {
	if d.name == "" {
		return fmt.Errorf("backend: %s: device %w: nothing has opened it", op, backend.ErrClosed)
	}
	return fmt.Errorf("%s: %s: device %w", d.name, op, backend.ErrClosed)
}

// Lock begins a call that makes or ends something on the device, one at a time;
// Unlock ends it. With an error there is nothing to unlock.
func (d *Device[B, S, E, R]) Lock(op string) error {
	d.life.Lock()
	d.mu.RLock()
	err := d.open(op)
	d.mu.RUnlock()
	if err != nil {
		d.life.Unlock()
	}
	return err
}

// Unlock ends what Lock began.
func (d *Device[B, S, E, R]) Unlock() { d.life.Unlock() }

// Close waits for the work of all streams and ends everything that lives: captures,
// graphs, streams, events, buffers, which release gives back, and then the rest in its order. Nothing is
// left out because of an error, of which the first is returned, unless it is the loss
// of the device and was reported before. Closing twice is ErrClosed.
func (d *Device[B, S, E, R]) Close(release func(B) error, rest ...func() error) error {
	const op = "close"
	d.life.Lock()
	defer d.life.Unlock()
	d.mu.Lock()
	if !d.live {
		d.mu.Unlock()
		return d.shut(op)
	}
	d.live = false
	buffers, streams, events := d.buffers, d.streams.live, d.events.live
	captures, graphs := d.captures, d.graphs
	d.buffers, d.streams.live, d.events.live, d.allocated = nil, nil, nil, 0
	d.captures, d.graphs = nil, nil
	d.known.Forget()
	d.mu.Unlock()

	reported := d.lost.Load()
	var first error
	done := func(err error) {
		if err = d.Failed(op, err); err != nil && first == nil {
			first = err
		}
	}
	for _, g := range captures {
		_, err := g.recorder.End(false)
		done(err)
	}
	for s := range streams { // all of them, before the first is destroyed: one may wait for another
		done(s.member().alone(s.Drain))
	}
	for g := range graphs {
		if g.exec != nil { // or it was being captured
			done(g.exec.Destroy())
		}
	}
	for s := range streams {
		done(s.member().alone(s.Destroy))
	}
	for e := range events {
		done(e.member().alone(e.Destroy))
	}
	for b := range buffers {
		done(release(b))
	}
	for _, end := range rest {
		done(end())
	}
	if reported {
		return nil
	}
	return first
}
