package backend

// BlockAccess is implemented by devices whose memory the host reads and writes by itself: they copy the blocks of a BlockSet
// without a queue's work. Programs call NewBlockSet.
type BlockAccess[B Buffer] interface {
	// ReadBlocks waits for what s has before it, and copies blocks of all planes to dst, which has just their bytes. ErrArgument
	// where the sizes do not fit or a block is not there, ErrFreed where a plane is not; nothing is copied then.
	ReadBlocks(s Stream, dst []byte, planes []BlockPlane[B], blocks []uint32) error
	// WriteBlocks waits likewise, and copies src to blocks that are not in the list twice.
	WriteBlocks(s Stream, planes []BlockPlane[B], blocks []uint32, src []byte) error
}

// bytes is the bytes of a block.
func (p *BlockPlane[B]) bytes() int { return int(int64(p.Each) * int64(p.Buf.DType().Bits()) / 8) }

// transfers is the BlockAccess of any device: an Upload or Download for each plane and block.
type transfers[B Buffer] struct{ be Backend[B] }

// alive finds what was freed, before anything is copied.
func (t transfers[B]) alive(s Stream, planes []BlockPlane[B]) error {
	for _, p := range planes {
		if err := t.be.Upload(s, p.Buf, 0, nil); err != nil {
			return err
		}
	}
	return nil
}

func (t transfers[B]) ReadBlocks(s Stream, dst []byte, planes []BlockPlane[B], blocks []uint32) error {
	if err := t.alive(s, planes); err != nil {
		return err
	}
	for _, block := range blocks {
		for _, p := range planes {
			n := p.bytes()
			if err := t.be.Download(s, dst[:n], p.Buf, int(block)*p.Each); err != nil {
				return err
			}
			dst = dst[n:]
		}
	}
	return nil
}

func (t transfers[B]) WriteBlocks(s Stream, planes []BlockPlane[B], blocks []uint32, src []byte) error {
	if err := t.alive(s, planes); err != nil {
		return err
	}
	for _, block := range blocks {
		for _, p := range planes {
			n := p.bytes()
			if err := t.be.Upload(s, p.Buf, int(block)*p.Each, src[:n]); err != nil {
				return err
			}
			src = src[n:]
		}
	}
	return nil
}
