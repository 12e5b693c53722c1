//go:build linux && cgo && !nocuda

package cuda

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/cuda/driver"
	"github.com/ferrumkv/ferrumkv/backend/internal/device"
	"github.com/ferrumkv/ferrumkv/backend/internal/launch"
)

// lane is one direction of a set of blocks: memory of the device that calls use one after another.
type lane struct {
	staging, list *Buffer
	done          *event // behind all that was enqueued
	closed        atomic.Bool

	mu   sync.Mutex // held by who enqueues
	last *stream    // on which that was; nil: nothing was
}

// newLane returns a lane that stages size bytes, of listed blocks, at once.
func (be *Backend) newLane(size, listed int) (*lane, error) {
	staging, err := be.Alloc(backend.Int8, size)
	if err != nil {
		return nil, err
	}
	list, err := be.Alloc(backend.U32, listed)
	if err != nil {
		return nil, errors.Join(err, be.Free(staging))
	}
	done, err := be.NewEvent()
	if err != nil {
		return nil, errors.Join(err, be.Free(staging), be.Free(list))
	}
	return &lane{staging: staging, list: list, done: done.(*event)}, nil
}

// wait waits for what was enqueued so far.
func (l *lane) wait() error { return gone(l.done.Sync()) }

// close ends the lane for calls to come; false where that was done before.
func (l *lane) close() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.closed.Swap(true)
}

// mover is one call. It has the lane and the host's memory.
type mover struct {
	*blockSet
	lane         *lane
	t            device.Transfer[*Buffer, *stream, *event, driver.Error]
	op           string
	back, pinned bool
	memory       []byte // from the first block on
}

// alive is ErrFreed where a plane is not there any more. The caller has begun an operation.
func (m *mover) alive() error {
	for _, p := range m.planes {
		if err := m.be.dev.Owns(m.op, "plane", p); err != nil {
			return err
		}
	}
	return nil
}

// all enqueues the copies of blocks, and marks their end, whatever has become of them.
func (m *mover) all(blocks []uint32) error {
	err := m.enter()
	if err != nil {
		return err
	}
	each, total := m.shape.BlockBytes, int64(len(blocks))*m.shape.BlockBytes
	for begin := int64(0); begin < total && err == nil; {
		first := begin / each
		n := min(total-begin, m.lane.staging.Bytes(), (first+int64(m.lane.list.Len()))*each-begin)
		if n < total-begin && n > stagingAlign {
			n -= n % stagingAlign
		}
		last := (begin + n - 1) / each
		err = m.part(blocks[first:last+1], m.memory[begin:begin+n], begin-first*each)
		begin += n
	}
	return errors.Join(err, m.leave())
}

// enter makes the stream wait for the lane's memory.
func (m *mover) enter() error {
	if m.lane.last == nil || m.lane.last == m.t.Stream {
		return nil
	}
	return m.t.Piece(func() error { return m.be.ctx.Wait(m.t.Stream.cu, m.lane.done.cu) })
}

// leave marks the end of what was enqueued. Without a mark it waits.
func (m *mover) leave() error {
	m.lane.last = m.t.Stream
	err := m.t.Piece(func() error { return m.be.ctx.Record(m.lane.done.cu, m.t.Stream.cu) })
	if err != nil {
		err = errors.Join(err, m.t.Stream.Drain())
	}
	return err
}

// part copies one part of the list, that begins in the first of blocks, from begin on.
func (m *mover) part(blocks []uint32, memory []byte, begin int64) error {
	if err := m.copyIn(m.lane.list, backend.BytesOf(blocks), false); err != nil {
		return err
	}
	if !m.back {
		if err := m.stage(len(blocks), begin, len(memory)); err != nil {
			return err
		}
		return m.copyOut(memory)
	}
	if err := m.copyIn(m.lane.staging, memory, m.pinned); err != nil {
		return err
	}
	return m.stage(len(blocks), begin, len(memory))
}

// stage launches the kernel between the planes and the lane's memory.
func (m *mover) stage(listed int, begin int64, bytes int) error {
	return m.t.Piece(func() error {
		if err := m.alive(); err != nil {
			return err
		}
		s := m.shape
		s.List, s.Staging = m.lane.list.Place(), m.lane.staging.Place()
		s.Listed, s.Begin, s.Bytes, s.Back = listed, begin, int64(bytes), m.back
		if err := launch.StageBlocks(m.t.Stream.Calls(), &s); err != nil {
			return err
		}
		return m.t.Stream.Run()
	})
}

// copyIn enqueues a copy of src, which stays as it is where it is pinned, and else passes the stream's page-locked memory.
func (m *mover) copyIn(dst *Buffer, src []byte, pinned bool) error {
	send := func(piece []byte, at int) error {
		return m.t.Piece(func() error {
			if err := m.t.Stream.harmless(); err != nil {
				return err
			}
			return m.be.ctx.CopyToDevice(driver.Ptr(dst.Place().At)+driver.Ptr(at), piece, m.t.Stream.cu)
		})
	}
	if pinned {
		return send(src, 0)
	}
	return m.t.Stream.ring.Upload(src, send)
}

// copyOut enqueues a copy from the lane's memory, or waits for it where dst is not pinned.
func (m *mover) copyOut(dst []byte) error {
	fetch := func(piece []byte, at int) error {
		return m.t.Piece(func() error {
			if err := m.t.Stream.harmless(); err != nil {
				return err
			}
			return m.be.ctx.CopyToHost(piece, driver.Ptr(m.lane.staging.Place().At)+driver.Ptr(at), m.t.Stream.cu)
		})
	}
	if m.pinned {
		return fetch(dst, 0)
	}
	return m.t.Stream.ring.Download(dst, fetch)
}
