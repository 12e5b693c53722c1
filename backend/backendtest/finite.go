package backendtest

import (
	"fmt"
	"math"
	"slices"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/stretchr/testify/require"
)

// notFinite are what quantized types do not take.
var notFinite = []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1))}

func finiteChecks[B backend.Buffer](caps backend.Caps) []check[B] {
	var out []check[B]
	for i, dt := range rowTypes {
		for j, v := range notFinite {
			f := storedAs(activations[(i+j)%len(activations)], dt)
			out = append(out,
				check[B]{fmt.Sprintf("keys of %v, %s", v, formatName(f)), func(r *rig[B]) { checkNotFinite(r, f, true, v) }},
				check[B]{fmt.Sprintf("values of %v, %s", v, formatName(f)), func(r *rig[B]) { checkNotFinite(r, f, false, v) }})
		}
		wide := storedAs(backend.BF16, dt)
		out = append(out, check[B]{"keys that overflow when they are turned, " + formatName(wide), func(r *rig[B]) { checkOverflowTurned(r, wide) }})
		for _, act := range activations {
			f := storedAs(act, dt)
			out = append(out, check[B]{"saturates " + formatName(f), func(r *rig[B]) { checkSaturate(r, f) }})
		}
	}
	return append(out, check[B]{"what is not finite is told to its stream", checkFiniteStreams[B]})
}

// checkFiniteStreams appends good rows on one stream and others on another.
func checkFiniteStreams[B backend.Buffer](r *rig[B]) {
	spec := r.finiteSpec(r.quantized(), nil)
	good, bad := newAppend(r, spec), newAppend(r, spec)
	bad.v.put(1, slices.Repeat(notFinite[:1], bad.v.width))
	r.push()
	require.NoError(r, r.s.Sync())
	other := r.stream()
	err := r.be.Append(other, bad.params)
	require.NoError(r, r.be.Append(r.s, good.params))
	require.NoError(r, r.s.Sync(), "the other stream's error")
	if err == nil {
		err = other.Sync()
	}
	require.ErrorIs(r, err, backend.ErrNonFinite{})
	require.NoError(r, other.Close())
}

// finiteSpec is a small call; where keys are rotated, queries are, too.
func (r *rig[B]) finiteSpec(f backend.Format, e *rotary) appendSpec {
	s := appendSpec{name: "not finite", qHeads: 4, kvHeads: 2, kDim: 64, vDim: 64, block: r.blockSize(8), blocks: 3, tokens: 9,
		format: f, rotary: e}
	s.kDim, s.vDim = r.dims(s.kDim, s.vDim)
	r.needs(f, s.kDim, s.vDim, s.block, true)
	return s
}

// checkNotFinite puts one value that cannot be quantized into the last group of a row. A
// device that reports it at once has written nothing, not even rotated queries.
// Another one reports it when the stream is synchronised, once, and its group is NaN.
func checkNotFinite[B backend.Buffer](r *rig[B], f backend.Format, inKeys bool, bad float32) {
	const token, head = 2, 1
	e := &rotary{theta: 10000, dims: 64, magnitude: 1}
	if inKeys {
		e = nil // it would spread
	}
	a := newAppend(r, r.finiteSpec(f, e))
	rows, p, dim := a.v, a.cache.v, a.vDim
	if inKeys {
		rows, p, dim = a.k, a.cache.k, a.kDim
	}
	at := token*rows.stride + head*dim + dim - 1
	finite := rows.part(rows.image, at, 1)
	was := append([]byte(nil), finite...)
	rows.set(at, encode(f.Act, []float32{bad}))
	skippedRow(a.k, bad)
	skippedRow(a.v, bad)
	r.push()
	if r.reportedOnce(r.be.Append(r.s, a.params)) {
		got := r.content(p)
		rows.set(at, was)
		a.accept(r)
		rows.set(at, encode(f.Act, []float32{bad}))
		slot := int(a.slots[token])
		require.NoError(r, undefinedGroup(p, got, slot, head, dim-1))
		p.take(got, slot, slot, head)
	}
	r.verify()

	rows.set(at, was) // the next call is judged alone
	r.push()
	require.NoError(r, r.be.Append(r.s, a.params))
	require.NoError(r, r.s.Sync())
}

// checkOverflowTurned appends a finite key that is not finite any more when it is to be
// quantized.
func checkOverflowTurned[B backend.Buffer](r *rig[B], f backend.Format) {
	s := r.finiteSpec(f, nil)
	s.hadamard = true
	a := newAppend(r, s)
	row := make([]float32, a.k.width)
	for i := range row {
		row[i] = 3e38
	}
	a.k.put(2, row)
	r.push()
	if !r.reportedOnce(r.be.Append(r.s, a.params)) {
		r.verify()
	}
}

// skippedRow makes row 3, which no slot takes, one of values that nobody looks at.
func skippedRow[B backend.Buffer](v *vectors[B], bad float32) {
	row := make([]float32, v.width)
	for i := range row {
		row[i] = bad
	}
	v.put(3, row)
}

// undefinedGroup checks that the elements of a row that share a scale with element bad
// are NaN and that the others are what the image says.
func undefinedGroup[B backend.Buffer](p *plane[B], got stored, slot, head, bad int) error {
	have, want := p.values(got, slot, head), p.values(p.now(), slot, head)
	group := groupOf(p.dt, p.dim)
	for i, v := range have {
		switch {
		case i/group == bad/group && v == v:
			return fmt.Errorf("element %d of %s is %v, want NaN: its group was not finite", i, p.dt, v)
		case i/group != bad/group && v != want[i]:
			return fmt.Errorf("element %d of %s is %v, want %v: another group was not finite", i, p.dt, v, want[i])
		}
	}
	return nil
}

// checkSaturate appends rows with values that are not finite, up to rows of nothing else.
func checkSaturate[B backend.Buffer](r *rig[B], f backend.Format) {
	s := r.finiteSpec(f, nil)
	s.qHeads = 0
	a := newAppend(r, s)
	a.params.Saturate = true
	for _, rows := range []*vectors[B]{a.k, a.v} {
		for i := range a.tokens {
			values := r.normal(rows.width)
			for range 1 + i {
				values[r.rng.IntN(rows.width)] = notFinite[r.rng.IntN(3)]
			}
			for j := range values {
				switch {
				case i == 5:
					values[j] = notFinite[0]
				case i == 6:
					values[j] = notFinite[1+j%2]
				case i == 7 && j > 0:
					values[j] = notFinite[j%3]
				}
			}
			rows.put(i, values)
		}
	}
	r.push()
	require.NoError(r, r.be.Append(r.s, a.params))
	require.NoError(r, r.s.Sync())
	a.accept(r)
	r.verify()
}

// reportedOnce is the error of a call that quantizes what is not finite, from the call
// itself or from the stream's end, and whether the call has written anything.
func (r *rig[B]) reportedOnce(err error) (written bool) {
	if written = err == nil; written {
		err = r.s.Sync()
	}
	require.ErrorIs(r, err, backend.ErrNonFinite{})
	require.NoError(r, r.s.Sync(), "reported twice")
	return written
}
