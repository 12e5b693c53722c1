package backend

import (
	"fmt"
	"slices"
	"sync/atomic"
)

// BlockPlane is a plane of a cache, a buffer of blocks that are one behind another.
type BlockPlane[B Buffer] struct {
	Buf  B
	Each int // elements of a block; whole bytes
}

// BlockSet is planes whose blocks go to host memory and back together: those of all layers of a cache, each with its scales. A
// block of the set is block i of each plane, in their order, in BlockBytes bytes one behind another. What a block holds
// of one layer is therefore a prefix of what it holds of that and the next.
//
// Copies beside the steps have a stream of their own: it waits for an event behind what wrote the blocks, packs, and records an
// event by which the host knows that the bytes are there. Steps that read what was unpacked wait for such an event, too.
//
// A BlockSet may be used by several goroutines, each with its stream. An error about the arguments, or about what was freed, closed or
// captured before the call, has changed nothing. After any other, some of what was to be written may be, also later on,
// until the stream has come so far.
type BlockSet interface {
	BlockBytes() int64 // of a block of all planes

	// Pack enqueues copies of blocks to host memory: block n of the list to the n-th BlockBytes bytes of to from offset on. They
	// are there when the stream has come so far.
	Pack(s Stream, blocks []uint32, to HostMemory, offset int64) error
	// Unpack enqueues copies of blocks from host memory, likewise, which must not change until the stream has come so far.
	// ErrArgument when a block is in the list twice.
	Unpack(s Stream, blocks []uint32, from HostMemory, offset int64) error

	// Close waits for the copies and lets go of what the set holds; its planes stay. Any call after it is ErrClosed.
	Close() error
}

// BlockIO is implemented by devices that have a way of their own for sets of blocks. Programs call the functions
// NewBlockSet and HostAlloc.
type BlockIO[B Buffer] interface {
	NewBlockSet(planes []BlockPlane[B]) (BlockSet, error)
	HostAlloc(n int64) (HostMemory, error)
}

// NewBlockSet returns planes as a set of blocks. They must have equally many blocks, and outlive the set.
func NewBlockSet[B Buffer](be Backend[B], planes []BlockPlane[B]) (BlockSet, error) {
	bytes, blocks, err := CheckPlanes(planes)
	if err != nil {
		return nil, err
	}
	if d, ok := be.(BlockIO[B]); ok {
		return d.NewBlockSet(planes)
	}
	access, ok := be.(BlockAccess[B])
	if !ok {
		access = transfers[B]{be}
	}
	return &blockSet[B]{access: access, planes: slices.Clone(planes), bytes: bytes, blocks: blocks}, nil
}

// CheckPlanes verifies what a set is made of. It returns the bytes of a block of all planes, and how many blocks they have.
func CheckPlanes[B Buffer](planes []BlockPlane[B]) (bytes int64, blocks int, err error) {
	bad := func(format string, args ...any) (int64, int, error) {
		return 0, 0, ErrArgument{Op: "block set", What: fmt.Sprintf(format, args...)}
	}
	if len(planes) == 0 {
		return bad("no planes")
	}
	for i, p := range planes {
		bits := int64(p.Each) * int64(p.Buf.DType().Bits())
		switch {
		case p.Buf.DType() == Invalid:
			return bad("plane %d: no buffer", i)
		case p.Each <= 0 || bits%8 != 0 || p.Buf.Len()%p.Each != 0:
			return bad("plane %d: blocks of %d elements of %s in %d", i, p.Each, p.Buf.DType(), p.Buf.Len())
		case i > 0 && p.Buf.Len()/p.Each != blocks:
			return bad("plane %d: %d blocks, plane 0 has %d", i, p.Buf.Len()/p.Each, blocks)
		}
		blocks = p.Buf.Len() / p.Each
		bytes += bits / 8
	}
	return bytes, blocks, nil
}

