package backendtest

import (
	"errors"
	"slices"
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/cpu"
	"github.com/ferrumkv/ferrumkv/internal/testutil/race"
	"github.com/ferrumkv/ferrumkv/internal/testutil/testsize"
	"github.com/stretchr/testify/require"
)

// narrow is a device that lists one format, one pair of head dims, another of latent caches, and one block size.
type narrow struct{ device }

func (narrow) Caps() backend.Caps {
	return backend.Caps{Formats: []backend.Format{{Act: backend.BF16, K: backend.BF16, V: backend.BF16}},
		HeadDims: [][2]int{{128, 128}}, BlockSizes: []int{32}, ChecksIDs: true, Chunk: true, Views: true, TreeWords: 10,
		Latent: true, LatentDims: [][2]int{{576, 512}}}
}

// What a device does not list is skipped, and what the suite has to say about
// masks, borders, moves and errors is still said.
func TestNarrowDeviceIsChecked(t *testing.T) {
	testsize.Long(t)
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
	unlisted := len(Values.rows(listedAxes(caps).grid())) + len(dimSpecs()) + len(quantizedSpecs(caps)) + len(blockSizeSpecs(caps)) + len(roundedQueryChecks[*cpu.Buffer](caps)) + 1
	require.Equal(t, unlisted, skips["attend"], "the grid names its axes, the rest does without")
	require.Zero(t, skips["streams"]+skips["plan"])
}

// without is a device without latent caches, which says so.
type without struct{ device }

func (without) Caps() backend.Caps {
	return backend.Caps{Formats: []backend.Format{f32}, ChecksIDs: true}
}

func (without) Append(backend.Stream, appendP) error   { return errNoLatents }
func (without) Gather(backend.Stream, gatherP) error   { return errNoLatents }
func (without) CopyBlocks(backend.Stream, copyP) error { return errNoLatents }
func (without) MoveSlots(backend.Stream, moveP) error  { return errNoLatents }
func (without) Rotate(backend.Stream, rotateP) error   { return errNoLatents }
func (without) PlanAttend(backend.AttendShape) (p backend.AttendPlan, err error) {
	return p, errNoLatents
}

var errNoLatents = backend.ErrUnsupported{Op: "any", Why: "latent caches"}

// A device that lists no latent caches has to refuse them: this one does, and a CPU that pretends to be one
// is found out.
func TestLatentCachesAreRefused(t *testing.T) {
	be, err := cpu.Open(cpu.Options{Threads: 1})
	require.NoError(t, err)
	defer func() { require.NoError(t, be.Close()) }()
	checks := latentChecks[*cpu.Buffer](without{be}.Caps(), Options{})
	require.Len(t, checks, 6)
	pretending := newBroken(be)
	for _, c := range checks {
		require.NoError(t, bench[*cpu.Buffer]{be: without{be}}.attempt(c.run), c.name)
		require.Error(t, bench[*cpu.Buffer]{be: pretending}.attempt(c.run), c.name)
	}
}
