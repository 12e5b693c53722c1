//go:build cgo && !nometal && (darwin || metalsimt)

package metal

import (
	"errors"
	"fmt"
	"sync"
	"unsafe"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/abi"
	"github.com/ferrumkv/ferrumkv/backend/internal/device"
	"github.com/ferrumkv/ferrumkv/backend/internal/launch"
	"github.com/ferrumkv/ferrumkv/backend/internal/staging"
	"github.com/ferrumkv/ferrumkv/backend/metal/mtl"
)

// batch is how many launches a command buffer collects before it is committed anyway:
// few enough that the GPU begins while the host still goes through the layers of a step,
// many enough that the cost of a command buffer is small beside them. Long launches are
// fewer: see pace.
const batch = 64

// stream is an MTLCommandQueue with what its operations reuse, so that none allocates.
type stream struct {
	device.Member
	be    *Backend
	calls launch.Calls // of the operation that is being enqueued
	work  []uint32     // of its plan, where it is attention

	mu      sync.Mutex // of the queue: an allocation may commit what is open, to get memory back
	queue   *mtl.Queue
	shared  bool // with the caller, who may have work between two operations, of which the queue does not tell
	ordered bool // each command buffer waits for the one before
	record  mtl.Launch
	open    float64 // seconds of what waits for a commit, by estimate; it counts only while something does
	begun   bool    // whether something of the operation that is being enqueued was encoded, and
	sent    bool    // whether some of that was committed

	ring   staging.Ring
	pinned mtl.Buffer // of the ring
	base   uintptr    // where the host sees it
	marks  [staging.Chunks]mtl.Mark
	status mtl.Buffer // 0 until something is quantized
}

// NewStream returns a stream on a queue of its own.
func (be *Backend) NewStream() (backend.Stream, error) {
	if err := be.dev.Lock("new stream"); err != nil {
		return nil, err
	}
	defer be.dev.Unlock()
	queue, err := be.gpu.NewQueue()
	if err != nil {
		return nil, be.dev.Failed("new stream", err)
	}
	return be.wrap(queue, false), nil
}

// ImportStream wraps the caller's MTLCommandQueue, which must belong to this device (ErrOtherDevice).
// All imports of an empty handle share one queue. Each operation is committed before its call
// returns, so it is in order with the caller's own command buffers, and with other streams of the
// queue, as far as they use the same tracked buffers; for untracked ones see Import. Sync and Record
// also cover what the caller and other streams have committed before.
func (be *Backend) ImportStream(h backend.Handle) (backend.Stream, error) {
	const op = "import stream"
	if err := be.dev.Lock(op); err != nil {
		return nil, err
	}
	defer be.dev.Unlock()
	if h.Host != nil || h.Offset != 0 {
		return nil, backend.ErrArgument{Op: op, What: "handle: a host slice or an offset, need an MTLCommandQueue or nothing"}
	}
	id := h.Addr
	if id == 0 {
		if be.common == nil {
			queue, err := be.gpu.NewQueue()
			if err != nil {
				return nil, be.dev.Failed(op, err)
			}
			be.common = queue
		}
		id = be.common.ID()
	} else if theirs := mtl.QueueDevice(id); theirs == 0 {
		return nil, backend.ErrArgument{Op: op, What: "handle: an object of another kind, need an MTLCommandQueue"}
	} else if theirs != be.gpu.Info.Registry {
		return nil, fmt.Errorf("%s: %s: stream %w", be.dev.Name(), op, backend.ErrOtherDevice)
	}
	queue, err := be.gpu.ImportQueue(id)
	if err != nil {
		return nil, be.dev.Failed(op, err)
	}
	return be.wrap(queue, true), nil
}

// wrap makes a stream of a queue; the caller holds the device's Lock.
func (be *Backend) wrap(queue *mtl.Queue, shared bool) *stream {
	s := &stream{be: be, queue: queue, shared: shared}
	s.ring = staging.New(s)
	be.dev.AddStream(s)
	return s
}

// Calls is where the calls of the operation are put that is being enqueued.
func (s *stream) Calls() *launch.Calls { return &s.calls }

// Run encodes them.
func (s *stream) Run() error {
	calls := s.calls.List()
	kernels, err := device.FindAll(calls, s.be.modules.of)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begun, s.sent = false, false
	for i := range calls {
		if err := s.launch(kernels[i], &calls[i]); err != nil {
			return s.halfDone(err)
		}
	}
	return s.flow()
}

// halfDone is the error of an operation, a part of which may have been committed: it cannot be tried again, as
// scores would be added twice, so the device is lost.
func (s *stream) halfDone(err error) error {
	if s.sent && !errors.Is(err, backend.ErrLost) {
		return fmt.Errorf("%w after a part of an operation was committed: %w", backend.ErrLost, err)
	}
	return err
}

// launch encodes a call, one of attention in as many pieces as its time asks for, where its items are
// known: benchmarks launch what they have made themselves. The caller has begun an operation on s and holds mu.
func (s *stream) launch(k *kernel, c *launch.Call) error {
	r := &s.record
	r.Pipeline, r.Grid, r.Threads = k.pipeline.ID, c.Grid, k.threads
	buffers := c.Buffers()
	for i, b := range buffers {
		r.Buffers[i], r.Offsets[i] = b.Memory, b.At
	}
	r.Count, r.Size = uint32(len(buffers)), uint32(copy(r.Args[:], c.Args()))
	if !attends(c.Kernel.Op) || s.work == nil {
		return s.encode(s.be.pace.seconds(c))
	}
	args := (*abi.AttendArgs)(unsafe.Pointer(&r.Args))
	for left := s.be.pace.pieces(c.Kernel, args, s.work); len(left.words) > 0; {
		piece, seconds := left.take()
		args.First, args.Items, r.Grid[0] = piece.First, piece.Count, piece.Count
		if err := s.encode(seconds); err != nil {
			return err
		}
	}
	return nil
}

