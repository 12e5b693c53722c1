//go:build cgo && !nometal && (darwin || metalsimt)

package metal

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/launch"
	"github.com/ferrumkv/ferrumkv/backend/metal/mtl"
)

func second[T any](_ T, err error) error { return err }

// newStream returns a stream that is closed at the test's end.
func newStream(t testing.TB, be *Backend) *stream {
	s, err := be.NewStream()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s.(*stream)
}

// find is get for the kernel of a call.
func (m *modules) find(c *launch.Call) (*kernel, error) { return m.get(variantOfCall(c)) }

// newBuffer returns a buffer of n words, all v, freed at the test's end.
func newBuffer(t testing.TB, be *Backend, n int, v uint32) *Buffer {
	b, err := be.Alloc(backend.U32, n)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, be.Free(b)) })
	fill := words(t, be, b)
	for i := range fill {
		fill[i] = v
	}
	return b
}

// words is the memory of b as the host sees it.
func words(t testing.TB, be *Backend, b *Buffer) []uint32 {
	bytes, err := be.HostBytes(b)
	require.NoError(t, err)
	return unsafe.Slice((*uint32)(unsafe.Pointer(unsafe.SliceData(bytes))), len(bytes)/4)
}

// requireAll requires n words of one value.
func requireAll(t testing.TB, want uint32, have []uint32) {
	t.Helper()
	for i, v := range have {
		require.Equal(t, want, v, "word %d", i)
	}
}

// bytesOf and wordsOf are memory that no Backend made, as the host sees it.
func bytesOf(b mtl.Buffer) []byte {
	info := b.Describe()
	return unsafe.Slice((*byte)(info.Contents), info.Length)
}

func wordsOf(b mtl.Buffer) []uint32 {
	info := b.Describe()
	return unsafe.Slice((*uint32)(info.Contents), info.Length/4)
}
