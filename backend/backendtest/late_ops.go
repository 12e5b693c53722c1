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

// Upload copies src at the call, and into dst when its turn comes.
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

// Copy moves n elements when its turn comes.
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

// Fill sets n elements when its turn comes.
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

// Attend computes when its turn comes, by a copy of the plan: the caller may use the memory of
// its work again.
func (d *Late[B]) Attend(s backend.Stream, p backend.AttendParams[B]) error {
	p.Plan.Work = slices.Clone(p.Plan.Work)
	return d.late("attend", s, func() error { return d.operands("attend").Attend(&p) },
		func(under backend.Stream) error { return d.Backend.Attend(under, p) })
}

// Append runs when its turn comes.
func (d *Late[B]) Append(s backend.Stream, p backend.AppendParams[B]) error {
	return d.late("append", s, func() error { return d.operands("append").Append(&p) },
		func(under backend.Stream) error { return d.Backend.Append(under, p) })
}

// Merge runs when its turn comes.
func (d *Late[B]) Merge(s backend.Stream, p backend.MergeParams[B]) error {
	return d.late("merge", s, func() error { return d.operands("merge").Merge(&p) },
		func(under backend.Stream) error { return d.Backend.Merge(under, p) })
}

// Gather runs when its turn comes.
func (d *Late[B]) Gather(s backend.Stream, p backend.GatherParams[B]) error {
	return d.late("gather", s, func() error { return d.operands("gather").Gather(&p) },
		func(under backend.Stream) error { return d.Backend.Gather(under, p) })
}

// CopyBlocks runs when its turn comes.
func (d *Late[B]) CopyBlocks(s backend.Stream, p backend.CopyBlocksParams[B]) error {
	return d.late("copy blocks", s, func() error { return d.operands("copy blocks").CopyBlocks(&p) },
		func(under backend.Stream) error { return d.Backend.CopyBlocks(under, p) })
}

// MoveSlots runs when its turn comes.
func (d *Late[B]) MoveSlots(s backend.Stream, p backend.MoveSlotsParams[B]) error {
	return d.late("move slots", s, func() error { return d.operands("move slots").MoveSlots(&p) },
		func(under backend.Stream) error { return d.Backend.MoveSlots(under, p) })
}

// ConvertBlocks runs when its turn comes.
func (d *Late[B]) ConvertBlocks(s backend.Stream, p backend.ConvertBlocksParams[B]) error {
	return d.late("convert blocks", s, func() error { return d.operands("convert blocks").ConvertBlocks(&p) },
		func(under backend.Stream) error { return d.Backend.ConvertBlocks(under, p) })
}

// Rotate runs when its turn comes.
func (d *Late[B]) Rotate(s backend.Stream, p backend.RotateParams[B]) error {
	return d.late("rotate", s, func() error { return d.operands("rotate").Rotate(&p) },
		func(under backend.Stream) error { return d.Backend.Rotate(under, p) })
}
