package nvml

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCondition(t *testing.T) {
	require.Empty(t, Reading{Bus: "0:0:0.0", MemoryFree: 1}.Condition())
	require.Equal(t, "41 °C", Reading{Celsius: 41}.Condition())
	require.Equal(t, "212 W, 18.0 of 80.0 GiB used", Reading{Watts: 211.6, MemoryTotal: 80 << 30, MemoryFree: 62 << 30}.Condition())
	require.Equal(t, "83 °C, throttled: power cap, heat, 2 uncorrected memory errors",
		Reading{Celsius: 83, Throttled: []string{"power cap", "heat"}, ECCErrors: 2}.Condition())
}

func TestPace(t *testing.T) {
	require.Empty(t, Reading{Bus: "0:0:0.0"}.Pace())
	require.Equal(t, "SM 1755 of 1980 MHz, P0, 61 °C", Reading{SMClock: 1755, SMClockMost: 1980, State: "P0", Celsius: 61}.Pace())
	require.Equal(t, "memory 2619 of 2620 MHz, 412 of 700 W, throttled: power cap",
		Reading{MemoryClock: 2619, MemoryClockMost: 2620, Watts: 412.3, WattsMost: 700, Throttled: []string{"power cap"}}.Pace())
}

// CUDA says 0000:3b:00.0 where NVML says 00000000:3B:00.0.
func TestSameBus(t *testing.T) {
	require.True(t, SameBus("0000:3b:00.0", "00000000:3B:00.0"))
	require.True(t, SameBus("00000001:00:1F.0", "1:0:1f.0"))
	for _, pair := range [][2]string{
		{"0000:3b:00.0", "0000:3c:00.0"}, {"0000:3b:00.0", "0001:3b:00.0"},
		{"", ""}, {"gpu", "gpu"}, {"0:0:0.0.0", "0:0:0.0.0"}, {"0:0:-1.0", "0:0:-1.0"},
	} {
		require.False(t, SameBus(pair[0], pair[1]), "%q", pair)
	}
}
