//go:build linux && cgo && !nocuda

package cuda

import (
	"errors"
	"fmt"
	"sync"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/cuda/driver"
	"github.com/ferrumkv/ferrumkv/backend/internal/staging"
)

// stream is a CUstream with what its operations reuse, so that none allocates.
type stream struct {
	be       *Backend
	cu       driver.Stream
	imported bool
	closed   bool // guarded by be.mu

	record driver.Launch // of the launch that is being made
	ring   staging.Ring
	marks  [staging.Chunks]driver.Event // of the ring's chunks
	tail   driver.Event                 // what a buffer's release waits for; used under be.mu

	// waiting is held for reading while the host waits for the device, so that Close
	// of the Backend does not destroy what is waited for.
	waiting sync.RWMutex
}

// NewStream returns a stream that does not wait for the legacy default stream.
func (be *Backend) NewStream() (backend.Stream, error) {
	be.life.Lock()
	defer be.life.Unlock()
	if err := be.alive("new stream"); err != nil {
		return nil, err
	}
	cu, err := be.ctx.NewStream()
	if err != nil {
		return nil, be.failed("new stream", err)
	}
	s, err := be.wrap(cu, false)
	if err != nil {
		_ = be.ctx.DestroyStream(cu)
		return nil, be.failed("new stream", err)
	}
	return s, nil
}

// perThread is CU_STREAM_PER_THREAD.
const perThread = 2

// ImportStream wraps the caller's CUstream, which must be of the device's primary
// context (ErrForeign) and live until the stream is closed. An empty handle is the
// legacy default stream. The default stream of a thread is ErrUnsupported: a
// goroutine has no thread of its own.
func (be *Backend) ImportStream(h backend.Handle) (backend.Stream, error) {
	be.life.Lock()
	defer be.life.Unlock()
	if err := be.alive("import stream"); err != nil {
		return nil, err
	}
	switch {
	case h.Host != nil || h.Offset != 0:
		return nil, backend.ErrShape{Op: "import stream", What: "handle: a host slice or an offset, need a CUstream or nothing"}
	case h.Addr == perThread:
		return nil, backend.ErrUnsupported{Op: "import stream", Why: "the default stream of a thread; use an empty handle or a stream that was created"}
	}
	cu := driver.Stream(h.Addr)
	ours, err := be.ctx.Owns(cu)
	if err != nil {
		return nil, be.failed("import stream", err)
	}
	if !ours {
		return nil, fmt.Errorf("%s: import stream: stream %w", be.name, backend.ErrForeign)
	}
	s, err := be.wrap(cu, true)
	if err != nil {
		return nil, be.failed("import stream", err)
	}
	return s, nil
}

// wrap makes a stream of a CUstream; the caller holds life.
func (be *Backend) wrap(cu driver.Stream, imported bool) (*stream, error) {
	s := &stream{be: be, cu: cu, imported: imported}
	s.ring = staging.New(s)
	var err error
	if s.tail, err = be.ctx.NewEvent(false); err != nil {
		return nil, err
	}
	be.mu.Lock()
	defer be.mu.Unlock()
	be.streams[s] = struct{}{}
	return s, nil
}

// alive is open for a caller that does not hold mu.
func (be *Backend) alive(op string) error {
	be.mu.RLock()
	defer be.mu.RUnlock()
	return be.open(op)
}

// onStream returns s as a live stream of be; the caller holds mu.
func (be *Backend) onStream(op string, s backend.Stream) (*stream, error) {
	own, ok := s.(*stream)
	switch {
	case s == nil || ok && own == nil:
		return nil, backend.ErrShape{Op: op, What: "stream: none given"}
	case !ok || own.be != be:
		return nil, fmt.Errorf("%s: %s: stream %w", be.name, op, backend.ErrForeign)
	case own.closed:
		return nil, fmt.Errorf("%s: %s: stream %w", be.name, op, backend.ErrClosed)
	}
	return own, nil
}

// launch enqueues a kernel: grid blocks of it, over buffers in the order of
// kernels/abi.h and the bytes of its struct of scalars. The caller has begun an
// operation on s.
func (s *stream) launch(k *kernel, grid [3]uint32, args []byte, buffers ...driver.Ptr) error {
	r := &s.record
	r.Func, r.Stream, r.Grid, r.Block, r.Shared = k.fn, s.cu, grid, k.threads, k.shared
	r.Count, r.Size = uint32(copy(r.Buffers[:], buffers)), uint32(copy(r.Args[:], args))
	return s.be.ctx.Launch(r)
}

