package backendtest

import (
	"slices"

	"github.com/ferrumkv/ferrumkv/backend"
	checked "github.com/ferrumkv/ferrumkv/backend/internal/check"
)

// late enqueues an operation whose operands are right, as fits says.
func (d *Late[B]) late(op string, s backend.Stream, fits func() error, work func(under backend.Stream) error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	own, err := d.own(op, s)
	if err != nil {
		return err
	}
	if err := fits(); err != nil {
		return err
	}
	own.push(work)
	return nil
}

// Upload copies src at once, and enqueues the copy into dst.
func (d *Late[B]) Upload(s backend.Stream, dst B, off int, src []byte) error {
	staged := slices.Clone(src)
	return d.late("upload", s, func() error {
		ops := d.operands("upload")
		if ops.Buf("destination", dst); ops.Err != nil {
			return ops.Err
		}
		_, err := checked.Transfer("upload", "destination", dst, off, len(src))
		return err
	}, func(under backend.Stream) error { return d.Backend.Upload(under, dst, off, staged) })
}

// Download waits for the stream.
func (d *Late[B]) Download(s backend.Stream, dst []byte, src B, off int) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	own, err := d.own("download", s)
	if err != nil {
		return err
	}
	if err := (owner[B]{d}).Owns("download", "source", src); err != nil {
		return err
	}
	if _, err := checked.Transfer("download", "source", src, off, len(dst)); err != nil {
		return err
	}
	if err := own.finish(); err != nil {
		return err
	}
	return d.Backend.Download(own.under, dst, src, off)
}

// Copy enqueues a copy of n elements.
func (d *Late[B]) Copy(s backend.Stream, dst B, dstOff int, src B, srcOff, n int) error {
	return d.late("copy", s, func() error {
		ops := d.operands("copy")
		ops.Buf("destination", dst)
		if ops.Buf("source", src); ops.Err != nil {
			return ops.Err
		}
		_, _, _, err := checked.Copied(dst, dstOff, src, srcOff, n)
		return err
	}, func(under backend.Stream) error { return d.Backend.Copy(under, dst, dstOff, src, srcOff, n) })
}

// Fill enqueues setting n elements.
func (d *Late[B]) Fill(s backend.Stream, dst B, off, n int, v float64) error {
	return d.late("fill", s, func() error {
		ops := d.operands("fill")
		if ops.Buf("destination", dst); ops.Err != nil {
			return ops.Err
		}
		if _, err := checked.Element("fill", dst.DType(), v); err != nil {
			return err
		}
		_, _, err := checked.Span("fill", "destination", dst, off, n)
		return err
	}, func(under backend.Stream) error { return d.Backend.Fill(under, dst, off, n, v) })
}
