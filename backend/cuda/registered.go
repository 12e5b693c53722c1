//go:build linux && cgo && !nocuda

package cuda

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/cuda/driver"
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

// Devices lists what the driver shows this process and the kernels can run on.
func (registered) Devices() ([]backend.Device, error) {
	lib, err := library()
	if err != nil {
		return nil, hidden(err, driverFiles)
	}
	fit, err := usable(lib)
	if err != nil {
		return nil, hidden(err, driverFiles)
	}
	devices := make([]backend.Device, len(fit))
	for i, d := range fit {
		devices[i] = describe(lib, d)
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

// driverFiles is where NVIDIA's kernel driver describes each device of the machine,
// whatever libraries a process finds and whichever devices it is shown.
const driverFiles = "/proc/driver/nvidia/gpus"

// hidden adds to the reason why there is no device those that the machine has all
// the same, in the order of their places.
func hidden(err error, dir string) error {
	var why backend.ErrUnavailable
	if !errors.As(err, &why) {
		return err
	}
	var names []string
	files, _ := filepath.Glob(filepath.Join(dir, "*", "information")) // a good pattern
	for _, file := range files {
		text, _ := os.ReadFile(file) // without, there is one name less
		if _, rest, ok := strings.Cut(string(text), "Model:"); ok {
			name, _, _ := strings.Cut(rest, "\n")
			names = append(names, strings.TrimSpace(name))
		}
	}
	if names == nil {
		return err
	}
	why.Why += fmt.Sprintf("; the machine has %s, which CUDA_VISIBLE_DEVICES or a container may hide", strings.Join(names, ", "))
	return why
}

// describe says what the driver knows of a device.
func describe(lib *driver.Library, d driver.Device) backend.Device {
	return backend.Device{Name: nameOf(d.Ordinal), Model: d.Name, Memory: d.Memory, Bus: d.Bus,
		Driver: fmt.Sprintf("CUDA %s (%s)", lib.VersionString(), lib.Path)}
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
