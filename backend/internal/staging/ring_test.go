package staging

import (
	"bytes"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// queue is a device whose copies happen late: when the host waits for a marker, and
// only those before it.
type queue struct {
	device []byte
	work   []func()
	done   int         // work that has happened
	marks  [Chunks]int // length of work at the mark
	err    error       // what the next call returns
}

func (q *queue) fail() error {
	err := q.err
	q.err = nil
	return err
}

func (q *queue) Pin(size int) ([]byte, error) { return make([]byte, size), q.fail() }

func (q *queue) Mark(chunk int) error {
	q.marks[chunk] = len(q.work)
	return q.fail()
}

func (q *queue) Reach(chunk int) error {
	q.run(q.marks[chunk])
	return q.fail()
}

func (q *queue) run(until int) {
	for ; q.done < until; q.done++ {
		q.work[q.done]()
	}
}

func (q *queue) upload(r *Ring, off int, src []byte) error {
	return r.Upload(src, func(piece []byte, at int) error {
		q.work = append(q.work, func() { copy(q.device[off+at:], piece) })
		return nil
	})
}

func (q *queue) download(r *Ring, dst []byte, off int) error {
	return r.Download(dst, func(piece []byte, at int) error {
		q.work = append(q.work, func() { copy(piece, q.device[off+at:]) })
		return nil
	})
}

// Whatever the sizes and the order, the device holds what was uploaded and the
// host gets it, although every copy happens as late as it may and sources are
// overwritten at once.
func TestTransfers(t *testing.T) {
	const size = 2 * Chunks * ChunkSize
	sizes := rapid.OneOf(rapid.IntRange(0, 300), rapid.IntRange(0, size),
		rapid.SampledFrom([]int{ChunkSize - 1, ChunkSize, ChunkSize + 1, Chunks * ChunkSize, Chunks*ChunkSize + 1}))
	rapid.Check(t, func(rt *rapid.T) {
		q := &queue{device: make([]byte, size)}
		r := New(q)
		image := make([]byte, size)
		for step := range rapid.IntRange(1, 8).Draw(rt, "steps") {
			n := sizes.Draw(rt, "n")
			off := rapid.IntRange(0, size-n).Draw(rt, "off")
			if rapid.Bool().Draw(rt, "up") {
				src := bytes.Repeat([]byte{byte(step + 1)}, n)
				if n > 0 {
					src[n-1] = 0xee
				}
				copy(image[off:], src)
				require.NoError(rt, q.upload(&r, off, src))
				clear(src)
				continue
			}
			dst := make([]byte, n)
			require.NoError(rt, q.download(&r, dst, off))
			require.True(rt, bytes.Equal(image[off:off+n], dst))
		}
		q.run(len(q.work))
		require.True(rt, bytes.Equal(image, q.device))
	})
}

// Small uploads share a chunk: nothing is waited for before the ring is full.
func TestSmallUploadsShareAChunk(t *testing.T) {
	q := &queue{device: make([]byte, 64)}
	r := New(q)
	require.Nil(t, r.Memory())
	for range Chunks * ChunkSize / 64 {
		require.NoError(t, q.upload(&r, 0, make([]byte, 3)))
	}
	require.Zero(t, q.done)
	require.Len(t, r.Memory(), Chunks*ChunkSize)
	require.NoError(t, q.upload(&r, 0, make([]byte, 3)))
	require.Equal(t, ChunkSize/64, q.done, "the oldest chunk is free again")
}

// A call that fails is the transfer's error, and the ring works afterwards.
func TestErrors(t *testing.T) {
	q := &queue{device: make([]byte, 3*Chunks*ChunkSize)}
	r := New(q)
	boom := errors.New("boom")
	long := bytes.Repeat([]byte{5}, len(q.device))

	q.err = boom
	require.ErrorIs(t, q.upload(&r, 0, long), boom, "no memory")
	require.Nil(t, r.Memory())
	require.NoError(t, q.upload(&r, 0, long[:1]))
	q.err = boom
	require.ErrorIs(t, q.upload(&r, 0, long), boom, "marking")
	q.err = boom
	require.ErrorIs(t, q.download(&r, make([]byte, len(long)), 0), boom)
	require.ErrorIs(t, r.Upload(long, func([]byte, int) error { return boom }), boom)
	require.ErrorIs(t, r.Download(long, func([]byte, int) error { return boom }), boom)

	require.NoError(t, q.upload(&r, 0, long))
	got := make([]byte, len(long))
	require.NoError(t, q.download(&r, got, 0))
	require.True(t, bytes.Equal(long, got))
}

// idle is a queue that is always done.
type idle struct{ mem []byte }

func (q idle) Pin(int) ([]byte, error) { return q.mem, nil }
func (idle) Mark(int) error            { return nil }
func (idle) Reach(int) error           { return nil }

func TestTransfersAllocateNothing(t *testing.T) {
	r := New(idle{make([]byte, Chunks*ChunkSize)})
	data, sum := make([]byte, 2*Chunks*ChunkSize+5), 0
	require.Zero(t, testing.AllocsPerRun(5, func() {
		add := func(piece []byte, at int) error { sum += len(piece) + at; return nil }
		if r.Upload(data, add) != nil || r.Download(data, add) != nil {
			t.Fail()
		}
	}))
	require.Positive(t, sum)
}
