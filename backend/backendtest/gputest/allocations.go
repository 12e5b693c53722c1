package gputest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/launch"
	"github.com/ferrumkv/ferrumkv/internal/testutil/race"
)

// What enqueues allocates nothing on the Go heap once a stream has its staging memory.
func testTransfersAllocateNothing[B launch.Buffer](t *testing.T, d *Device[B]) {
	if race.Enabled {
		t.Skip("the race detector allocates")
	}
	be := d.open(t)
	s := newStream(t, be)
	data := make([]byte, 3<<20)
	b := bufferOf(t, be, s, backend.Int8, data)
	packed := bufferOf(t, be, s, backend.Int4, data[:64])
	e, err := be.NewEvent()
	require.NoError(t, err)
	defer func() { require.NoError(t, e.Close()) }()
	for name, do := range map[string]func() error{
		"upload":      func() error { return be.Upload(s, b, 1, data[:1000]) },
		"long upload": func() error { return be.Upload(s, b, 0, data) },
		"download":    func() error { return be.Download(s, data, b, 0) },
		"fill":        func() error { return be.Fill(s, b, 5, 77, 3) },
		"copy":        func() error { return be.Copy(s, b, 0, b, 1000, 999) },
		"move":        func() error { return be.Copy(s, b, 0, b, 1, 1<<20) },
		"half bytes":  func() error { return be.Copy(s, packed, 0, packed, 16, 9) },
		"record":      func() error { return s.Record(e) },
		"wait":        func() error { return s.Wait(e) },
		"done":        func() error { return second(e.Done()) },
		"sync":        s.Sync,
	} {
		require.NoError(t, do(), name)
		require.Zero(t, testing.AllocsPerRun(10, func() {
			if do() != nil {
				t.Fail()
			}
		}), "allocations of %s", name)
	}
}

func testAllocations[B backend.Buffer](t *testing.T, be backend.Backend[B]) {
	for _, f := range []backend.Format{launch.Formats[0], {Act: backend.F16, K: backend.Int8, V: backend.Int4}} {
		c := newStep(t, be, f)
		for _, o := range append(c.operations(), operation{"plan", c.plan}, operation{"sync", c.s.Sync}) {
			require.NoError(t, o.do(), o.name)
			require.Zero(t, testing.AllocsPerRun(10, func() {
				if o.do() != nil {
					t.Fail()
				}
			}), "allocations of %s, keys of %s", o.name, f.K)
		}
		require.NoError(t, c.s.Sync())
	}
}

// No operation allocates on the Go heap, also not in its erased form.
func testOperationsAllocateNothing[B launch.Buffer](t *testing.T, d *Device[B]) {
	if race.Enabled {
		t.Skip("the race detector allocates")
	}
	be := d.open(t)
	t.Run("typed", func(t *testing.T) { testAllocations(t, be) })
	t.Run("erased", func(t *testing.T) { testAllocations(t, backend.Erase(be)) })
}
