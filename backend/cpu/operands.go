package cpu

import (
	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/check"
)

// owner is a Backend that says whose a buffer is; the caller holds mu.
type owner struct{ *Backend }

// Owns reports whether b is a live buffer of the device.
func (o owner) Owns(op, name string, b *Buffer) error { return o.owns(op, name, b) }

// Caps is what the device accepts.
func (o owner) Caps() *backend.Caps { return &o.caps }

// Known is what the device remembers of calls.
func (o owner) Known() *check.Known[*Buffer] { return &o.known }

// checked is the operands of one operation.
type checked = check.Operands[*Buffer, owner]
