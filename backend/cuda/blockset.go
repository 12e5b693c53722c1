//go:build linux && cgo && !nocuda

package cuda

import (
	"errors"
	"fmt"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/launch"
)

var _ backend.BlockIO[*Buffer] = (*Backend)(nil)

// stagingBytes is the most that a set of blocks stages at once in one direction, so that a copy takes long compared
// with what comes between two copies, and listed the most blocks of it.
const stagingBytes, maxListed = 8 << 20, 8192

// stagingAlign is the alignment of what is staged at once: planes lie alike in it then as in their own memory.
const stagingAlign = 16

// blockSet is planes whose blocks a kernel gathers in memory of the device, from where one copy takes them to the host, and the
// same back. What is under way in one direction is one after another, on whatever streams.
type blockSet struct {
	be      *Backend
	planes  []*Buffer
	table   *Buffer      // of the planes, as kernels/abi.h says
	shape   launch.Stage // of all launches
	out, in *lane
}

// NewBlockSet returns planes as a set of blocks. It takes device memory, for each direction at most 8 MiB and not more than the planes
// have, and loads the kernel that copies.
func (be *Backend) NewBlockSet(planes []backend.BlockPlane[*Buffer]) (backend.BlockSet, error) {
	return be.newBlockSet(planes, stagingBytes, maxListed)
}

// newBlockSet is NewBlockSet with other bounds of what is staged at once.
func (be *Backend) newBlockSet(planes []backend.BlockPlane[*Buffer], staged, listed int) (_ backend.BlockSet, err error) {
	const op = "block set"
	bytes, blocks, err := backend.CheckPlanes(planes)
	if err != nil {
		return nil, err
	}
	if err := be.owns(op, planes); err != nil {
		return nil, err
	}
	b := &blockSet{be: be, shape: launch.Stage{Count: len(planes), Blocks: blocks, BlockBytes: bytes}}
	table := make([]int64, 0, 3*len(planes))
	before := int64(0)
	for _, p := range planes {
		own := int64(p.Each) * int64(p.Buf.DType().Bits()) / 8
		table = append(table, int64(p.Buf.Place().At), own, before)
		b.planes = append(b.planes, p.Buf)
		b.shape.Largest = max(b.shape.Largest, own)
		before += own
	}
	err = be.dev.Load(op, func() error {
		_, err := be.modules.find(launch.Kernel{Op: launch.OpStageBlocks})
		return err
	})
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.free())
		}
	}()
	if b.table, err = be.tableOf(table); err != nil {
		return nil, err
	}
	b.shape.Planes = b.table.Place()
	size := (min(bytes*int64(blocks), int64(staged)) + stagingAlign - 1) / stagingAlign * stagingAlign
	listed = int(min(int64(listed), size/bytes+2)) // with what begins before and ends behind
	if b.out, err = be.newLane(int(size), listed); err != nil {
		return nil, err
	}
	if b.in, err = be.newLane(int(size), listed); err != nil {
		return nil, err
	}
	return b, nil
}

// owns verifies that planes are live buffers of the device.
func (be *Backend) owns(op string, planes []backend.BlockPlane[*Buffer]) error {
	if err := be.dev.Use(op); err != nil {
		return err
	}
	defer be.dev.End()
	for i, p := range planes {
		if err := be.dev.Owns(op, fmt.Sprintf("plane %d", i), p.Buf); err != nil {
			return err
		}
	}
	return nil
}

// tableOf is numbers in memory of the device.
func (be *Backend) tableOf(numbers []int64) (*Buffer, error) {
	table, err := be.Alloc(backend.I64, len(numbers))
	if err != nil {
		return nil, err
	}
	s, err := be.NewStream()
	if err == nil {
		err = errors.Join(be.Upload(s, table, 0, backend.BytesOf(numbers)), s.Close())
	}
	if err != nil {
		return nil, errors.Join(err, be.Free(table))
	}
	return table, nil
}

// BlockBytes is the bytes of a block of all planes.
func (b *blockSet) BlockBytes() int64 { return b.shape.BlockBytes }

// Pack enqueues copies of blocks to host memory.
func (b *blockSet) Pack(s backend.Stream, blocks []uint32, to backend.HostMemory, offset int64) error {
	return b.move("pack", b.out, s, blocks, to, offset)
}

// Unpack enqueues copies of blocks from host memory.
func (b *blockSet) Unpack(s backend.Stream, blocks []uint32, from backend.HostMemory, offset int64) error {
	if err := backend.CheckDistinct("unpack", blocks); err != nil {
		return err
	}
	return b.move("unpack", b.in, s, blocks, from, offset)
}

// holder is host memory that Close takes from nobody.
type holder interface {
	Hold() bool
	Release()
}

// move enqueues copies, as large as the lane's memory each.
func (b *blockSet) move(op string, l *lane, s backend.Stream, blocks []uint32, host backend.HostMemory, offset int64) (err error) {
	if h, ok := host.(holder); ok {
		if !h.Hold() {
			return fmt.Errorf("%s: %s: host memory %w", b.be.dev.Name(), op, backend.ErrClosed)
		}
		defer h.Release()
	}
	if err := backend.CheckBlocks(op, blocks, b.shape.Blocks, b.shape.BlockBytes, host, offset); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed.Load() {
		return fmt.Errorf("%s: %s: block set %w", b.be.dev.Name(), op, backend.ErrClosed)
	}
	m := mover{blockSet: b, lane: l, op: op, back: l == b.in, memory: host.Bytes()[offset:]}
	if m.t, err = b.be.dev.Transfer(op, s, "staging memory", l.staging, 0, 0); err != nil {
		return err
	}
	defer m.t.Stream.Release()
	if err := m.t.Stream.uncaptured(op); err != nil || len(blocks) == 0 {
		return b.be.dev.Failed(op, err)
	}
	if own, ok := host.(*hostMemory); ok && own.pinned && own.be == b.be {
		own.use(l)
		m.pinned = true
	}
	return b.be.dev.Failed(op, m.all(blocks))
}

// Close waits for the copies and frees the set's own memory.
func (b *blockSet) Close() error {
	const op = "close block set"
	if first, second := b.out.close(), b.in.close(); !first || !second {
		return fmt.Errorf("%s: %s: block set %w", b.be.dev.Name(), op, backend.ErrClosed)
	}
	return errors.Join(b.out.wait(), b.in.wait(), b.free())
}

// free gives back what there is. What a device has that is closed or lost has gone, or goes, with it.
func (b *blockSet) free() error {
	var errs []error
	buffers := []*Buffer{b.table}
	for _, l := range []*lane{b.out, b.in} {
		if l != nil {
			buffers = append(buffers, l.staging, l.list)
			errs = append(errs, gone(l.done.Close()))
		}
	}
	for _, buf := range buffers {
		if buf != nil {
			errs = append(errs, gone(b.be.Free(buf)))
		}
	}
	return errors.Join(errs...)
}

// gone is nil where the device that something belonged to is closed or lost.
func gone(err error) error {
	if errors.Is(err, backend.ErrClosed) || errors.Is(err, backend.ErrLost) {
		return nil
	}
	return err
}
