package store

import (
	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/block"
)

// Payload is how the blocks of a part go to host memory and back: in pieces, each of which has all layers.
type Payload[B backend.Buffer] struct {
	Set    backend.BlockSet
	Bytes  int64 // of a block
	Pieces int   // blocks of Set that make one

	stride int // from the first piece of a block to that of the next
	state  int // bytes of a state; 0: keys and values
	layers int
	free   func()
}

// Payload returns that of the part. It is closed before the part is.
func (p *Stores[B]) Payload() (*Payload[B], error) {
	if p.States != nil {
		return p.States.payload(p.BE)
	}
	set, err := p.Kept.BlockSet(p.BE)
	if err != nil {
		return nil, err
	}
	return &Payload[B]{Set: set, Bytes: set.BlockBytes() * int64(p.Kept.each), Pieces: p.Kept.each, stride: p.Kept.stride, free: func() {}}, nil
}

// mostPieces is the most pieces of a state: so much smaller than a piece is what lies behind it.
const mostPieces = 64

// payload is that of states. They are shorter than the places of blocks, so pieces are a fraction of these.
func (t *States[B]) payload(be backend.Backend[B]) (*Payload[B], error) {
	piece := t.Stride
	for piece%8 == 0 && (t.Bytes+piece/2-1)/(piece/2) <= mostPieces {
		piece /= 2
	}
	y := &Payload[B]{Pieces: (t.Bytes + piece - 1) / piece, stride: t.Stride / piece, state: t.Bytes, layers: len(t.Layers)}
	var planes []backend.BlockPlane[B]
	var views []B
	y.free = func() {
		for _, v := range views {
			_ = be.Free(v) // ours and live
		}
	}
	for _, mem := range t.Layers {
		words := t.Stride / 4
		view, err := be.SubBuffer(mem, 0, backend.U32, mem.Len()/words*words)
		if err != nil {
			y.free()
			return nil, err
		}
		views = append(views, view)
		planes = append(planes, backend.BlockPlane[B]{Buf: view, Each: piece / 4})
	}
	var err error
	if y.Set, err = backend.NewBlockSet(be, planes); err != nil {
		y.free()
		return nil, err
	}
	y.Bytes = y.Set.BlockBytes() * int64(y.Pieces)
	return y, nil
}

// Numbers appends the numbers that Set has for a block.
func (y *Payload[B]) Numbers(dst []uint32, b block.Block) []uint32 {
	for i := range y.Pieces {
		dst = append(dst, uint32(int(b.ID)*y.stride+i))
	}
	return dst
}

// Wipe clears what lies behind the states in the bytes of a block: what memory had before, of whoever used it.
func (y *Payload[B]) Wipe(bytes []byte) {
	if y.state == 0 {
		return
	}
	each := len(bytes) / y.Pieces / y.layers
	last := bytes[(y.Pieces-1)*y.layers*each:]
	for l := range y.layers {
		clear(last[l*each:][y.state-(y.Pieces-1)*each : each])
	}
}

// Close lets go of what the copies need, after those under way.
func (y *Payload[B]) Close() error {
	err := y.Set.Close()
	y.free()
	return err
}
