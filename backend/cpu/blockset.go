package cpu

import (
	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/check"
)

var _ backend.BlockAccess[*Buffer] = (*Backend)(nil)

// ReadBlocks copies blocks of all planes to dst.
func (be *Backend) ReadBlocks(s backend.Stream, dst []byte, planes []backend.BlockPlane[*Buffer], blocks []uint32) error {
	return be.exchange("pack", s, exchangeTask{planes: planes, blocks: blocks, host: dst})
}

// WriteBlocks copies src to blocks of all planes.
func (be *Backend) WriteBlocks(s backend.Stream, planes []backend.BlockPlane[*Buffer], blocks []uint32, src []byte) error {
	return be.exchange("unpack", s, exchangeTask{planes: planes, blocks: blocks, host: src, back: true})
}

// exchangeTask copies whole blocks of planes to or from memory where those of a block are one behind another. Its parts are
// some planes of a block each.
type exchangeTask struct {
	k      *kernels
	planes []backend.BlockPlane[*Buffer]
	blocks []uint32
	host   []byte
	each   int  // planes of a part
	back   bool // to the planes
	around bool // the copies go around the caches
}

func (be *Backend) exchange(op string, s backend.Stream, t exchangeTask) error {
	if err := check.Blocks(op, t.planes, t.blocks, t.host); err != nil {
		return err
	}
	ops, err := be.begin(op, s)
	if err != nil {
		return err
	}
	defer be.end()
	for _, p := range t.planes {
		ops.Buf("plane", p.Buf)
	}
	if ops.Err != nil || len(t.blocks) == 0 {
		return ops.Err
	}
	t.k, t.around = be.kernels, len(t.host) >= largeCopy
	t.each = ceilDiv(len(t.planes), ceilDiv(t.blockBytes(), copyPiece))
	if t.back {
		t.changes()
		defer t.changes()
	}
	c := be.pool.borrow(extent{})
	defer giveBack(be.pool, c, &c.exchange)
	c.exchange = t
	return be.pool.run(&c.exchange, len(t.blocks)*t.shares(), 2*len(t.host), c.scratch)
}

// blockBytes is the bytes of a block of all planes.
func (t *exchangeTask) blockBytes() int { return len(t.host) / len(t.blocks) }

// shares is how many parts a block has.
func (t *exchangeTask) shares() int { return ceilDiv(len(t.planes), t.each) }

func (t *exchangeTask) changes() {
	for _, p := range t.planes {
		p.Buf.changes()
	}
}

func (t *exchangeTask) part(i int, _ *scratch) {
	at, first := i/t.shares(), i%t.shares()*t.each
	block, host := int(t.blocks[at]), t.host[at*t.blockBytes():]
	for i := range t.planes[:first] {
		host = host[check.BlockBytes(&t.planes[i]):]
	}
	planes := t.planes[first:min(first+t.each, len(t.planes))]
	for i := range planes {
		p := &planes[i]
		n := check.BlockBytes(p)
		from, to := p.Buf.mem[block*n:][:n], host[:n]
		if t.back {
			from, to = to, from
		}
		t.k.move(to, from, t.around)
		host = host[n:]
	}
	if t.around {
		t.k.fence()
	}
}
