package check

import "github.com/ferrumkv/ferrumkv/backend"

// Owner is a device, as far as its buffers are concerned. It is a type parameter
// and no interface value, so that a check allocates nothing.
type Owner[B backend.Buffer] interface {
	// Owns reports whether b is a live buffer of the device, as an error that names
	// the operation and the operand.
	Owns(op, name string, b B) error
	// Caps is what the device accepts, not to be modified.
	Caps() *backend.Caps
	// Known is what it remembers of calls; nil where each operand has to be asked for.
	Known() *Known[B]
}

// Operands is the check of one call: first that each buffer is a live one of the device, before
// anything asks for its length, and then that they fit. It remembers the first buffer that is not
// the device's. Parameters are hundreds of bytes: the checks get pointers to them, which
// they do not retain, and are called directly, so that both stay on the caller's stack.
type Operands[B backend.Buffer, O Owner[B]] struct {
	Owner O
	Op    string
	Err   error
}

// Buf checks that one buffer is the device's.
func (o *Operands[B, O]) Buf(name string, b B) {
	if o.Err == nil {
		o.Err = o.Owner.Owns(o.Op, name, b)
	}
}

func (o *Operands[B, O]) opt(name string, b backend.Opt[B]) {
	if b.Set {
		o.Buf(name, b.Buf)
	}
}
