package backend

import (
	"fmt"
	"sort"
	"strings"
	"sync"
)

// Driver opens the devices of one kind. A device package registers its driver
// when it is imported, as database drivers do; import
// github.com/ferrumkv/ferrumkv/backend/all for every one the platform can have.
type Driver interface {
	// Devices lists what Open accepts, best first. When there is no device the error says why
	// (ErrUnavailable).
	Devices() ([]Device, error)
	// Open opens a device by the part of its name after the colon; "" is the best one.
	Open(device string) (Backend[AnyBuffer], error)
}

// Device is one device that a driver found.
type Device struct {
	Name   string // "cpu", "cuda:0"
	Model  string // the vendor's name
	Memory int64  // bytes; 0 when unknown
	// Driver names the vendor's driver, for instance "CUDA 12.4 (libcuda.so.1)"; empty
	// when there is none.
	Driver string
	// Bus is the device's PCI bus id, "0000:3b:00.0"; empty when it has none. Programs
	// may number devices in different orders; the bus id is the same in all.
	Bus string
}

// Entry is one entry of List: a device, or a kind of device that is not available, and why.
type Entry struct {
	Device
	Err error
}

type driver struct {
	name string
	rank int
	Driver
}

var registry struct {
	sync.RWMutex
	drivers []driver // by rank, then name
}

const (
	linkAll  = "import github.com/ferrumkv/ferrumkv/backend/all for every one that the platform can have"
	noDriver = "no driver is linked into this program; " + linkAll
)

// Register makes a kind of device known under name. Default prefers drivers of higher rank; the CPU
// has rank 0. Registering a name twice, or a name with a colon, panics: it is an error in the
// program's source.
func Register(name string, rank int, d Driver) {
	registry.Lock()
	defer registry.Unlock()
	if name == "" || strings.Contains(name, ":") || d == nil {
		panic("backend: Register: bad name or nil driver: " + name)
	}
	for _, have := range registry.drivers {
		if have.name == name {
			panic("backend: Register: driver registered twice: " + name)
		}
	}
	registry.drivers = append(registry.drivers, driver{name, rank, d})
	sort.SliceStable(registry.drivers, func(i, j int) bool {
		a, b := registry.drivers[i], registry.drivers[j]
		return a.rank > b.rank || a.rank == b.rank && a.name < b.name
	})
}

func drivers() []driver {
	registry.RLock()
	defer registry.RUnlock()
	return append([]driver(nil), registry.drivers...)
}

// Open opens a device by name: "cpu", "cuda:0", or "cuda" for the best CUDA device.
func Open(name string) (Backend[AnyBuffer], error) {
	kind, device, _ := strings.Cut(name, ":")
	var known []string
	for _, d := range drivers() {
		if d.name == kind {
			return d.Driver.Open(device)
		}
		known = append(known, d.name)
	}
	if known == nil {
		return nil, ErrUnavailable{Backend: name, Why: noDriver}
	}
	why := fmt.Sprintf("no backend is registered as %q; registered are %s", kind, strings.Join(known, ", "))
	if kind == "cpu" || kind == "cuda" || kind == "metal" {
		why += "; " + linkAll
	}
	return nil, ErrUnavailable{Backend: name, Why: why}
}

// List returns every device, best first, and every kind of device that is not available, with the
// reason.
func List() []Entry {
	var out []Entry
	for _, d := range drivers() {
		devices, err := d.Devices()
		for _, dev := range devices {
			out = append(out, Entry{Device: dev})
		}
		if len(devices) == 0 {
			out = append(out, Entry{Device: Device{Name: d.name}, Err: err})
		}
	}
	return out
}

// Default opens the best device that works.
func Default() (Backend[AnyBuffer], error) {
	var why []string
	for _, d := range drivers() {
		be, err := d.Driver.Open("")
		if err == nil {
			return be, nil
		}
		why = append(why, err.Error())
	}
	if why == nil {
		why = []string{noDriver}
	}
	return nil, ErrUnavailable{Backend: "default", Why: strings.Join(why, "; ")}
}
