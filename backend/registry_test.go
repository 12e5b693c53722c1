package backend_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	_ "github.com/ferrumkv/ferrumkv/backend/all"
)

// absent is a kind of device that is not there, for a reason.
type absent struct{ err error }

func (a absent) Devices() ([]backend.Device, error)                      { return nil, a.err }
func (a absent) Open(string) (backend.Backend[backend.AnyBuffer], error) { return nil, a.err }

var errAbsent = backend.ErrUnavailable{Backend: "absent", Why: "libabsent.so.1 not found"}

func init() { backend.Register("absent", 50, absent{errAbsent}) }

func TestOpenByName(t *testing.T) {
	for name, units := range map[string]int{"cpu": 0, "cpu:threads=3": 3} {
		be, err := backend.Open(name)
		require.NoError(t, err)
		if units > 0 {
			require.Equal(t, units, be.Info().ComputeUnits)
		}
		require.Equal(t, "cpu", be.Info().Name)
		require.NoError(t, be.Close())
	}
	for _, name := range []string{"", "nothing", "cpu:1", "cpu:threads=0", "cpu:threads=x", "cpu:threads=1000000", "absent", "absent:7"} {
		_, err := backend.Open(name)
		require.ErrorIs(t, err, backend.ErrUnavailable{}, name)
	}
	_, err := backend.Open("nothing:0")
	require.ErrorContains(t, err, "nothing:0")
	require.ErrorContains(t, err, "registered are absent, ", "what there is, best first")
	for _, kind := range []string{"cpu", "cuda", "metal"} {
		require.ErrorContains(t, err, kind)
	}
	require.NotContains(t, err.Error(), "import ", "all of them are linked")
}

// Devices come best first, a missing kind with its reason, and Default takes the
// best one that works.
func TestListAndDefault(t *testing.T) {
	list := backend.List()
	index := func(name string) int {
		return slices.IndexFunc(list, func(e backend.Entry) bool { return e.Name == name })
	}
	require.Zero(t, index("absent"))
	require.Equal(t, errAbsent, list[0].Err)
	cpu := list[index("cpu")]
	require.NoError(t, cpu.Err)
	require.NotEmpty(t, cpu.Model)
	for _, kind := range []string{"cuda", "metal"} { // a program can ask for it, so it is listed
		i := slices.IndexFunc(list, func(e backend.Entry) bool { return strings.HasPrefix(e.Name, kind) })
		require.Positive(t, i, kind)
		if list[i].Err != nil {
			_, err := backend.Open(kind)
			require.Equal(t, list[i].Err, err, "Open and List give the same reason")
		}
	}
	be, err := backend.Default()
	require.NoError(t, err)
	require.NotEqual(t, "absent", be.Info().Name)
	require.NoError(t, be.Close())
}

func TestRegisterPanics(t *testing.T) {
	require.Panics(t, func() { backend.Register("", 0, absent{}) })
	require.Panics(t, func() { backend.Register("a:b", 0, absent{}) })
	require.Panics(t, func() { backend.Register("other", 0, nil) })
	require.Panics(t, func() { backend.Register("absent", 0, absent{}) })
}

func TestErrorsMatchByKind(t *testing.T) {
	err := error(backend.ErrArgument{Op: "append", What: "slots: 3 elements, need 4"})
	require.EqualError(t, err, "backend: append: slots: 3 elements, need 4")
	require.ErrorIs(t, err, backend.ErrArgument{})
	require.ErrorIs(t, err, backend.ErrArgument{Op: "append", What: "slots: 3 elements, need 4"})
	require.NotErrorIs(t, err, backend.ErrArgument{Op: "attend"})
	require.NotErrorIs(t, err, backend.ErrUnsupported{})
	var detail backend.ErrArgument
	require.True(t, errors.As(err, &detail))
	require.EqualError(t, backend.ErrUnsupported{Op: "attend", Why: "x"}, "backend: attend is not supported: x")
}
