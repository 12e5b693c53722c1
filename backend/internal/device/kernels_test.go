package device

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/internal/testutil/race"
)

// However many ask, each kernel is loaded once; one that failed is tried again.
func TestKernels(t *testing.T) {
	var k Kernels[int, string]
	var loads atomic.Int32
	load := func(n int) (*string, error) {
		if loads.Add(1) == 1 {
			return nil, errors.New("not now")
		}
		name := string(rune('a' + n))
		return &name, nil
	}
	_, err := k.Find(3, load)
	require.EqualError(t, err, "not now")
	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() {
			for n := range 5 {
				found, err := k.Find(n, load)
				if err != nil || *found != string(rune('a'+n)) {
					t.Error(n, err)
				}
			}
		})
	}
	wait.Wait()
	require.EqualValues(t, 6, loads.Load())
	if !race.Enabled {
		require.Zero(t, testing.AllocsPerRun(10, func() { _, _ = k.Find(3, load) }))
	}
	var dropped []string
	k.Drop(func(s *string) { dropped = append(dropped, *s) })
	require.ElementsMatch(t, []string{"a", "b", "c", "d", "e"}, dropped)
	k.Drop(func(*string) { t.Error("dropped twice") })
	_, err = k.Find(3, load)
	require.ErrorIs(t, err, backend.ErrClosed)
}
