//go:build linux && cgo && !nocuda

package cuda

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/cuda/driver"
	"github.com/ferrumkv/ferrumkv/backend/internal/abi"
	"github.com/ferrumkv/ferrumkv/backend/internal/device"
	"github.com/ferrumkv/ferrumkv/backend/internal/launch"
	"github.com/ferrumkv/ferrumkv/backend/internal/staging"
)

// stream is a CUstream with what its operations reuse, so that none allocates.
type stream struct {
	device.Member
	be       *Backend
	cu       driver.Stream
	imported bool

	calls  launch.Calls                   // of the operation that is being enqueued
	record [launch.MaxCalls]driver.Launch // of the same, for the driver
	ring   staging.Ring
	marks  [staging.Chunks]driver.Event // of the ring's chunks
	tail   driver.Event                 // what a buffer's release waits for; used in Free
	end    driver.Event                 // what Drain waits for
	status []byte                       // page-locked; nil until something is quantized

	capturing bool // tail stays where the capture began; used in Free
}

// NewStream returns a stream that does not wait for the legacy default stream.
func (be *Backend) NewStream() (backend.Stream, error) {
	if err := be.dev.Lock("new stream"); err != nil {
		return nil, err
	}
	defer be.dev.Unlock()
	cu, err := be.ctx.NewStream()
	if err != nil {
		return nil, be.dev.Failed("new stream", err)
	}
	s, err := be.wrap(cu, false)
	if err != nil {
		_ = be.ctx.DestroyStream(cu)
		return nil, be.dev.Failed("new stream", err)
	}
	return s, nil
}

// perThread is CU_STREAM_PER_THREAD.
const perThread = 2

// ImportStream wraps the caller's CUstream, which must belong to the device's primary context
// (ErrOtherDevice) and exist until the stream is closed. An empty handle is the legacy default stream.
// The per-thread default stream is ErrUnsupported, because goroutines move between threads.
func (be *Backend) ImportStream(h backend.Handle) (backend.Stream, error) {
	if err := be.dev.Lock("import stream"); err != nil {
		return nil, err
	}
	defer be.dev.Unlock()
	switch {
	case h.Host != nil || h.Offset != 0:
		return nil, backend.ErrArgument{Op: "import stream", What: "handle: a host slice or an offset, need a CUstream or nothing"}
	case h.Addr == perThread:
		return nil, backend.ErrUnsupported{Op: "import stream", Why: "the default stream of a thread; use an empty handle or a stream that was created"}
	}
	cu := driver.Stream(h.Addr)
	ours, err := be.ctx.Owns(cu)
	if err != nil {
		return nil, be.dev.Failed("import stream", err)
	}
	if !ours {
		return nil, fmt.Errorf("%s: import stream: stream %w", be.dev.Name(), backend.ErrOtherDevice)
	}
	s, err := be.wrap(cu, true)
	if err != nil {
		return nil, be.dev.Failed("import stream", err)
	}
	return s, nil
}

// wrap makes a stream of a CUstream; the caller holds the device's Lock.
func (be *Backend) wrap(cu driver.Stream, imported bool) (*stream, error) {
	s := &stream{be: be, cu: cu, imported: imported}
	s.ring = staging.New(s)
	var err error
	if s.tail, err = be.ctx.NewEvent(driver.Ordering); err != nil {
		return nil, err
	}
	if s.end, err = be.ctx.NewEvent(driver.Waiting); err != nil {
		_ = be.ctx.DestroyEvent(s.tail)
		return nil, err
	}
	be.dev.AddStream(s)
	return s, nil
}

// Calls is where the calls of the operation are put that is being enqueued.
func (s *stream) Calls() *launch.Calls { return &s.calls }

// Run enqueues them.
func (s *stream) Run() error {
	calls := s.calls.List()
	kernels, err := device.FindAll(calls, s.be.modules.of)
	if err != nil {
		return err
	}
	if err := s.harmless(); err != nil {
		return err
	}
	for i := range calls {
		fill(&s.record[i], kernels[i], s.cu, &calls[i])
		if err := s.be.maps.fill(s.be.ctx, &s.record[i], &calls[i]); err != nil {
			return err
		}
	}
	return s.be.ctx.LaunchAll(s.record[:len(calls)])
}

