//go:build linux && cgo

package parts

// #include "driver.h"
import "C"

const Slots = C.DRIVER_SLOTS

const Fast Mode = C.DRIVER_FAST

type Mode int

type Driver struct {
	Table [Slots]uint64
	lib   C.struct_driver
}

func (d *Driver) Load() error { C.driver_load(&d.lib); return nil }
