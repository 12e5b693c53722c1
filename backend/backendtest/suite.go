package backendtest

import (
	"errors"
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/internal/testutil/race"
	"github.com/ferrumkv/ferrumkv/internal/testutil/testsize"
	"github.com/stretchr/testify/require"
)

// Options adjust the suite to a device.
type Options struct {
	// Grid is how many cases of the attention grid are tested. FERRUM_TEST_GRID=full in the environment
	// raises it: Values to Pairs, Pairs to Triples.
	Grid Grid
	// MaxWork skips, and names, attention cases of more multiply-adds; 0: no limit. The largest
	// case of the suite has 1.1e9, that of the grid Values 1e7.
	MaxWork int
	// TypedOnly skips the erased form, which is the same code for every device: a device that is
	// tested in several configurations needs it once.
	TypedOnly bool
	// FlushesSubnormals says that the device treats subnormal numbers as 0, so that rows of such
	// numbers may be quantized to 0.
	FlushesSubnormals bool

	every int // of the cases that differ in sizes and formats one in so many is tested, the first among them; 0: each
}

// Run tests a device against the contract of package backend, and then its erased form without the
// grid and, unless FERRUM_TEST_GRID=full, with a part of the cases of Append, Attend and ConvertBlocks. It calls open
// several times; each call opens the device again, and the suite closes it.
func Run[B backend.Buffer](t *testing.T, open func(t testing.TB) backend.Backend[B]) {
	RunWith(t, open, Options{})
}

// The erased form calls the same kernels: one in erasedEvery cases of what has hundreds of them, by sizes and
// formats, meets every kind of operand. 11 is prime, so that axes of other lengths that
// alternate are all met.
const erasedEvery = 11

// raceWork is MaxWork under the race detector, which makes arithmetic ten times
// slower and finds the same races in small cases.
const raceWork = 1 << 20

// shortEvery: with go test -short, one in this many cases that differ only in sizes and formats is tested.
const shortEvery = 5

// RunWith is Run with options. Under the race detector the grid is at most Values, and large cases
// are skipped. With go test -short the grid is at most Values, and one in five cases that differ in sizes and formats alone is tested.
func RunWith[B backend.Buffer](t *testing.T, open func(t testing.TB) backend.Backend[B], o Options) {
	o.Grid = o.Grid.full()
	if (race.Enabled || testing.Short()) && o.Grid != NoGrid {
		o.Grid = Values
	}
	if race.Enabled && (o.MaxWork == 0 || o.MaxWork > raceWork) {
		o.MaxWork = raceWork
	}
	if testing.Short() {
		o.every = max(o.every, shortEvery)
	}
	runForm(t, open, o)
	var zero B
	if _, erased := any(zero).(backend.AnyBuffer); erased || o.TypedOnly {
		return
	}
	t.Run("erased", func(t *testing.T) {
		o.Grid = NoGrid.full()
		o.every = erasedEvery
		if testsize.Full() {
			o.every = 1
		}
		runForm(t, func(t testing.TB) backend.Backend[backend.AnyBuffer] { return backend.Erase(open(t)) }, o)
	})
}

// check is one property of a device. It fails through the rig, which is a
// testify TestingT, or by returning from run with a region that holds what it
// must not.
type check[B backend.Buffer] struct {
	name string
	run  func(r *rig[B])
}

type room[B backend.Buffer] struct {
	name   string
	checks []check[B]
	sized  bool // they are the same with other sizes and formats
}

// rooms lists every check of the suite by the part of the contract it belongs to.
func rooms[B backend.Buffer](caps backend.Caps, o Options) []room[B] {
	return []room[B]{
		{"memory", memoryChecks[B](), false},
		{"block sets", blockSetChecks[B](), false},
		{"lifetime", lifetimeChecks[B](), false},
		{"sub-buffers", subBufferChecks[B](caps, o), false},
		{"streams", streamChecks[B](), false},
		{"append", appendChecks[B](caps), true},
		{"ends", endChecks[B](caps), true},
		{"rotate", rotateChecks[B](), false},
		{"gather", gatherChecks[B](), false},
		{"move", moveChecks[B](), false},
		{"mass", massChecks[B](), false},
		{"convert", convertChecks[B](caps), true},
		{"plan", planChecks[B](), false},
		{"attend", attendChecks[B](caps, o), true},
		{"merge", mergeChecks[B](), false},
		{"latent", latentChecks[B](caps, o), true},
		{"bad input", badInputChecks[B](), false},
		{"bad ids", badIDChecks[B](), false},
		{"allocations", allocationChecks[B](), false},
	}
}

func runForm[B backend.Buffer](t *testing.T, open func(t testing.TB) backend.Backend[B], o Options) {
	runChecks(t, open, o, func(string, string) bool { return true })
}

// runChecks runs those checks of the suite that are chosen, by their room and name.
func runChecks[B backend.Buffer](t *testing.T, open func(t testing.TB) backend.Backend[B], o Options, chosen func(room, check string) bool) {
	be := open(t)
	b := bench[B]{be: be, open: func() backend.Backend[B] { return open(t) }, flushes: o.FlushesSubnormals}
	defer func() {
		require.Zero(t, be.Info().Buffers, "buffers left at the end")
		require.NoError(t, be.Close())
	}()
	for _, room := range rooms[B](be.Caps(), o) {
		t.Run(room.name, func(t *testing.T) {
			for i, c := range room.checks {
				if !chosen(room.name, c.name) || o.every > 1 && room.sized && i%o.every != 0 {
					continue
				}
				t.Run(c.name, func(t *testing.T) {
					var skip skipped
					switch err := b.attempt(c.run); {
					case errors.As(err, &skip):
						t.Skip(skip.why)
					case err != nil:
						t.Error(err)
					}
				})
			}
		})
	}
}
