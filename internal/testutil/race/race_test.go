package race

import (
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"
)

// Enabled is what the command that built the program asked for.
func TestEnabled(t *testing.T) {
	info, ok := debug.ReadBuildInfo()
	require.True(t, ok)
	watched := false
	for _, s := range info.Settings {
		if s.Key == "-race" || s.Key == "-asan" {
			watched = watched || s.Value == "true"
		}
	}
	require.Equal(t, watched, Enabled)
}
