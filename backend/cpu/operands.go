package cpu

import "github.com/ferrumkv/ferrumkv/backend/internal/operands"

// owner is a Backend that says whose a buffer is; the caller holds mu.
type owner struct{ *Backend }

// Owns reports whether b is a live buffer of the device.
func (o owner) Owns(op, name string, b *Buffer) error { return o.owns(op, name, b) }

// checked is the operands of one operation.
type checked = operands.Operands[*Buffer, owner]