// fill makes a call of a kernel a launch for the driver.
func fill(r *driver.Launch, k *kernel, cu driver.Stream, c *launch.Call) {
	r.Func, r.Stream, r.Grid, r.Block, r.Shared = k.fn, cu, c.Grid, k.threads, k.shared
	if c.Kernel.Op == launch.OpAttendMerge {
		r.Grid[2] = spread((*abi.AttendArgs)(unsafe.Pointer(unsafe.SliceData(c.Args()))))
	}
	buffers := c.Buffers()
	for i := range buffers {
		r.Buffers[i] = driver.Ptr(buffers[i].At)
	}
	r.Count, r.Size = uint32(len(buffers)), uint32(copy(r.Args[:], c.Args()))
}

// spread is over how many blocks a merge divides the rows of an item, each of which does what its number says, and
// any number of them all: a warp for every 128 elements of a row, of as many rows as a sequence's tile has on average,
// or a block where the rows have more parts than a warp asks for at once.
func spread(a *abi.AttendArgs) uint32 {
	const warps, columns, ahead = 4, 128, 8 // as in kernels/cuda/attend_merge.cu
	rows := min((uint64(a.Tokens)+max(uint64(a.Seqs), 1)-1)/max(uint64(a.Seqs), 1)*uint64(a.QHeads/max(a.KVHeads, 1)), abi.PrefillRows)
	blocks := rows * ((uint64(a.VDim) + columns - 1) / columns)
	if uint64(a.PartialRows) <= ahead*uint64(a.Tokens)*uint64(a.QHeads) {
		blocks = (blocks + warps - 1) / warps
	}
	return uint32(max(blocks, 1))
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
	if err := s.uncaptured("record"); err != nil {
		return s.be.dev.Failed("record", err)
	}
	return s.be.dev.Failed("record", s.be.ctx.Record(own.cu, s.cu))
}

// Wait makes work enqueued from here on wait for the mark in e.
func (s *stream) Wait(e backend.Event) error {
	own, err := s.be.dev.BeginMark("wait", s, e)
	if err != nil {
		return err
	}
	defer s.be.dev.End()
	if err := s.uncaptured("wait"); err != nil {
		return s.be.dev.Failed("wait", err)
	}
	return s.be.dev.Failed("wait", s.be.ctx.Wait(s.cu, own.cu))
}

// Handle is the CUstream.
func (s *stream) Handle() backend.Handle { return backend.Handle{Addr: uintptr(s.cu)} }

// Close waits for the stream's work and gives the stream back, unless it was imported.
func (s *stream) Close() error { return s.be.dev.CloseStream(s) }

// Drain, Status and Destroy make a stream one of device.Device.

// Drain waits for the CUstream. Several may do so at once: an event that is recorded again meanwhile
// only makes them wait longer.
func (s *stream) Drain() error {
	if err := s.uncaptured("wait for the stream"); err != nil {
		return err
	}
	return s.be.ctx.Await(s.cu, s.end)
}

// Status returns a word of page-locked memory, which has one address for the host and all
// devices.
func (s *stream) Status() (*uint32, launch.Place, error) {
	mem, err := s.be.ctx.AllocHost(4)
	if err != nil {
		return nil, launch.Place{}, err
	}
	s.status = mem
	word := unsafe.Pointer(unsafe.SliceData(mem))
	return (*uint32)(word), launch.Place{At: uint64(uintptr(word))}, nil
}

// Destroy gives back what the stream has on the device.
func (s *stream) Destroy() error {
	ctx := s.be.ctx
	errs := []error{ctx.DestroyEvent(s.tail), ctx.DestroyEvent(s.end)}
	for _, mark := range s.marks {
		if mark != 0 {
			errs = append(errs, ctx.DestroyEvent(mark))
		}
	}
	for _, mem := range [...][]byte{s.ring.Memory(), s.status} {
		if mem != nil {
			errs = append(errs, ctx.FreeHost(mem))
		}
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
		mark, err := s.be.ctx.NewEvent(driver.Waiting)
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
