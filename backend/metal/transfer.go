//go:build cgo && !nometal && (darwin || metalsimt)

package metal

import (
	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/device"
	"github.com/ferrumkv/ferrumkv/backend/internal/launch"
	"github.com/ferrumkv/ferrumkv/backend/metal/mtl"
)

// Upload copies src into dst from element off on. When the stream is idle the host copies;
// otherwise, and on a shared queue, it waits at most for its own earlier uploads.
func (be *Backend) Upload(s backend.Stream, dst *Buffer, off int, src []byte) error {
	t, err := be.dev.Transfer("upload", s, "destination", dst, off, len(src))
	if err != nil {
		return err
	}
	defer t.Stream.Release()
	if done, err := direct(&t, dst, src); done || err != nil {
		return err
	}
	return be.dev.Failed("upload", t.Stream.ring.Upload(src, func(piece []byte, at int) error {
		return t.Piece(func() error {
			return t.Stream.CopyBytes(t.Place.Plus(int64(at)), t.Stream.staged(piece), len(piece))
		})
	}))
}

// Download copies elements of src, from element off on, into dst, and waits for it.
func (be *Backend) Download(s backend.Stream, dst []byte, src *Buffer, off int) error {
	t, err := be.dev.Transfer("download", s, "source", src, off, len(dst))
	if err != nil {
		return err
	}
	defer t.Stream.Release()
	if src.host == nil && len(dst) > 0 {
		return be.dev.Failed("download", t.Stream.ring.Download(dst, func(piece []byte, at int) error {
			return t.Piece(func() error {
				return t.Stream.CopyBytes(t.Stream.staged(piece), t.Place.Plus(int64(at)), len(piece))
			})
		}))
	}
	if err := be.dev.Failed("download", t.Stream.Drain()); err != nil {
		return err
	}
	if err := t.Begin(); err != nil {
		return err
	}
	defer t.End()
	copy(dst, src.seen(t.Place))
	return nil
}

// transfer is an upload or a download.
type transfer = device.Transfer[*Buffer, *stream, *event, mtl.Error]

// direct lets the host write into the buffer, if no work of the stream is before it. On a
// shared queue nobody knows.
func direct(t *transfer, dst *Buffer, src []byte) (bool, error) {
	if err := t.Begin(); err != nil {
		return false, err
	}
	defer t.End()
	t.Stream.mu.Lock()
	defer t.Stream.mu.Unlock()
	if dst.host == nil || t.Stream.shared || !t.Stream.queue.Idle() {
		return false, nil
	}
	copy(dst.seen(t.Place), src)
	return true, nil
}

// seen is the memory from a place on, as the host sees it, which it may not.
func (b *Buffer) seen(p launch.Place) []byte {
	if b.host == nil {
		return nil
	}
	return b.host[p.At-b.Place().At:]
}

// CopyBytes, CopyBits, Scratch and DropScratch make a stream a launch.Mover.

// CopyBytes copies bytes that do not overlap.
func (s *stream) CopyBytes(dst, src launch.Place, size int) error {
	launch.Copy(&s.calls, dst, src, size)
	return s.Run()
}

// CopyBits copies the bits of mask of one byte.
func (s *stream) CopyBits(dst, src launch.Place, mask uint32) error {
	launch.CopyBits(&s.calls, dst, src, mask)
	return s.Run()
}

// Scratch returns memory for work on the stream alone.
func (s *stream) Scratch(size int) (launch.Place, error) {
	b, err := s.be.gpu.NewBuffer(size)
	return launch.Place{Memory: uintptr(b)}, err
}

// DropScratch gives memory of Scratch up, which the work of the stream keeps.
func (s *stream) DropScratch(p launch.Place) error {
	mtl.Buffer(p.Memory).Release()
	return nil
}
