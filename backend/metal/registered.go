//go:build cgo && !nometal && (darwin || metalsimt)

package metal

import (
	"fmt"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/device"
	"github.com/ferrumkv/ferrumkv/backend/metal/mtl"
)

// rank puts Metal devices before the CPU.
const rank = 10

func init() { backend.Register("metal", rank, registered{}) }

// registered opens "metal" and "metal:N".
type registered struct{}

// Devices lists what the system has and the kernels can run on.
func (registered) Devices() ([]backend.Device, error) {
	var devices []backend.Device
	err := each(func(i int, d mtl.Info) {
		devices = append(devices, backend.Device{Name: nameOf(i), Model: d.Name, Memory: d.WorkingSet, Driver: "macOS " + d.OS})
	})
	return devices, err
}

// each calls use for every device that the kernels can run on, in the system's order; the
// error says why there is none.
func each(use func(i int, d mtl.Info)) error {
	gpus, err := mtl.Devices()
	if err != nil {
		return err
	}
	used := false
	for i, gpu := range gpus {
		if why := unfit(gpu.Info); why != "" {
			err = backend.ErrUnavailable{Backend: nameOf(i), Why: why}
		} else {
			use(i, gpu.Info)
			used = true
		}
		gpu.Release()
	}
	if used {
		return nil
	}
	return err
}

func nameOf(i int) string { return fmt.Sprintf("metal:%d", i) }

func (registered) Open(number string) (backend.Backend[backend.AnyBuffer], error) {
	return device.Named[*Buffer]("metal", number, first, Open)
}

// first is the first device that the kernels can run on.
func first() (int, error) {
	found := -1
	err := each(func(i int, _ mtl.Info) {
		if found < 0 {
			found = i
		}
	})
	return found, err
}