// blockSet is a BlockSet whose copies are done when Pack and Unpack return.
type blockSet[B Buffer] struct {
	access BlockAccess[B]
	planes []BlockPlane[B]
	bytes  int64
	blocks int
	closed atomic.Bool
}

func (b *blockSet[B]) BlockBytes() int64 { return b.bytes }

func (b *blockSet[B]) Close() error {
	if b.closed.Swap(true) {
		return closedSet("close")
	}
	return nil
}

func closedSet(op string) error { return fmt.Errorf("backend: %s: block set %w", op, ErrClosed) }

func (b *blockSet[B]) Pack(s Stream, blocks []uint32, to HostMemory, offset int64) error {
	return b.move("pack", blocks, to, offset, func(part []byte) error {
		return b.access.ReadBlocks(s, part, b.planes, blocks)
	})
}

func (b *blockSet[B]) Unpack(s Stream, blocks []uint32, from HostMemory, offset int64) error {
	if err := CheckDistinct("unpack", blocks); err != nil {
		return err
	}
	return b.move("unpack", blocks, from, offset, func(part []byte) error {
		return b.access.WriteBlocks(s, b.planes, blocks, part)
	})
}

// move calls copies with the part of the host's memory that belongs to blocks, once all is known to be there.
func (b *blockSet[B]) move(op string, blocks []uint32, host HostMemory, offset int64, copies func(part []byte) error) error {
	if b.closed.Load() {
		return closedSet(op)
	}
	if h, ok := host.(holder); ok {
		if !h.Hold() {
			return fmt.Errorf("backend: %s: host memory %w", op, ErrClosed)
		}
		defer h.Release()
	}
	if err := CheckBlocks(op, blocks, b.blocks, b.bytes, host, offset); err != nil {
		return err
	}
	return copies(host.Bytes()[offset:][:int64(len(blocks))*b.bytes])
}

// CheckBlocks verifies what Pack and Unpack of a set of so many blocks are asked for.
func CheckBlocks(op string, blocks []uint32, have int, each int64, host HostMemory, offset int64) error {
	bad := func(format string, args ...any) error { return ErrArgument{Op: op, What: fmt.Sprintf(format, args...)} }
	if host == nil {
		return bad("no host memory")
	}
	if each < 1 {
		return bad("blocks of %d bytes, need at least 1", each)
	}
	if room := int64(len(host.Bytes())); offset < 0 || offset > room || int64(len(blocks)) > (room-offset)/each {
		return bad("%d blocks of %d bytes at offset %d of %d bytes of host memory", len(blocks), each, offset, room)
	}
	for _, b := range blocks {
		if int64(b) >= int64(have) {
			return bad("block %d of %d", b, have)
		}
	}
	return nil
}

// fewBlocks are compared with each other, which needs no memory.
const fewBlocks = 256

// CheckDistinct verifies that no block is in the list of an Unpack twice. It allocates nothing where the list has up to 256 blocks or
// rises.
func CheckDistinct(op string, blocks []uint32) error {
	rises := true
	for i := 1; i < len(blocks) && rises; i++ {
		rises = blocks[i-1] < blocks[i]
	}
	if rises {
		return nil
	}
	if len(blocks) > fewBlocks {
		blocks = slices.Clone(blocks)
		slices.Sort(blocks)
	}
	for i, b := range blocks {
		rest := blocks[i+1:]
		if len(blocks) > fewBlocks {
			rest = rest[:min(1, len(rest))]
		}
		if slices.Contains(rest, b) {
			return ErrArgument{Op: op, What: fmt.Sprintf("block %d twice", b)}
		}
	}
	return nil
}

func (e *erased[B]) NewBlockSet(planes []BlockPlane[AnyBuffer]) (BlockSet, error) {
	var u unwrapper[B]
	own := make([]BlockPlane[B], len(planes))
	for i, p := range planes {
		own[i] = BlockPlane[B]{Buf: u.buf(p.Buf), Each: p.Each}
	}
	if err := u.ok("block set"); err != nil {
		return nil, err
	}
	return NewBlockSet(e.be, own)
}
