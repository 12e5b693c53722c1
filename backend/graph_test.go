package backend_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/cpu"
)

// A device that cannot capture says so, in either form, and calls nothing.
func TestCaptureWithoutGraphs(t *testing.T) {
	be, typed, s := openErased(t)
	record := func() error {
		t.Error("called")
		return nil
	}
	_, err := backend.Capture(typed, s, record)
	require.Equal(t, backend.ErrUnsupported{Op: "capture", Why: "the device has no graphs; call the operations in each step"}, err)
	_, erased := backend.Capture(be, s, record)
	require.Equal(t, err, erased)
}

// capturer is a device that writes down what is captured.
type capturer struct {
	*cpu.Backend
	captured *[]backend.Stream
}

var errCaptured = errors.New("captured")

func (c capturer) Capture(s backend.Stream, record func() error) (backend.Graph, error) {
	*c.captured = append(*c.captured, s)
	return nil, record()
}

// Capture reaches the device, also through its erased form.
func TestCaptureReachesTheDevice(t *testing.T) {
	_, typed, s := openErased(t)
	var captured []backend.Stream
	c := capturer{typed, &captured}
	_, err := backend.Capture(c, s, func() error { return errCaptured })
	require.Equal(t, errCaptured, err)
	_, err = backend.Capture(backend.Erase(c), s, func() error { return errCaptured })
	require.Equal(t, errCaptured, err)
	require.Equal(t, []backend.Stream{s, s}, captured)
}

func TestErrCapture(t *testing.T) {
	err := backend.ErrCapture{Op: "upload", Do: "before it"}
	require.EqualError(t, err, "backend: upload: the stream is being captured into a graph: before it")
	require.ErrorIs(t, err, backend.ErrCapture{})
	require.NotErrorIs(t, err, backend.ErrCapture{Op: "sync"})
}