// hold begins a wait of the host: until release, s is not destroyed.
func (s *stream) hold(op string) error {
	_, _, err := s.be.begin(op, s)
	if err == nil {
		s.waiting.RLock()
		s.be.end()
	}
	return err
}

func (s *stream) release() { s.waiting.RUnlock() }

// Sync waits for everything enqueued.
func (s *stream) Sync() error {
	if err := s.hold("sync"); err != nil {
		return err
	}
	defer s.release()
	return s.be.failed("sync", s.be.ctx.Sync(s.cu))
}

// Record marks this point of the stream in e.
func (s *stream) Record(e backend.Event) error {
	return s.mark("record", e, func(own *event) error { return s.be.ctx.Record(own.cu, s.cu) })
}

// Wait makes work enqueued from here on wait for the mark in e.
func (s *stream) Wait(e backend.Event) error {
	return s.mark("wait", e, func(own *event) error { return s.be.ctx.Wait(s.cu, own.cu) })
}

func (s *stream) mark(op string, e backend.Event, do func(own *event) error) error {
	_, _, err := s.be.begin(op, s)
	if err != nil {
		return err
	}
	defer s.be.end()
	own, ok := e.(*event)
	switch {
	case e == nil || ok && own == nil:
		return backend.ErrShape{Op: op, What: "event: none given"}
	case !ok || own.be != s.be:
		return fmt.Errorf("%s: %s: event %w", s.be.name, op, backend.ErrForeign)
	case own.closed:
		return fmt.Errorf("%s: %s: event %w", s.be.name, op, backend.ErrClosed)
	}
	return s.be.failed(op, do(own))
}

// Handle is the CUstream.
func (s *stream) Handle() backend.Handle { return backend.Handle{Addr: uintptr(s.cu)} }

// Close waits for the stream's work and gives the stream back, unless it was imported.
func (s *stream) Close() error {
	if err := s.hold("close stream"); err != nil {
		return err
	}
	err := s.be.failed("close stream", s.be.ctx.Sync(s.cu))
	s.release()
	if err != nil {
		return err
	}
	be := s.be
	be.life.Lock()
	defer be.life.Unlock()
	be.mu.Lock()
	_, err = be.onStream("close stream", s)
	if err == nil {
		err = be.open("close stream")
	}
	if err == nil {
		s.closed = true
		delete(be.streams, s)
	}
	be.mu.Unlock()
	if err != nil {
		return err
	}
	return be.failed("close stream", s.destroy())
}

// destroy gives back what the stream has on the device; the caller holds life, and
// nothing is enqueued any more.
func (s *stream) destroy() error {
	s.waiting.Lock()
	defer s.waiting.Unlock()
	ctx := s.be.ctx
	errs := []error{ctx.DestroyEvent(s.tail)}
	for _, mark := range s.marks {
		if mark != 0 {
			errs = append(errs, ctx.DestroyEvent(mark))
		}
	}
	if mem := s.ring.Memory(); mem != nil {
		errs = append(errs, ctx.FreeHost(mem))
	}
	if !s.imported {
		errs = append(errs, ctx.DestroyStream(s.cu))
	}
	return errors.Join(errs...)
}

// Pin, Mark and Reach make a stream a staging.Queue.

// Pin returns page-locked memory and makes the markers of its chunks.
func (s *stream) Pin(size int) ([]byte, error) {
	for i := range s.marks {
		if s.marks[i] != 0 {
			continue // of an attempt that had no memory
		}
		mark, err := s.be.ctx.NewEvent(false)
		if err != nil {
			return nil, err
		}
		s.marks[i] = mark
	}
	return s.be.ctx.AllocHost(size)
}

// Mark sets a chunk's marker to the stream's present end.
func (s *stream) Mark(chunk int) error { return s.be.ctx.Record(s.marks[chunk], s.cu) }

// Reach waits for a chunk's marker.
func (s *stream) Reach(chunk int) error { return s.be.ctx.SyncEvent(s.marks[chunk]) }
