//go:build linux && cgo && !nocuda

package cuda

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/cuda/driver"
	"github.com/ferrumkv/ferrumkv/backend/cuda/nvml"
	"github.com/ferrumkv/ferrumkv/backend/internal/device"
)

// driverVar names a library to be opened in place of the system's.
const driverVar = "FERRUM_CUDA_DRIVER"

// rank puts CUDA devices before the CPU.
const rank = 10

func init() { backend.Register("cuda", rank, registered{}) }

// library is the driver library, opened when it is first needed, once.
var library = sync.OnceValues(func() (*driver.Library, error) {
	path := "libcuda.so.1"
	if name := os.Getenv(driverVar); name != "" {
		path = name
	}
	lib, err := driver.Open(path)
	if err != nil {
		return nil, openError("cuda", err)
	}
	return lib, nil
})

// registered opens "cuda" and "cuda:N".
type registered struct{}

// Devices lists what the driver shows this process and the kernels can run on, with
// the state that NVML reports of it.
func (registered) Devices() ([]backend.Device, error) {
	readings, _ := nvml.Open().Devices() // a device is usable without its state
	lib, err := library()
	if err != nil {
		return nil, hidden(err, readings)
	}
	fit, err := usable(lib)
	if err != nil {
		return nil, hidden(err, readings)
	}
	devices := make([]backend.Device, len(fit))
	for i, d := range fit {
		devices[i] = describe(lib, d, readings)
	}
	return devices, nil
}

// usable is the devices that the kernels can run on, in the driver's order, or why
// there is none.
func usable(lib *driver.Library) (fit []driver.Device, err error) {
	err = backend.ErrUnavailable{Backend: "cuda", Why: "the driver shows this process no device"}
	for i := range lib.Len() {
		d, failed := lib.Device(i)
		why := ""
		if failed == nil {
			why = unfit(lib, d)
		}
		switch {
		case failed != nil:
			err = openError(nameOf(i), failed)
		case why != "":
			err = backend.ErrUnavailable{Backend: nameOf(i), Why: why}
		default:
			fit = append(fit, d)
		}
	}
	if len(fit) > 0 {
		return fit, nil
	}
	return nil, err
}

// hidden adds to the reason why there is no device those that the machine has all
// the same.
func hidden(err error, readings []nvml.Reading) error {
	var why backend.ErrUnavailable
	if len(readings) == 0 || !errors.As(err, &why) {
		return err
	}
	names := make([]string, len(readings))
	for i, r := range readings {
		names[i] = r.Name
	}
	why.Why += fmt.Sprintf("; the machine has %s, which CUDA_VISIBLE_DEVICES or a container may hide", strings.Join(names, ", "))
	return why
}

// describe merges what the driver and NVML, which counts devices in another order,
// know of a device.
func describe(lib *driver.Library, d driver.Device, readings []nvml.Reading) backend.Device {
	out := backend.Device{Name: nameOf(d.Ordinal), Model: d.Name, Memory: d.Memory,
		Driver: fmt.Sprintf("CUDA %s (%s)", lib.VersionString(), lib.Path)}
	for _, r := range readings {
		if nvml.SameBus(r.Bus, d.Bus) {
			out.Condition = r.Condition()
		}
	}
	return out
}

func nameOf(i int) string { return fmt.Sprintf("cuda:%d", i) }

func (registered) Open(number string) (backend.Backend[backend.AnyBuffer], error) {
	return device.Named[*Buffer]("cuda", number, first, Open)
}

// first is the first device that the kernels can run on.
func first() (int, error) {
	lib, err := library()
	if err != nil {
		return 0, err
	}
	fit, err := usable(lib)
	if err != nil {
		return 0, err
	}
	return fit[0].Ordinal, nil
}
