package store

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/backendtest"
	"github.com/ferrumkv/ferrumkv/backend/cpu"
)

type buffer = *cpu.Buffer

func open(t *testing.T) backend.Backend[buffer] {
	be, err := cpu.Open(cpu.Options{Threads: 1})
	require.NoError(t, err)
	return be
}

// uploads is a device that counts what is uploaded, and the buffers that are made for it.
type uploads struct {
	backend.Backend[buffer]
	calls, bytes, made int
}

func (u *uploads) Upload(s backend.Stream, dst buffer, off int, src []byte) error {
	u.calls, u.bytes = u.calls+1, u.bytes+len(src)
	return u.Backend.Upload(s, dst, off, src)
}

func (u *uploads) Alloc(dt backend.DType, n int) (buffer, error) {
	u.made++
	return u.Backend.Alloc(dt, n)
}

func (u *uploads) SubBuffer(b buffer, offset int64, dt backend.DType, n int) (buffer, error) {
	u.made++
	return u.Backend.SubBuffer(b, offset, dt, n)
}

// newArena is an arena of three vectors.
func newArena() (*Arena[buffer], *Vector[buffer, int64], [2]*Vector[buffer, uint32]) {
	wide, narrow := &Vector[buffer, int64]{}, [2]*Vector[buffer, uint32]{{}, {}}
	return &Arena[buffer]{pieces: []piece[buffer]{{Member: wide}, {Member: narrow[0]}, {Member: narrow[1]}}}, wide, narrow
}

// refill gives a vector elements, as a step does: in its place, as far as there is room.
func refill[T backend.Number](rng *rand.Rand, v *Vector[buffer, T], n int) {
	v.Host = v.Host[:0]
	for range n {
		v.Host = append(v.Host, T(rng.Uint32()))
	}
}

// Whatever sizes follow on each other, and whatever fails, vectors have their elements on the device,
// one upload of hardly more bytes brings them, and what is made for them is given back.
func TestArena(t *testing.T) {
	dev := backendtest.NewFaulty(open(t))
	be := &uploads{Backend: dev}
	s, err := be.NewStream()
	require.NoError(t, err)
	rng := rand.New(rand.NewPCG(1, 1))
	a, wide, narrow := newArena()
	holds := func() {
		require.Zero(t, wide.Buf.Buf.Len()%8)
		same(t, be, s, wide)
		same(t, be, s, narrow[0])
		same(t, be, s, narrow[1])
		require.Equal(t, 4, be.Info().Buffers)
	}
	failed := 0
	for i := range 300 {
		if i%10 == 0 { // else a little more or less
			refill(rng, wide, rng.IntN(1<<rng.IntN(13)))
			refill(rng, narrow[0], rng.IntN(1<<rng.IntN(14)))
		}
		refill(rng, narrow[1], rng.IntN(1<<rng.IntN(16)))
		if i%3 == 0 {
			dev.SetFault(backendtest.Nth(1+rng.IntN(4), errArena, backendtest.OpAlloc, backendtest.OpSubBuffer, backendtest.OpUpload))
			err := a.Upload(be, s)
			if dev.SetFault(nil); err != nil {
				require.ErrorIs(t, err, errArena)
				failed++
			}
		}
		be.calls, be.bytes = 0, 0
		require.NoError(t, a.Upload(be, s))
		require.Equal(t, 1, be.calls)
		require.LessOrEqual(t, be.bytes, a.Bytes()*11/10+arenaSlack)
		holds()
	}
	require.Greater(t, failed, 20)

	refill(rng, narrow[0], 1<<17)
	require.NoError(t, a.Upload(be, s))
	a.Pinned, be.made = true, 0
	for _, n := range []int{1, 1 << 17, 1000, 0} {
		refill(rng, narrow[0], n)
		require.NoError(t, a.Upload(be, s))
		holds()
	}
	require.Zero(t, be.made, "what is pinned stays where it is")
	a.Pinned = false
	require.NoError(t, a.Upload(be, s))
	require.NotZero(t, be.made)
	holds()
	a.Free(be)
	require.Zero(t, be.Info().Buffers)
	require.NoError(t, errors.Join(s.Close(), be.Close()))
}

var errArena = errors.New("as the test wants it")

// same compares a vector with what the device has of it.
func same[T backend.Number](t *testing.T, be backend.Backend[buffer], s backend.Stream, v *Vector[buffer, T]) {
	got := make([]T, len(v.Host))
	require.NoError(t, backend.Download(be, s, got, v.Buf.Buf, 0))
	require.Equal(t, v.Host, got[:len(v.Host):len(v.Host)])
}
