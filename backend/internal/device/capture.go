package device

import (
	"fmt"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/check"
)

// Recorder captures what is enqueued on a driver's stream.
type Recorder interface {
	// Begin makes the stream keep work and not run it.
	Begin() error
	// End makes the stream run work again, whatever it returns. It makes what was kept
	// ready to be launched, or drops it.
	End(keep bool) (Exec, error)
}

// owner is a device for the checks of one operation. Where its stream is being captured,
// the operands that pass are those of the graph.
type owner[B buffer, S stream, E member, R error] struct {
	*Device[B, S, E, R]
	graph *Graph[B, S, E, R] // nil: the operation is not captured
}

// Caps is what the device accepts.
func (o owner[B, S, E, R]) Caps() *backend.Caps { return &o.caps }

// Known is what the device remembers of calls; nil where a graph has to hear of each operand.
func (o owner[B, S, E, R]) Known() *check.Known[B] {
	if o.graph != nil {
		return nil
	}
	return &o.known
}

// Owns reports whether b is a live buffer of the device.
func (o owner[B, S, E, R]) Owns(op, name string, b B) error {
	err := o.Device.Owns(op, name, b)
	if err == nil && o.graph != nil {
		o.graph.note(op, name, b)
	}
	return err
}

// Capture is backend.Capture, by what recorder returns for the stream. No lock is held
// while record runs: it may use all of the device.
func (d *Device[B, S, E, R]) Capture(s backend.Stream, record func() error, recorder func(S) Recorder) (backend.Graph, error) {
	const op = "capture"
	g, err := d.beginCapture(op, s, recorder)
	if err != nil {
		return nil, err
	}
	recorded := false
	defer func() {
		if !recorded { // or record panics
			_ = d.endCapture(op, g, false)
		}
	}()
	if err := record(); err != nil {
		return nil, err
	}
	recorded = true
	if err := d.endCapture(op, g, true); err != nil {
		return nil, err
	}
	return g, nil
}

func (d *Device[B, S, E, R]) beginCapture(op string, s backend.Stream, recorder func(S) Recorder) (*Graph[B, S, E, R], error) {
	if err := d.Lock(op); err != nil {
		return nil, err
	}
	defer d.Unlock()
	_, own, err := d.BeginNow(op, "end that capture first", s)
	if err != nil {
		return nil, err
	}
	d.End() // life is held: the stream stays
	// Kernels that quantize report to it, and memory is not made in a capture.
	if _, err := d.status(own); err != nil {
		return nil, d.Failed(op, err)
	}
	g := &Graph[B, S, E, R]{device: d, stream: own, recorder: recorder(own), uses: map[B]string{}}
	if err := g.recorder.Begin(); err != nil {
		return nil, d.Failed(op, err)
	}
	d.mu.Lock()
	d.graphs[g], d.captures[own] = struct{}{}, g
	d.mu.Unlock()
	return g, nil
}

// endCapture ends what beginCapture began. With an error, and without keep, there is no
// graph.
func (d *Device[B, S, E, R]) endCapture(op string, g *Graph[B, S, E, R], keep bool) error {
	d.life.Lock()
	defer d.life.Unlock()
	d.mu.Lock()
	err := d.open(op)
	delete(d.captures, g.stream)
	delete(d.graphs, g) // until it is one
	d.mu.Unlock()
	switch {
	case err != nil:
		return err // Close has ended the capture, and a lost device forgets it
	case g.freed != "":
		keep, err = false, fmt.Errorf("%s: %s: %s: %w", d.name, op, g.freed, backend.ErrFreed)
	}
	exec, failed := g.recorder.End(keep)
	if err == nil {
		err = d.Failed(op, failed)
	}
	if err != nil || !keep {
		return err
	}
	g.exec, g.recorder = exec, nil
	d.mu.Lock()
	d.graphs[g] = struct{}{}
	d.mu.Unlock()
	return nil
}
