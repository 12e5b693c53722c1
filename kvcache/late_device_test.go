package kvcache

import (
	"errors"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/backendtest"
)

var errBoom = errors.New("boom")

// lateDevice is the test device with streams that run late and calls that can fail.
type lateDevice struct {
	*backendtest.Faulty[buffer]
	late *backendtest.Late[buffer]
}

func newLateDevice(be backend.Backend[buffer], o backendtest.LateOptions) *lateDevice {
	late := backendtest.NewLate(be, o)
	return &lateDevice{backendtest.NewFaulty[buffer](late), late}
}

// under is a stream as the late device knows it.
func (d *lateDevice) under(s backend.Stream) backend.Stream {
	under, err := d.Underlying(s)
	if err != nil {
		panic(err)
	}
	return under
}

// failOn makes an operation of the device fail after n calls.
func (d *lateDevice) failOn(op backendtest.Op, n int) {
	d.SetFault(backendtest.After(n, errBoom, op))
}

// failEvents lets events of a stream fail where they were reached.
func (d *lateDevice) failEvents(s backend.Stream, err error) {
	d.SetFault(func(c backendtest.Call) error {
		if c.Stream == s && (c.Op == backendtest.OpEventDone || c.Op == backendtest.OpEventSync) {
			return err
		}
		return nil
	})
}

// enqueued are the calls that put work into a stream, and those that allocate.
func enqueued(fault func(op backendtest.Op) error) backendtest.Fault {
	return func(c backendtest.Call) error {
		if c.Op.Enqueues() || c.Op == backendtest.OpAlloc {
			return fault(c.Op)
		}
		return nil
	}
}

// counted counts the device's operations from here on.
func (d *lateDevice) counted() map[backendtest.Op]int {
	n := map[backendtest.Op]int{}
	d.SetFault(enqueued(func(op backendtest.Op) error { n[op]++; return nil }))
	return n
}
