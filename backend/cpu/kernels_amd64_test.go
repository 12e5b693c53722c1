//go:build !noasm

package cpu

import (
	"os"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// The processor is what the system says that it is, and the distances are those of its family.
func TestDistancesAreOfTheProcessor(t *testing.T) {
	const intel, amd = 0x756e6547, 0x68747541 // Genu, Auth
	require.Equal(t, distances{64, 64}, distancesOf(amd, 26))
	for _, other := range [][2]uint32{{amd, 25}, {amd, 27}, {intel, 26}, {intel, 6}, {0, 0}} {
		require.Equal(t, usual, distancesOf(other[0], other[1]), other)
	}
	for _, k := range native() {
		require.Equal(t, distancesOf(identity()), k.ahead, k.name)
		require.Equal(t, k.ahead, k.withExact.ahead, k.name)
	}
	info, err := os.ReadFile("/proc/cpuinfo")
	field := regexp.MustCompile(`(?m)^cpu family\s*: (\d+)$`).FindSubmatch(info)
	if err != nil || field == nil {
		t.Skip("the system does not say which processor it has")
	}
	family, err := strconv.Atoi(string(field[1]))
	require.NoError(t, err)
	vendor, got := identity()
	require.EqualValues(t, family, got)
	require.Equal(t, regexp.MustCompile(`(?m)^vendor_id\s*: Genu`).Match(info), vendor == intel)
	require.Equal(t, regexp.MustCompile(`(?m)^vendor_id\s*: Auth`).Match(info), vendor == amd)
}
