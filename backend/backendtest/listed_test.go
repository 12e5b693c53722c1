package backendtest

import (
	"errors"
	"slices"
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/cpu"
	"github.com/ferrumkv/ferrumkv/internal/race"
	"github.com/stretchr/testify/require"
)

// narrow is a device that lists one format, one pair of head dims and one block size.
type narrow struct{ device }

func (narrow) Caps() backend.Caps {
	return backend.Caps{Formats: []backend.Format{{Act: backend.BF16, K: backend.BF16, V: backend.BF16}},
		HeadDims: [][2]int{{128, 128}}, BlockSizes: []int{32}, ChecksIDs: true}
}

// What a device does not list is skipped, and what the suite has to say about
// masks, borders, moves and errors is still said.
func TestNarrowDeviceIsChecked(t *testing.T) {
	if race.Enabled {
		t.Skip("arithmetic is slow under the race detector, and the conformance test of the CPU runs the same checks")
	}
	be, err := cpu.Open(cpu.Options{Threads: 2})
	require.NoError(t, err)
	defer func() { require.NoError(t, be.Close()) }()
	b := bench[*cpu.Buffer]{be: narrow{be}, open: func() device {
		other, err := cpu.Open(cpu.Options{Threads: 1})
		require.NoError(t, err)
		return narrow{other}
	}}
	skips := map[string]int{}
	for _, room := range rooms[*cpu.Buffer](b.be.Caps(), Options{Grid: Values}) {
		for _, c := range room.checks {
			var skip skipped
			err := b.attempt(c.run)
			if errors.As(err, &skip) {
				skips[room.name]++
				if slices.Contains([]string{"bad input", "bad ids", "lifetime"}, room.name) {
					require.Regexp(t, "quantized|convert|scales", c.name)
				}
				continue
			}
			require.NoError(t, err, "%s: %s", room.name, c.name)
		}
		if room.name == "convert" {
			require.Equal(t, len(room.checks), skips[room.name], "there is nothing to convert to")
			continue
		}
		require.Less(t, skips[room.name], len(room.checks), "nothing is left of %q", room.name)
	}
	caps := b.be.Caps()
	unlisted := len(Values.rows(attendGrid(listedFormats(caps)))) + len(dimSpecs()) + len(quantizedSpecs(caps)) + len(roundedQueryChecks[*cpu.Buffer](caps)) + 1
	require.Equal(t, unlisted, skips["attend"], "the grid names its axes, the rest does without")
	require.Zero(t, skips["streams"]+skips["plan"])
}
