package device

import (
	"errors"
	"fmt"

	"github.com/ferrumkv/ferrumkv/backend"
)

// Exec is what a driver has made of captured work.
type Exec interface {
	// Launch enqueues it on the stream that it was captured from.
	Launch() error
	// Destroy gives it back. None of its launches is under way.
	Destroy() error
}

// Graph is captured work of a stream, which outlives it.
type Graph[B buffer, S stream, E member, R error] struct {
	device   *Device[B, S, E, R]
	stream   S
	recorder Recorder // while it is being captured
	exec     Exec     // then

	uses   map[B]string // what each buffer is in it: "keys of its append"
	freed  string       // one that was freed since; guarded by the Device, as closed is
	closed bool
}

// note remembers an operand.
func (g *Graph[B, S, E, R]) note(op, name string, b B) {
	if g.uses[b] == "" {
		g.uses[b] = name + " of its " + op
	}
}

// forget makes graphs that use b unusable; the caller holds mu.
func (d *Device[B, S, E, R]) forget(b B) {
	for g := range d.graphs {
		if what := g.uses[b]; what != "" {
			g.freed = what
		}
	}
}

// usable reports whether g can be launched; the caller has begun an operation.
func (g *Graph[B, S, E, R]) usable(op string) error {
	switch {
	case g.closed:
		return fmt.Errorf("%s: %s: graph %w", g.device.name, op, backend.ErrClosed)
	case g.freed != "":
		return fmt.Errorf("%s: %s: %s: %w", g.device.name, op, g.freed, backend.ErrFreed)
	}
	return nil
}

// Launch enqueues the graph.
func (g *Graph[B, S, E, R]) Launch() error {
	const op = "launch graph"
	d := g.device
	if _, _, err := d.BeginNow(op, "enqueue its operations instead", g.stream); err != nil {
		return err
	}
	defer d.End()
	if err := g.usable(op); err != nil {
		return err
	}
	return d.Failed(op, g.exec.Launch())
}

// Close waits for the work of the stream and destroys the graph.
func (g *Graph[B, S, E, R]) Close() error {
	const op = "close graph"
	d := g.device
	if err := g.live(op); err != nil {
		return err
	}
	if err := d.drain(op, g.stream); err != nil {
		return err
	}
	g.stream.member().Release()
	d.life.Lock()
	defer d.life.Unlock()
	if err := g.live(op); err != nil {
		return err
	}
	d.mu.Lock()
	d.removeGraph(g)
	d.mu.Unlock()
	return d.Failed(op, g.exec.Destroy())
}

// live reports whether g and its device can still be used.
func (g *Graph[B, S, E, R]) live(op string) error {
	err := g.device.Use(op)
	if err != nil {
		return err
	}
	defer g.device.End()
	if g.closed {
		return fmt.Errorf("%s: %s: graph %w", g.device.name, op, backend.ErrClosed)
	}
	return nil
}

// removeGraph makes g closed; the caller holds mu.
func (d *Device[B, S, E, R]) removeGraph(g *Graph[B, S, E, R]) {
	g.closed, g.uses = true, nil
	delete(d.graphs, g)
}

// removeGraphs is removeGraph for all of s, which it returns.
func (d *Device[B, S, E, R]) removeGraphs(s S) (removed []*Graph[B, S, E, R]) {
	for g := range d.graphs {
		if g.stream == s {
			d.removeGraph(g)
			removed = append(removed, g)
		}
	}
	return removed
}

// destroyGraphs gives back what is removed, and returns all errors.
func destroyGraphs[B buffer, S stream, E member, R error](removed []*Graph[B, S, E, R]) error {
	var errs []error
	for _, g := range removed {
		errs = append(errs, g.exec.Destroy())
	}
	return errors.Join(errs...)
}
