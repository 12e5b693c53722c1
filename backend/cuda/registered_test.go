//go:build linux && cgo && !nocuda

package cuda

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/cuda/driver"
	"github.com/ferrumkv/ferrumkv/backend/cuda/nvml"
)

// NVML counts the devices in an order of its own, and all of the machine's.
func TestConditionIsOfTheSamePlace(t *testing.T) {
	readings := []nvml.Reading{{Bus: "00000000:5E:00.0", Celsius: 70}, {Bus: "00000000:3B:00.0", Celsius: 41, Throttled: []string{"heat"}}}
	lib := &driver.Library{Path: "libcuda.so.1"}
	d := driver.Device{Ordinal: 3, Name: "a device", Bus: "0000:3b:00.0", Memory: 1 << 30}
	require.Equal(t, backend.Device{Name: "cuda:3", Model: "a device", Memory: 1 << 30, Driver: "CUDA 0.0 (libcuda.so.1)", Condition: "41 °C, throttled: heat"},
		describe(lib, d, readings))
	d.Bus = "0000:04:00.0"
	require.Empty(t, describe(lib, d, readings).Condition)
	require.Empty(t, describe(lib, d, nil).Condition)
}

// A device that is there and not shown to the process is not passed over in silence.
func TestHiddenDevicesAreNamed(t *testing.T) {
	none := backend.ErrUnavailable{Backend: "cuda", Why: "no device"}
	require.Equal(t, none, hidden(none, nil))
	require.ErrorContains(t, hidden(none, []nvml.Reading{{Name: "first"}, {Name: "second"}}),
		"no device; the machine has first, second, which CUDA_VISIBLE_DEVICES or a container may hide")
	require.ErrorIs(t, hidden(none, []nvml.Reading{{Name: "first"}}), backend.ErrUnavailable{})
}
