//go:build cgo && !nometal && (darwin || metalsimt)

package metal

import (
	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/check"
)

var _ backend.BlockAccess[*Buffer] = (*Backend)(nil)

// ReadBlocks waits for what s has before it, and the host copies blocks of all planes to dst. A kernel that did would not run
// beside the steps: Metal orders what uses a buffer, whichever blocks of it.
func (be *Backend) ReadBlocks(s backend.Stream, dst []byte, planes []backend.BlockPlane[*Buffer], blocks []uint32) error {
	return be.exchange("pack", s, planes, blocks, dst, false)
}

// WriteBlocks waits likewise, and the host copies src to blocks of all planes.
func (be *Backend) WriteBlocks(s backend.Stream, planes []backend.BlockPlane[*Buffer], blocks []uint32, src []byte) error {
	return be.exchange("unpack", s, planes, blocks, src, true)
}

// exchange copies between planes and the host's memory, back to the planes. Planes whose memory is private to the GPU pass the
// stream's ring.
func (be *Backend) exchange(op string, s backend.Stream, planes []backend.BlockPlane[*Buffer], blocks []uint32, host []byte, back bool) error {
	if err := check.Blocks(op, planes, blocks, host); err != nil {
		return err
	}
	t, err := be.dev.Transfer(op, s, "plane", planes[0].Buf, 0, 0)
	if err != nil {
		return err
	}
	defer t.Stream.Release()
	if err := be.own(op, &t, planes); err != nil || len(blocks) == 0 {
		return err
	}
	if err := be.dev.Failed(op, t.Stream.Drain()); err != nil {
		return err
	}
	each := len(host) / len(blocks)
	for i, block := range blocks {
		part := host[i*each:][:each]
		if err := be.exchangeShared(op, &t, planes, block, part, back); err != nil {
			return err
		}
		if err := be.exchangePrivate(s, planes, block, part, back); err != nil {
			return err
		}
	}
	return nil
}

// own finds planes that were freed.
func (be *Backend) own(op string, t *transfer, planes []backend.BlockPlane[*Buffer]) error {
	if err := t.Begin(); err != nil {
		return err
	}
	defer t.End()
	for i := range planes {
		if err := be.dev.Owns(op, "plane", planes[i].Buf); err != nil {
			return err
		}
	}
	return nil
}

// exchangeShared copies a block of the planes that the host sees. None is freed meanwhile.
func (be *Backend) exchangeShared(op string, t *transfer, planes []backend.BlockPlane[*Buffer], block uint32, host []byte, back bool) error {
	if err := t.Begin(); err != nil {
		return err
	}
	defer t.End()
	for i := range planes {
		b, n := planes[i].Buf, check.BlockBytes(&planes[i])
		if err := be.dev.Owns(op, "plane", b); err != nil {
			return err
		}
		if b.host != nil {
			to, from := host[:n], b.host[int(block)*n:][:n]
			if back {
				to, from = from, to
			}
			copy(to, from)
		}
		host = host[n:]
	}
	return nil
}

// exchangePrivate copies a block of the others.
func (be *Backend) exchangePrivate(s backend.Stream, planes []backend.BlockPlane[*Buffer], block uint32, host []byte, back bool) (err error) {
	for i := 0; i < len(planes) && err == nil; i++ {
		p, n := &planes[i], check.BlockBytes(&planes[i])
		switch {
		case p.Buf.host != nil:
		case back:
			err = be.Upload(s, p.Buf, int(block)*p.Each, host[:n])
		default:
			err = be.Download(s, host[:n], p.Buf, int(block)*p.Each)
		}
		host = host[n:]
	}
	return err
}
