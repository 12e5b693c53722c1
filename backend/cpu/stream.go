package cpu

import (
	"fmt"
	"sync/atomic"

	"github.com/ferrumkv/ferrumkv/backend"
)

// stream is an ordered queue that is always empty: operations have finished when
// they return, and have returned their errors.
type stream struct {
	be     *Backend
	closed atomic.Bool
}

// event is a point that was reached before Record returned.
type event struct {
	be     *Backend
	closed atomic.Bool
}

// NewStream returns a stream. The caller closes it.
func (be *Backend) NewStream() (backend.Stream, error) {
	be.mu.RLock()
	defer be.mu.RUnlock()
	if err := be.open("new stream"); err != nil {
		return nil, err
	}
	return &stream{be: be}, nil
}

// ImportStream accepts only an empty Handle: a CPU has no queues.
func (be *Backend) ImportStream(h backend.Handle) (backend.Stream, error) {
	if h.Addr != 0 || h.Offset != 0 || h.Host != nil {
		return nil, backend.ErrUnsupported{Op: "import stream", Why: "a cpu has no queues; use an empty handle"}
	}
	return be.NewStream()
}

// NewEvent returns an event that was never recorded, so it is done.
func (be *Backend) NewEvent() (backend.Event, error) {
	be.mu.RLock()
	defer be.mu.RUnlock()
	if err := be.open("new event"); err != nil {
		return nil, err
	}
	return &event{be: be}, nil
}

// onStream reports whether operations of be can run on s; the caller holds mu.
func (be *Backend) onStream(op string, s backend.Stream) error {
	own, ok := s.(*stream)
	switch {
	case s == nil || ok && own == nil:
		return backend.ErrArgument{Op: op, What: "stream: none given"}
	case !ok || own.be != be:
		return fmt.Errorf("cpu: %s: stream %w", op, backend.ErrOtherDevice)
	case own.closed.Load():
		return fmt.Errorf("cpu: %s: stream %w", op, backend.ErrClosed)
	}
	return nil
}

func (s *stream) use(op string) error {
	_, err := s.be.begin(op, s)
	if err == nil {
		s.be.end()
	}
	return err
}

func (s *stream) Sync() error                  { return s.use("sync") }
func (s *stream) Record(e backend.Event) error { return s.mark("record", e) }
func (s *stream) Wait(e backend.Event) error   { return s.mark("wait", e) }
func (s *stream) Handle() backend.Handle       { return backend.Handle{} }

func (s *stream) Close() error {
	if err := s.use("close stream"); err != nil {
		return err
	}
	if s.closed.Swap(true) {
		return fmt.Errorf("cpu: close stream: stream %w", backend.ErrClosed)
	}
	return nil
}

// mark checks an event that s records or waits for. There is nothing else to do:
// what was enqueued before has finished.
func (s *stream) mark(op string, e backend.Event) error {
	if err := s.use(op); err != nil {
		return err
	}
	own, ok := e.(*event)
	switch {
	case e == nil || ok && own == nil:
		return backend.ErrArgument{Op: op, What: "event: none given"}
	case !ok || own.be != s.be:
		return fmt.Errorf("cpu: %s: event %w", op, backend.ErrOtherDevice)
	}
	return own.use(op)
}

func (e *event) use(op string) error {
	e.be.mu.RLock()
	defer e.be.mu.RUnlock()
	if e.closed.Load() {
		return fmt.Errorf("cpu: %s: event %w", op, backend.ErrClosed)
	}
	return e.be.open(op)
}

func (e *event) Done() (bool, error) {
	err := e.use("event done")
	return err == nil, err
}

func (e *event) Sync() error { return e.use("event sync") }

func (e *event) Close() error {
	if err := e.use("close event"); err != nil {
		return err
	}
	if e.closed.Swap(true) {
		return fmt.Errorf("cpu: close event: event %w", backend.ErrClosed)
	}
	return nil
}
