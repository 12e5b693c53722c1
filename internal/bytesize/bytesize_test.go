package bytesize

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestString(t *testing.T) {
	for n, want := range map[int64]string{
		-1: "-1 B", 0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1<<20 - 1: "1.0 MiB", 1023 << 10: "1023.0 KiB", 1 << 20: "1.0 MiB", 123456789: "117.7 MiB", 3 << 29: "1.5 GiB", 1 << 40: "1.0 TiB",
		1 << 60: "1024.0 PiB", math.MaxInt64: "8192.0 PiB",
	} {
		require.Equal(t, want, String(n), "%d bytes", n)
	}
}
