package backendtest

import (
	"math"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/go-gl/mathgl/mgl64"
	"github.com/stretchr/testify/require"
)

// rotary is a rotary embedding as the reference computes it: angles and products
// in float64, not from the table that the device reads. Its frequencies are the
// paper's; how scaling changes them is tested with package backend.
type rotary struct {
	theta     float64
	dims      int
	pairing   backend.Pairing
	magnitude float64
}

// pair is the two elements of a head that rotate together as pair i.
func (e rotary) pair(i int) (int, int) {
	if e.pairing == backend.Interleaved {
		return 2 * i, 2*i + 1
	}
	return i, i + e.dims/2
}

// turn rotates the leading dims of a head by pos positions and multiplies them by
// the magnitude. Elements beyond dims stay as they are.
func (e rotary) turn(head []float64, pos int) []float64 {
	out := append([]float64(nil), head...)
	for i := range e.dims / 2 {
		angle := float64(pos) * math.Pow(e.theta, -2*float64(i)/float64(e.dims))
		a, b := e.pair(i)
		v := mgl64.Rotate2D(angle).Mul2x1(mgl64.Vec2{head[a], head[b]}).Mul(e.magnitude)
		out[a], out[b] = v[0], v[1]
	}
	return out
}

// rope is the operand that makes a device compute the same, for positions below
// the given number.
func (r *rig[B]) rope(e rotary, headDim, positions int) backend.RotaryTable[B] {
	if e.dims > headDim {
		r.skip("the device's heads of %d dims are too small to rotate %d", headDim, e.dims)
	}
	table, err := backend.RoPE{Theta: e.theta, Dims: e.dims, Pairing: e.pairing}.Table(headDim, positions)
	require.NoError(r, err)
	return backend.RotaryTable[B]{Table: backend.Some(constant(r, "rope table", backend.F32, table).buf),
		Positions: positions, Dims: e.dims, Pairing: e.pairing, Magnitude: float32(e.magnitude)}
}

// image is where accept takes rotated elements over: a region of any device.
type image interface {
	part(data []byte, i, n int) []byte
	set(i int, data []byte)
	dtype() backend.DType
}

// accept compares the rotated dims of a head at element i of got with before,
// turned by pos, and takes them over into the image; the rest of the head is
// left to the comparison of bits.
func (e rotary) accept(what string, im image, i int, got []byte, before []float32, pos int, limit float64) error {
	rotated := im.part(got, i, e.dims)
	want := e.turn(widen(before), pos)[:e.dims]
	if err := compareRows(what, widen(decode(im.dtype(), rotated)), want, e.dims, limit); err != nil {
		return err
	}
	im.set(i, rotated)
	return nil
}
