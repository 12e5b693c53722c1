//go:build linux && cgo

package library

import (
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"
	"github.com/stretchr/testify/require"

	state "github.com/ferrumkv/ferrumkv/internal/nvml"
)

// server is a machine with the devices given; nil: one that cannot be opened.
func server(init nvml.Return, devices ...*mock.Device) *mock.Interface {
	return &mock.Interface{
		InitFunc:                   func() nvml.Return { return init },
		ShutdownFunc:               func() nvml.Return { return nvml.SUCCESS },
		DeviceGetCountFunc:         func() (int, nvml.Return) { return len(devices), nvml.SUCCESS },
		SystemGetDriverVersionFunc: func() (string, nvml.Return) { return "550.54.15", nvml.SUCCESS },
		DeviceGetHandleByIndexFunc: func(i int) (nvml.Device, nvml.Return) {
			if devices[i] == nil {
				return nil, nvml.ERROR_GPU_IS_LOST
			}
			return devices[i], nvml.SUCCESS
		},
	}
}

// device reports everything when ret is SUCCESS, and only its place otherwise.
func device(bus string, ret nvml.Return) *mock.Device {
	var pci nvml.PciInfo
	for i, c := range []byte(bus) {
		pci.BusId[i] = int8(c)
	}
	return &mock.Device{
		GetPciInfoFunc:    func() (nvml.PciInfo, nvml.Return) { return pci, nvml.SUCCESS },
		GetNameFunc:       func() (string, nvml.Return) { return "a device", ret },
		GetMemoryInfoFunc: func() (nvml.Memory, nvml.Return) { return nvml.Memory{Total: 80 << 30, Free: 70 << 30}, ret },
		GetTemperatureFunc: func(s nvml.TemperatureSensors) (uint32, nvml.Return) {
			if s != nvml.TEMPERATURE_GPU {
				return 0, nvml.ERROR_INVALID_ARGUMENT
			}
			return 41, ret
		},
		GetPowerUsageFunc:         func() (uint32, nvml.Return) { return 350500, ret },
		GetEnforcedPowerLimitFunc: func() (uint32, nvml.Return) { return 700000, ret },
		GetPerformanceStateFunc:   func() (nvml.Pstates, nvml.Return) { return nvml.PSTATE_0, ret },
		GetClockInfoFunc:          func(c nvml.ClockType) (uint32, nvml.Return) { return 1000 + uint32(c), ret },
		GetMaxClockInfoFunc:       func(c nvml.ClockType) (uint32, nvml.Return) { return 2000 + uint32(c), ret },
		GetTotalEccErrorsFunc: func(e nvml.MemoryErrorType, c nvml.EccCounterType) (uint64, nvml.Return) {
			if e != nvml.MEMORY_ERROR_TYPE_UNCORRECTED || c != nvml.VOLATILE_ECC {
				return 99, ret
			}
			return 2, ret
		},
		GetCurrentClocksThrottleReasonsFunc: func() (uint64, nvml.Return) {
			return nvml.ClocksThrottleReasonGpuIdle | nvml.ClocksThrottleReasonSwPowerCap | nvml.ClocksThrottleReasonSwThermalSlowdown, ret
		},
	}
}

func TestDevices(t *testing.T) {
	library := server(nvml.SUCCESS, device("00000000:3B:00.0", nvml.SUCCESS), nil, device("00000000:5E:00.0", nvml.ERROR_NOT_SUPPORTED))
	for range 2 {
		readings, err := devicesOf(library)
		require.NoError(t, err)
		require.Equal(t, []state.Reading{
			{Bus: "00000000:3B:00.0", Name: "a device", MemoryTotal: 80 << 30, MemoryFree: 70 << 30, Celsius: 41,
				Watts: 350.5, ECCErrors: 2, Throttled: []string{"power cap", "heat"}, WattsMost: 700, Driver: "550.54.15", State: "P0",
				SMClock: 1001, SMClockMost: 2001, MemoryClock: 1002, MemoryClockMost: 2002},
			{Bus: "00000000:5E:00.0", Driver: "550.54.15"},
		}, readings, "a lost device is left out, one that reports nothing is there")
	}
	require.Len(t, library.InitCalls(), 2)
	require.Len(t, library.ShutdownCalls(), 2, "what was opened is closed")
}

func TestEveryReasonIsHeard(t *testing.T) {
	for _, reason := range reasons {
		d := device("00000000:3B:00.0", nvml.SUCCESS)
		d.GetCurrentClocksThrottleReasonsFunc = func() (uint64, nvml.Return) { return reason.bit, nvml.SUCCESS }
		library := server(nvml.SUCCESS, d)
		readings, err := devicesOf(library)
		require.NoError(t, err)
		require.Equal(t, []string{reason.text}, readings[0].Throttled)
	}
}

// Without the management library there are no readings and no error; a library
// that fails is an error.
func TestWithoutLibrary(t *testing.T) {
	library := server(nvml.ERROR_LIBRARY_NOT_FOUND)
	readings, err := devicesOf(library)
	require.NoError(t, err)
	require.Nil(t, readings)
	require.Empty(t, library.ShutdownCalls())

	library = server(nvml.ERROR_DRIVER_NOT_LOADED)
	_, err = devicesOf(library)
	require.Error(t, err)

	library = server(nvml.SUCCESS)
	library.DeviceGetCountFunc = func() (int, nvml.Return) { return 0, nvml.ERROR_UNKNOWN }
	_, err = devicesOf(library)
	require.Error(t, err)
	require.Len(t, library.ShutdownCalls(), 1)
}

// The real library, if this machine has it, and its absence otherwise.
func TestSystemLibrary(t *testing.T) {
	readings, err := Devices()
	if err != nil {
		t.Skipf("the management library does not start: %v", err)
	}
	for _, r := range readings {
		require.True(t, state.SameBus(r.Bus, r.Bus), "%q is no bus id", r.Bus)
		require.Positive(t, r.MemoryTotal)
	}
}
