package cpu

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/internal/hostmemory"
)

func init() { backend.Register("cpu", 0, driver{}) }

// driver opens "cpu" and "cpu:threads=N".
type driver struct{}

func (driver) Devices() ([]backend.Device, error) {
	return []backend.Device{{Name: "cpu", Model: modelName(), Memory: hostmemory.Physical()}}, nil
}

func (driver) Open(device string) (backend.Backend[backend.AnyBuffer], error) {
	var o Options
	if device != "" {
		value, ok := strings.CutPrefix(device, "threads=")
		n, err := strconv.Atoi(value)
		if !ok || err != nil || n < 1 || n > maxThreads {
			return nil, backend.ErrUnavailable{Backend: "cpu:" + device,
				Why: fmt.Sprintf("need cpu, or cpu:threads=N with N from 1 to %d", maxThreads)}
		}
		o.Threads = n
	}
	be, err := Open(o)
	if err != nil {
		return nil, err
	}
	return backend.Erase(be), nil
}
