//go:build linux && cgo && !nocuda

package cuda

import (
	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/cuda/driver"
	"github.com/ferrumkv/ferrumkv/backend/internal/launch"
)

// Upload copies src into dst from element off on. It waits only for its own earlier uploads, when
// the stream's page-locked memory is full.
func (be *Backend) Upload(s backend.Stream, dst *Buffer, off int, src []byte) error {
	t, err := be.dev.Transfer("upload", s, "destination", dst, off, len(src))
	if err != nil {
		return err
	}
	defer t.Stream.Release()
	if err := t.Stream.uncaptured("upload"); err != nil {
		return be.dev.Failed("upload", err)
	}
	return be.dev.Failed("upload", t.Stream.ring.Upload(src, func(piece []byte, at int) error {
		return t.Piece(func() error {
			if err := t.Stream.harmless(); err != nil {
				return err
			}
			return be.ctx.CopyToDevice(driver.Ptr(t.Place.At)+driver.Ptr(at), piece, t.Stream.cu)
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
	if err := t.Stream.uncaptured("download"); err != nil {
		return be.dev.Failed("download", err)
	}
	if len(dst) == 0 {
		return be.dev.Failed("download", t.Stream.Drain())
	}
	return be.dev.Failed("download", t.Stream.ring.Download(dst, func(piece []byte, at int) error {
		return t.Piece(func() error {
			if err := t.Stream.harmless(); err != nil {
				return err
			}
			return be.ctx.CopyToHost(piece, driver.Ptr(t.Place.At)+driver.Ptr(at), t.Stream.cu)
		})
	}))
}

// CopyBytes, CopyBits, Scratch and DropScratch make a stream a launch.Mover.

// CopyBytes copies bytes that do not overlap.
func (s *stream) CopyBytes(dst, src launch.Place, size int) error {
	if err := s.harmless(); err != nil {
		return err
	}
	return s.be.ctx.Copy(driver.Ptr(dst.At), driver.Ptr(src.At), size, s.cu)
}

// CopyBits copies the bits of mask of one byte.
func (s *stream) CopyBits(dst, src launch.Place, mask uint32) error {
	launch.CopyBits(&s.calls, dst, src, mask)
	return s.Run()
}

// Scratch returns memory for work on the stream alone.
func (s *stream) Scratch(size int) (launch.Place, error) {
	if s.capturing {
		return launch.Place{}, backend.ErrCapture{Op: "copy", Do: "copy between places that do not overlap"}
	}
	if err := s.uncaptured("copy"); err != nil {
		return launch.Place{}, err
	}
	p, err := s.be.memory.scratch(size, s.cu)
	return launch.Place{At: uint64(p)}, err
}

// DropScratch returns memory of Scratch once the work of the stream is done.
func (s *stream) DropScratch(p launch.Place) error {
	return s.be.memory.dropScratch(driver.Ptr(p.At), s)
}
