//go:build linux && cgo && !nocuda

package driver

// #include "driver.h"
// #cgo noescape fkv_context_retain
// #cgo nocallback fkv_context_retain
// #cgo nocallback fkv_context_release
import "C"

// Context is a device's primary context, which all users of the device in this
// process share, the CUDA runtime included. It is safe for concurrent use.
type Context struct {
	Device Device

	c C.struct_fkv_context
}

// Retain takes a reference to the primary context of device i, which is made if
// nobody has it. The caller releases it.
func (l *Library) Retain(i int) (*Context, error) {
	d, err := l.Device(i)
	if err != nil {
		return nil, err
	}
	ctx := &Context{Device: d}
	if err := check(l.handle, C.fkv_context_retain(l.handle, C.int32_t(i), &ctx.c)); err != nil {
		return nil, err
	}
	return ctx, nil
}

// Release gives the reference back. The context ends with its last one.
func (c *Context) Release() error {
	return c.check(C.fkv_context_release(c.c.library, C.int32_t(c.Device.Ordinal)))
}

func (c *Context) check(s C.struct_fkv_status) error { return check(c.c.library, s) }
