package main

import (
	"context"
	"errors"
	"time"

	"github.com/ferrumkv/ferrumkv/internal/nvml"
)

// readingTime is what the program that reads NVIDIA's state may take: some drivers wake
// every device of the machine first.
const readingTime = 15 * time.Second

// readConditions adds the state of the hardware to the devices that have a PCI bus id,
// which are NVIDIA's. Where it cannot be read that says why.
func (d *diagnosis) readConditions(ctx context.Context) {
	var readings []nvml.Reading
	var err error
	asked := false
	for i := range d.Backends {
		b := &d.Backends[i]
		if b.Bus == "" || b.StandIn {
			continue
		}
		if !asked {
			asked = true
			ctx, cancel := context.WithTimeout(ctx, readingTime)
			readings, err = nvml.Read(ctx)
			cancel()
		}
		b.Condition = condition(b.Bus, readings, err)
	}
}

// condition is the state of the device at a place, or why it is not known.
func condition(bus string, readings []nvml.Reading, err error) string {
	r, ok := nvml.At(bus, readings)
	switch {
	case errors.Is(err, nvml.ErrNotInstalled):
		return "not known, " + err.Error()
	case err != nil:
		return "not known: " + err.Error()
	case !ok:
		return "not known: the driver's management library does not show the device"
	}
	return r.Condition()
}
