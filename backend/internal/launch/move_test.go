package launch

import (
	"bytes"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ferrumkv/ferrumkv/backend"
)

// device is memory on the host that copies what a mover is asked to.
type device struct {
	t       rapid.TB
	memory  map[uintptr][]byte
	scratch int // pieces of it that are not given back
	fail    int // the step that fails; 0: none
}

var errStep = errors.New("this step fails")

func (d *device) step() error {
	if d.fail--; d.fail == 0 {
		return errStep
	}
	return nil
}

func (d *device) at(p Place, n int) []byte { return d.memory[p.Memory][p.At:][:n] }

func (d *device) CopyBytes(dst, src Place, size int) error {
	if err := d.step(); err != nil {
		return err
	}
	require.Positive(d.t, size)
	apart := max(dst.At, src.At) - min(dst.At, src.At)
	require.True(d.t, dst.Memory != src.Memory || apart >= uint64(size), "overlaps")
	copy(d.at(dst, size), d.at(src, size))
	return nil
}

func (d *device) CopyBits(dst, src Place, mask uint32) error {
	if err := d.step(); err != nil {
		return err
	}
	to, from := d.at(dst, 1), d.at(src, 1)
	to[0] = to[0]&^byte(mask) | from[0]&byte(mask)
	return nil
}

const scratchMemory = 99

func (d *device) Scratch(size int) (Place, error) {
	if err := d.step(); err != nil {
		return Place{}, err
	}
	require.LessOrEqual(d.t, size, ScratchSize)
	d.scratch++
	d.memory[scratchMemory] = make([]byte, size)
	return Place{Memory: scratchMemory}, nil
}

func (d *device) DropScratch(p Place) error {
	require.Equal(d.t, Place{Memory: scratchMemory}, p)
	d.scratch--
	return d.step()
}

// A move of any place and size, within a buffer or between two, leaves what copy would
// leave, and neighbours of half a byte as they were. A step that fails is its error, and
// no scratch memory is left.
func TestMove(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		dt := rapid.SampledFrom([]backend.DType{backend.Int8, backend.Int4, backend.F32}).Draw(rt, "type")
		size := rapid.SampledFrom([]int{64, 2*ScratchSize + 100}).Draw(rt, "bytes")
		mem := bytes.Repeat([]byte("0123456789a"), size/11+1)[:size]
		d := &device{t: rt, memory: map[uintptr][]byte{1: mem, 2: bytes.Clone(mem)}}
		n := size * 8 / dt.Bits()
		a, b := &buffer{dt, n, Place{Memory: 1}}, &buffer{dt, n, Place{Memory: 2}}
		src := rapid.SampledFrom([]*buffer{a, b}).Draw(rt, "from")
		count := rapid.IntRange(0, n).Draw(rt, "n")
		step := 1 // offsets of half-byte elements are even
		if dt.Bits() < 8 {
			step = 2
		}
		from := rapid.IntRange(0, (n-count)/step).Draw(rt, "at") * step
		to := rapid.IntRange(0, (n-count)/step).Draw(rt, "to") * step

		want := bytes.Clone(mem)
		move(want, to, d.memory[src.at.Memory], from, count, dt.Bits())
		require.NoError(rt, Move(d, a, to, src, from, count))
		require.True(rt, bytes.Equal(want, mem))
		require.Zero(rt, d.scratch)

		d.fail = rapid.IntRange(1, 4).Draw(rt, "failing step")
		err := Move(d, a, to, src, from, count)
		require.Equal(rt, d.fail <= 0, errors.Is(err, errStep))
		require.Zero(rt, d.scratch)
	})
	d := &device{t: t}
	for _, c := range []struct{ to, from, n int }{{-1, 0, 1}, {0, 5, 4}, {1, 0, 2}} {
		b := &buffer{backend.Int4, 8, Place{Memory: 1}}
		require.ErrorIs(t, Move(d, b, c.to, b, c.from, c.n), backend.ErrArgument{})
	}
	require.ErrorIs(t, Move(d, &buffer{backend.F32, 8, Place{}}, 0, &buffer{backend.I32, 8, Place{}}, 0, 1), backend.ErrArgument{})
}

// move copies n elements of some bits, element by element by way of a copy.
func move(dst []byte, to int, src []byte, from, n, bits int) {
	if bits >= 8 {
		copy(dst[to*bits/8:], bytes.Clone(src[from*bits/8:][:n*bits/8]))
		return
	}
	src = bytes.Clone(src)
	for i := range n {
		half := src[(from+i)/2] >> (4 * ((from + i) % 2)) & 15
		shift := 4 * ((to + i) % 2)
		dst[(to+i)/2] = dst[(to+i)/2]&^(15<<shift) | half<<shift
	}
}
