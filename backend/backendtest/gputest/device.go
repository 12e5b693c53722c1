package gputest

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/launch"
)

// Device is how the tests reach a backend whose buffers are B.
type Device[B launch.Buffer] struct {
	Kind string // what it is registered as: "cuda"
	// Open opens the i-th device; backend.ErrUnavailable where there is none.
	Open func(i int) (backend.Backend[B], error)
	// Within is a handle of the same memory, some bytes further in.
	Within func(h backend.Handle, bytes int) backend.Handle
	// NoStream and NoEvent are nil pointers of the backend's own types.
	NoStream backend.Stream
	NoEvent  backend.Event
	// Driver matches what List says that the device is driven by.
	Driver string
	// Graphs says that the device can capture.
	Graphs bool
	// Standin is what makes the device fail; nil where it is a real one.
	Standin *Standin
}

// name is that of the first device.
func (d *Device[B]) name() string { return d.Kind + ":0" }

// openNow opens the first device, or skips the test where there is none.
func (d *Device[B]) openNow(t testing.TB) backend.Backend[B] {
	be, err := d.Open(0)
	if errors.Is(err, backend.ErrUnavailable{}) {
		t.Skip(err)
	}
	require.NoError(t, err)
	return be
}

// open is openNow, closed at the test's end.
func (d *Device[B]) open(t testing.TB) backend.Backend[B] {
	be := d.openNow(t)
	t.Cleanup(func() { require.NoError(t, be.Close()) })
	return be
}

// Emulated reports whether a device is a stand-in's, and so nobody else uses it.
func Emulated(info backend.Info) bool { return strings.Contains(info.Device, "simt") }

func second[T any](_ T, err error) error { return err }

// newStream returns a stream that is closed at the test's end.
func newStream[B backend.Buffer](t testing.TB, be backend.Backend[B]) backend.Stream {
	s, err := be.NewStream()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// bufferOf returns a buffer with the bytes of data, freed at the test's end.
func bufferOf[T backend.Number, B backend.Buffer](t testing.TB, be backend.Backend[B], s backend.Stream, dt backend.DType, data []T) B {
	b, err := backend.AllocFrom(be, s, dt, data)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, be.Free(b)) })
	return b
}

// content is the bytes of b.
func content[B backend.Buffer](t testing.TB, be backend.Backend[B], s backend.Stream, b B) []byte {
	out := make([]byte, b.Bytes())
	require.NoError(t, be.Download(s, out, b, 0))
	return out
}
