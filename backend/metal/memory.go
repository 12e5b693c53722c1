//go:build cgo && !nometal && (darwin || metalsimt)

package metal

import (
	"fmt"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/metal/mtl"
)

// Metal gives more memory than the GPU can work on at once: what is over, the system
// moves in and out while kernels run, and results have been seen to become nonsense. So
// nothing is allocated beyond the working set that it recommends, but for the few megabytes
// through which a stream passes transfers and copies that overlap.

// page is what a buffer's memory is a multiple of: the page of Apple silicon, in bytes.
const page = 16 << 10

// room is the bytes that this process may still allocate on the device, in whole pages.
func (be *Backend) room() int64 {
	return max(be.gpu.Info.WorkingSet-be.gpu.Allocated(), 0) / page * page
}

// obtain returns memory that work on any stream may use. Where there is too little, it
// waits for what was freed and is still in use. The caller holds the device's Lock.
func (be *Backend) obtain(size int) (mtl.Buffer, error) {
	largest := be.Caps().MaxBuffer
	if int64(size) > largest {
		return 0, be.refuse(size, min(largest, be.room()))
	}
	if int64(size) > be.room() { // which is whole pages, so the buffer's last one fits as well
		be.settle()
		if room := be.room(); int64(size) > room {
			return 0, be.refuse(size, min(largest, room))
		}
	}
	return be.gpu.NewBuffer(size)
}

// refuse is the error of an allocation of size bytes where a buffer of at most most could be had.
func (be *Backend) refuse(size int, most int64) error {
	return fmt.Errorf("%s: %w", be.dev.Name(), backend.ErrOutOfMemory{Op: "alloc", Bytes: int64(size), Max: most})
}

// settle waits for the work of all streams; what it used and was freed has then gone back
// to the system. A failure is left for the stream's own Sync to report.
func (be *Backend) settle() {
	late := be.late.Load()
	be.dev.EachStream(func(s *stream) {
		if mark, err := s.commit(); err == nil {
			_ = mark.Wait()
			mark.Release()
		}
	})
	be.late.CompareAndSwap(late, 0) // what was freed meanwhile is for the next time
}

// kept is the bytes that were freed and that work under way may still keep, at most: some of
// them may have gone back already. It does not wait.
func (be *Backend) kept() int64 {
	be.asking.Lock()
	defer be.asking.Unlock()
	late, idle := be.late.Load(), true
	if late == 0 {
		return 0
	}
	be.dev.EachStream(func(s *stream) {
		if !s.mu.TryLock() {
			idle = false
			return
		}
		idle = idle && s.queue.Idle()
		s.mu.Unlock()
	})
	if !idle {
		return late
	}
	be.late.CompareAndSwap(late, 0) // else somebody has freed more
	return 0
}
