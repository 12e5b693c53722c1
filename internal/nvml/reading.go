package nvml

import (
	"fmt"
	"strconv"
	"strings"
)

// Reading is the state of a device at one moment. What the device does not report
// is zero.
type Reading struct {
	Bus         string  `json:"bus"` // PCI bus id, "00000000:3B:00.0"
	Name        string  `json:"name"`
	MemoryTotal int64   `json:"memory_total"` // bytes
	MemoryFree  int64   `json:"memory_free"`  // bytes
	Celsius     int     `json:"celsius"`      // of the GPU
	Watts       float64 `json:"watts"`        // drawn now
	WattsMost   float64 `json:"watts_most"`   // that the device may draw
	Driver      string  `json:"driver"`       // version, "550.54.15"
	State       string  `json:"state"`        // of power, "P0": the fastest
	// Clocks now and at most, of multiprocessors and of memory, in MHz.
	SMClock         int `json:"sm_clock"`
	SMClockMost     int `json:"sm_clock_most"`
	MemoryClock     int `json:"memory_clock"`
	MemoryClockMost int `json:"memory_clock_most"`
	// Uncorrected memory errors since the driver was loaded.
	ECCErrors uint64 `json:"ecc_errors"`
	// Why clocks are lower than they could be, "power cap"; empty: they are not.
	Throttled []string `json:"throttled"`
}

// At is the reading of the device at a PCI bus id. NVML counts devices in another order
// than CUDA, and all of the machine's: their place is what both know.
func At(bus string, readings []Reading) (r Reading, ok bool) {
	for _, r = range readings {
		if SameBus(r.Bus, bus) {
			return r, true
		}
	}
	return Reading{}, false
}

// Condition is what of a reading a person should know: "41 °C, 212 W, 18.1 of 79.6 GiB
// used, throttled: heat". Memory is that of all processes.
func (r Reading) Condition() string {
	var parts []string
	if r.Celsius != 0 {
		parts = append(parts, fmt.Sprintf("%d °C", r.Celsius))
	}
	if r.Watts != 0 {
		parts = append(parts, fmt.Sprintf("%.0f W", r.Watts))
	}
	if r.MemoryTotal != 0 {
		parts = append(parts, fmt.Sprintf("%.1f of %.1f GiB used", gib(r.MemoryTotal-r.MemoryFree), gib(r.MemoryTotal)))
	}
	if len(r.Throttled) > 0 {
		parts = append(parts, "throttled: "+strings.Join(r.Throttled, ", "))
	}
	if r.ECCErrors > 0 {
		parts = append(parts, fmt.Sprintf("%d uncorrected memory errors", r.ECCErrors))
	}
	return strings.Join(parts, ", ")
}

// Pace is what the speed of a device depends on at this moment: "SM 1755 of 1980 MHz, memory
// 2619 of 2619 MHz, P0, 412 of 700 W, 61 °C, throttled: power cap".
func (r Reading) Pace() string {
	var parts []string
	for _, clock := range []struct {
		of        string
		now, most int
	}{{"SM", r.SMClock, r.SMClockMost}, {"memory", r.MemoryClock, r.MemoryClockMost}} {
		if clock.now != 0 {
			parts = append(parts, fmt.Sprintf("%s %d of %d MHz", clock.of, clock.now, clock.most))
		}
	}
	if r.State != "" {
		parts = append(parts, r.State)
	}
	if r.Watts != 0 {
		parts = append(parts, fmt.Sprintf("%.0f of %.0f W", r.Watts, r.WattsMost))
	}
	if r.Celsius != 0 {
		parts = append(parts, fmt.Sprintf("%d °C", r.Celsius))
	}
	if len(r.Throttled) > 0 {
		parts = append(parts, "throttled: "+strings.Join(r.Throttled, ", "))
	}
	return strings.Join(parts, ", ")
}

func gib(bytes int64) float64 { return float64(bytes) / (1 << 30) }

// SameBus reports whether two PCI bus ids are one place: CUDA and NVML write the
// domain with a different number of digits.
func SameBus(a, b string) bool {
	x, okX := parseBus(a)
	y, okY := parseBus(b)
	return okX && okY && x == y
}

// parseBus reads "domain:bus:device.function", in hexadecimal.
func parseBus(id string) (place [4]uint64, ok bool) {
	fields := strings.FieldsFunc(id, func(r rune) bool { return r == ':' || r == '.' })
	if len(fields) != len(place) {
		return place, false
	}
	for i, f := range fields {
		n, err := strconv.ParseUint(f, 16, 32)
		if err != nil {
			return place, false
		}
		place[i] = n
	}
	return place, true
}
