package device

import (
	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/check"
	"github.com/ferrumkv/ferrumkv/backend/internal/launch"
)

// Transfer is an upload or a download. The host may wait during one, so it does not
// hold the lock that Free needs: each piece begins and ends an operation.
type Transfer[B buffer, S stream, E member, R error] struct {
	Stream S
	Place  launch.Place // where the bytes start

	device *Device[B, S, E, R]
	op     string
	name   string // of the operand
	buffer B
}

// Transfer checks a transfer of some bytes from or to element off of b, which the caller
// calls name, and holds s until the caller releases it.
func (d *Device[B, S, E, R]) Transfer(op string, s backend.Stream, name string, b B, off, bytes int) (t Transfer[B, S, E, R], err error) {
	ops, own, err := d.BeginNow(op, "transfer before the capture and around each launch", s)
	if err != nil {
		return t, err
	}
	defer d.End()
	lo := 0
	if ops.Buf(name, b); ops.Err == nil {
		lo, ops.Err = check.Transfer(op, name, b, off, bytes)
	}
	if ops.Err != nil {
		return t, ops.Err
	}
	own.member().waiting.RLock()
	return Transfer[B, S, E, R]{own, b.Place().Plus(int64(lo)), d, op, name, b}, nil
}

// Piece runs enqueue as the operation of a piece, again where a kernel of it was Missing.
func (t *Transfer[B, S, E, R]) Piece(enqueue func() error) error {
	for {
		err := t.piece(enqueue)
		if err == nil {
			return nil
		}
		if err = t.device.load(t.op, err); err != nil {
			return err
		}
	}
}

func (t *Transfer[B, S, E, R]) piece(enqueue func() error) error {
	if err := t.Begin(); err != nil {
		return err
	}
	defer t.End()
	return enqueue()
}

// Begin begins the operation that enqueues a piece; End ends it.
func (t *Transfer[B, S, E, R]) Begin() error {
	ops, _, err := t.device.Begin(t.op, t.Stream)
	if err != nil {
		return err
	}
	if ops.Buf(t.name, t.buffer); ops.Err != nil {
		t.device.End()
	}
	return ops.Err
}

// End ends the operation of a piece.
func (t *Transfer[B, S, E, R]) End() { t.device.End() }
