//go:build linux && cgo

package library

import (
	"fmt"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	state "github.com/ferrumkv/ferrumkv/internal/nvml"
)

// Devices reads every device of the machine.
func Devices() ([]state.Reading, error) { return devicesOf(nvml.New()) }

// reasons are the ways in which clocks are held back, by NVML's bits. Being idle
// and a clock that an application chose are none.
var reasons = []struct {
	bit  uint64
	text string
}{
	{nvml.ClocksThrottleReasonSwPowerCap, "power cap"},
	{nvml.ClocksThrottleReasonSwThermalSlowdown, "heat"},
	{nvml.ClocksThrottleReasonHwThermalSlowdown, "heat, by the hardware"},
	{nvml.ClocksThrottleReasonHwPowerBrakeSlowdown, "power brake"},
	{nvml.ClocksThrottleReasonHwSlowdown, "hardware slowdown"},
}

// devicesOf opens the library for the length of the call. A device that cannot be read
// is left out, and a machine without the library has none; an error is of the library
// as a whole.
func devicesOf(library nvml.Interface) ([]state.Reading, error) {
	switch ret := library.Init(); ret {
	case nvml.SUCCESS:
	case nvml.ERROR_LIBRARY_NOT_FOUND:
		return nil, nil
	default:
		return nil, fmt.Errorf("init: error %d", ret)
	}
	defer library.Shutdown()
	count, ret := library.DeviceGetCount()
	if ret != nvml.SUCCESS {
		return nil, fmt.Errorf("device count: error %d", ret)
	}
	version, ret := library.SystemGetDriverVersion()
	if ret != nvml.SUCCESS {
		version = ""
	}
	readings := make([]state.Reading, 0, count)
	for i := range count {
		d, ret := library.DeviceGetHandleByIndex(i)
		if ret != nvml.SUCCESS {
			continue
		}
		if r, ok := read(d); ok {
			r.Driver = version
			readings = append(readings, r)
		}
	}
	return readings, nil
}

// read asks a device for everything; it is useless without a bus id.
func read(d nvml.Device) (state.Reading, bool) {
	pci, ret := d.GetPciInfo()
	if ret != nvml.SUCCESS {
		return state.Reading{}, false
	}
	r := state.Reading{Bus: text(pci.BusId[:])}
	if name, ret := d.GetName(); ret == nvml.SUCCESS {
		r.Name = name
	}
	if memory, ret := d.GetMemoryInfo(); ret == nvml.SUCCESS {
		r.MemoryTotal, r.MemoryFree = int64(memory.Total), int64(memory.Free)
	}
	if degrees, ret := d.GetTemperature(nvml.TEMPERATURE_GPU); ret == nvml.SUCCESS {
		r.Celsius = int(degrees)
	}
	if milliwatts, ret := d.GetPowerUsage(); ret == nvml.SUCCESS {
		r.Watts = float64(milliwatts) / 1000
	}
	if milliwatts, ret := d.GetEnforcedPowerLimit(); ret == nvml.SUCCESS {
		r.WattsMost = float64(milliwatts) / 1000
	}
	if state, ret := d.GetPerformanceState(); ret == nvml.SUCCESS && state != nvml.PSTATE_UNKNOWN {
		r.State = fmt.Sprintf("P%d", state)
	}
	r.SMClock, r.SMClockMost = clocks(d, nvml.CLOCK_SM)
	r.MemoryClock, r.MemoryClockMost = clocks(d, nvml.CLOCK_MEM)
	if errors, ret := d.GetTotalEccErrors(nvml.MEMORY_ERROR_TYPE_UNCORRECTED, nvml.VOLATILE_ECC); ret == nvml.SUCCESS {
		r.ECCErrors = errors
	}
	if bits, ret := d.GetCurrentClocksThrottleReasons(); ret == nvml.SUCCESS {
		for _, reason := range reasons {
			if bits&reason.bit != 0 {
				r.Throttled = append(r.Throttled, reason.text)
			}
		}
	}
	return r, true
}

// clocks is a clock now and at most, in MHz.
func clocks(d nvml.Device, which nvml.ClockType) (now, most int) {
	if mhz, ret := d.GetClockInfo(which); ret == nvml.SUCCESS {
		now = int(mhz)
	}
	if mhz, ret := d.GetMaxClockInfo(which); ret == nvml.SUCCESS {
		most = int(mhz)
	}
	return now, most
}

// text is a C string.
func text(chars []int8) string {
	var out []byte
	for _, c := range chars {
		if c == 0 {
			break
		}
		out = append(out, byte(c))
	}
	return string(out)
}