// encode adds the record, which takes some time, to what is open, or to the next command buffer
// where that would become too long.
func (s *stream) encode(seconds float64) error {
	if s.queue.Pending() == 0 {
		s.open = 0
	} else if s.open+seconds > s.be.pace.most {
		if err := s.send(); err != nil {
			return err
		}
		s.open, s.sent = 0, s.begun
	}
	s.open += seconds
	if !s.ordered && s.be.untracked.Load() {
		s.queue.Order()
		s.ordered = true
	}
	if err := s.queue.Launch(&s.record); err != nil {
		return err
	}
	s.begun = true
	return nil
}

// flow lets go of what was encoded, where it is time; the caller holds mu.
func (s *stream) flow() error {
	if pending := s.queue.Pending(); pending == 0 || pending < batch && s.open < s.be.pace.most && !s.shared {
		return nil
	}
	return s.send()
}

// send commits what is open; the caller holds mu.
func (s *stream) send() error {
	mark, err := s.queue.Commit()
	if err == nil {
		mark.Release()
	}
	return err
}

// commit lets go of what was encoded and returns the mark at its end, which the caller
// releases.
func (s *stream) commit() (mtl.Mark, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.queue.Commit()
}

// fence makes the next commit come after what the caller has committed to a shared queue.
func (s *stream) fence() error {
	if !s.shared {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.queue.Open()
}

// Drain waits for everything enqueued, on a shared queue by the caller, too.
func (s *stream) Drain() error {
	err := s.fence()
	s.mu.Lock()
	defer s.mu.Unlock()
	if failed := s.queue.Sync(); failed != nil {
		return failed
	}
	return err
}

// Sync waits for everything enqueued, and reports values that could not be quantized.
func (s *stream) Sync() error { return s.be.dev.Sync("sync", s) }

// Record marks this point of the stream in e.
func (s *stream) Record(e backend.Event) error {
	own, err := s.be.dev.BeginMark("record", s, e)
	if err != nil {
		return err
	}
	defer s.be.dev.End()
	if err := s.fence(); err != nil {
		return s.be.dev.Failed("record", err)
	}
	mark, err := s.commit()
	if err != nil {
		return s.be.dev.Failed("record", err)
	}
	own.set(mark)
	return nil
}

// Wait makes work enqueued from here on wait for the mark in e.
func (s *stream) Wait(e backend.Event) error {
	own, err := s.be.dev.BeginMark("wait", s, e)
	if err != nil {
		return err
	}
	defer s.be.dev.End()
	mark := own.get()
	defer mark.Release()
	if done, err := mark.Done(); done || err != nil {
		return s.be.dev.Failed("wait", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.queue.WaitFor(mark); err != nil || !s.shared {
		return s.be.dev.Failed("wait", err)
	}
	return s.be.dev.Failed("wait", s.send())
}

// Handle is the MTLCommandQueue. What was enqueued so far is committed, and from here on
// every operation is, as on an imported queue.
func (s *stream) Handle() backend.Handle {
	if _, _, err := s.be.dev.Begin("handle", s); err != nil {
		return backend.Handle{}
	}
	defer s.be.dev.End()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shared = true
	_ = s.send() // Sync reports it
	return backend.Handle{Addr: s.queue.ID()}
}

// Close waits for the stream's work and gives the stream back, unless it was imported.
func (s *stream) Close() error { return s.be.dev.CloseStream(s) }

// Status returns a word of memory that the device sees, too.
func (s *stream) Status() (*uint32, launch.Place, error) {
	b, err := s.be.gpu.NewBuffer(4)
	if err != nil {
		return nil, launch.Place{}, err
	}
	s.status = b
	return (*uint32)(b.Describe().Contents), launch.Place{Memory: uintptr(b)}, nil
}

// Destroy gives back what the stream has on the device; nothing is enqueued any more.
func (s *stream) Destroy() error {
	for _, mark := range s.marks {
		mark.Release()
	}
	s.queue.Close()
	for _, b := range [...]mtl.Buffer{s.pinned, s.status} {
		if b != 0 {
			b.Release()
		}
	}
	return nil
}

// Pin, Mark and Reach make a stream a staging.Queue.

// Pin returns memory that the device sees, too.
func (s *stream) Pin(size int) ([]byte, error) {
	b, err := s.be.gpu.NewBuffer(size)
	if err != nil {
		return nil, err
	}
	at := b.Describe().Contents
	s.pinned, s.base = b, uintptr(at)
	return unsafe.Slice((*byte)(at), size), nil
}

// Mark sets a chunk's marker to the stream's present end.
func (s *stream) Mark(chunk int) error {
	mark, err := s.commit()
	if err != nil {
		return err
	}
	s.marks[chunk].Release()
	s.marks[chunk] = mark
	return nil
}

// Reach waits for a chunk's marker.
func (s *stream) Reach(chunk int) error { return s.marks[chunk].Wait() }

// staged is where the device sees a piece of the ring's memory.
func (s *stream) staged(piece []byte) launch.Place {
	return launch.Place{Memory: uintptr(s.pinned), At: uint64(uintptr(unsafe.Pointer(unsafe.SliceData(piece))) - s.base)}
}
