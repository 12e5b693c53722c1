package cpu

import (
	"math"

	"github.com/ferrumkv/ferrumkv/backend/quant"
)

func decodeF32(dst []float32, src stored) { copy(dst, of[float32](src.data)) }

func decodeF16(dst []float32, src stored) {
	halves := of[uint16](src.data)
	dst = dst[:len(halves)]
	for i, h := range halves {
		dst[i] = quant.FromF16(h)
	}
}

func decodeBF16(dst []float32, src stored) {
	halves := of[uint16](src.data)
	dst = dst[:len(halves)]
	for i, h := range halves {
		dst[i] = quant.FromBF16(h)
	}
}

func encodeF32(dst stored, src []float32, _ bool) bool {
	copy(of[float32](dst.data), src)
	return true
}

func encodeF16(dst stored, src []float32, _ bool) bool {
	halves := of[uint16](dst.data)[:len(src)]
	for i, f := range src {
		halves[i] = quant.F16(f)
	}
	return true
}

func encodeBF16(dst stored, src []float32, _ bool) bool {
	halves := of[uint16](dst.data)[:len(src)]
	for i, f := range src {
		halves[i] = quant.BF16(f)
	}
	return true
}

// scoreRun is kernels.score for one run of keys, scoreCodes kernels.scoreInt8, and mixRun kernels.mix
// for one of values and rows that are multiplied already.
type (
	scoreRun   func(dst []float32, stride int, q []float32, keys *stored, scratch []float32)
	scoreCodes func(dst []float32, stride int, q stored, keys *stored, scratch *integers)
	mixRun     func(acc, p []float32, stride, rows int, values *stored, scratch []float32)
)

// each is kernels.score, run by run.
func (one scoreRun) each() scoring {
	return func(dst []float32, stride int, q []float32, keys []stored, scratch []float32) {
		for i := range keys {
			one(dst, stride, q, &keys[i], scratch)
			dst = dst[keys[i].n:]
		}
	}
}

// each is kernels.scoreInt8, run by run.
func (one scoreCodes) each() scoringInt8 {
	return func(dst []float32, stride int, q stored, keys []stored, scratch *integers) {
		for i := range keys {
			one(dst, stride, q, &keys[i], scratch)
			dst = dst[keys[i].n:]
		}
	}
}

// each is kernels.mix, run by run, on rows that scale multiplies.
func (one mixRun) each(scale func(x []float32, by float32)) mixing {
	return func(acc, shrink, p []float32, stride int, values []stored, scratch []float32) {
		dim := values[0].dim
		for r, by := range shrink {
			if by != 1 {
				scale(acc[r*dim:][:dim], by)
			}
		}
		for i := range values {
			one(acc, p, stride, len(shrink), &values[i], scratch)
			p = p[min(values[i].n, len(p)):]
		}
	}
}

func scoreF32(dst []float32, stride int, q []float32, keys *stored, _ []float32) {
	scoreRows(dst, stride, q, of[float32](keys.data), keys.dim)
}

func scoreDecoded(dst []float32, stride int, q []float32, keys *stored, scratch []float32) {
	scratch = scratch[:keys.n*keys.dim]
	decodeGo[keys.dt](scratch, *keys)
	scoreRows(dst, stride, q, scratch, keys.dim)
}

// scoreRows takes two query rows and four keys at a time: eight sums stay in
// registers and six loads feed eight products.
func scoreRows(dst []float32, stride int, q, keys []float32, dim int) {
	for ; len(q) >= 2*dim; q, dst = q[2*dim:], dst[min(2*stride, len(dst)):] {
		q0, q1 := q[:dim], q[dim:][:dim]
		k, j := keys, 0
		for ; len(k) >= 4*dim; k, j = k[4*dim:], j+4 {
			k0, k1, k2, k3 := k[:dim], k[dim:][:dim], k[2*dim:][:dim], k[3*dim:][:dim]
			var a0, a1, a2, a3, b0, b1, b2, b3 float32
			for i, x := range q0 {
				y := q1[i]
				a0, b0 = a0+x*k0[i], b0+y*k0[i]
				a1, b1 = a1+x*k1[i], b1+y*k1[i]
				a2, b2 = a2+x*k2[i], b2+y*k2[i]
				a3, b3 = a3+x*k3[i], b3+y*k3[i]
			}
			a, b := dst[j:][:4], dst[stride+j:][:4]
			a[0], a[1], a[2], a[3] = a0, a1, a2, a3
			b[0], b[1], b[2], b[3] = b0, b1, b2, b3
		}
		for ; len(k) > 0; k, j = k[dim:], j+1 {
			dst[j], dst[stride+j] = dot(q0, k[:dim]), dot(q1, k[:dim])
		}
	}
	if len(q) > 0 {
		scoreRow(dst, q[:dim], keys)
	}
}

// scoreRow is scoreRows for the last row of an odd number.
func scoreRow(dst, q, keys []float32) {
	dim := len(q)
	j := 0
	for ; len(keys) >= 4*dim; keys, j = keys[4*dim:], j+4 {
		k0, k1, k2, k3 := keys[:dim], keys[dim:][:dim], keys[2*dim:][:dim], keys[3*dim:][:dim]
		var a0, a1, a2, a3 float32
		for i, x := range q {
			a0 += x * k0[i]
			a1 += x * k1[i]
			a2 += x * k2[i]
			a3 += x * k3[i]
		}
		a := dst[j:][:4]
		a[0], a[1], a[2], a[3] = a0, a1, a2, a3
	}
	for ; len(keys) > 0; keys, j = keys[dim:], j+1 {
		dst[j] = dot(q, keys[:dim])
	}
}

// dot adds in the order of scoreRows, so that a key's score does not depend on the
// keys beside it.
func dot(x, y []float32) float32 {
	y = y[:len(x)]
	var sum float32
	for i, v := range x {
		sum += v * y[i]
	}
	return sum
}

func mixF32(acc, p []float32, stride, rows int, values *stored, _ []float32) {
	mixRows(acc, p, stride, rows, of[float32](values.data), values.dim, values.pitch())
}

func mixDecoded(acc, p []float32, stride, rows int, values *stored, scratch []float32) {
	scratch = scratch[:values.n*values.dim]
	values.decode(scratch, decodeGo[values.dt])
	mixRows(acc, p, stride, rows, scratch, values.dim, values.dim)
}

// mixRows mixes values of dim elements that are pitch elements apart.
func mixRows(acc, p []float32, stride, rows int, values []float32, dim, pitch int) {
	n := len(values) / pitch
	for r := range rows {
		mixRow(acc[r*dim:][:dim], p[:n], values, pitch)
		p = p[min(stride, len(p)):]
	}
}

// mixRow takes four values at a time, to load and store acc less often.
func mixRow(acc, p, values []float32, pitch int) {
	dim := len(acc)
	for ; len(p) >= 4; p, values = p[4:], values[4*pitch:] {
		p0, p1, p2, p3 := p[0], p[1], p[2], p[3]
		v0, v1, v2, v3 := values[:dim], values[pitch:][:dim], values[2*pitch:][:dim], values[3*pitch:][:dim]
		if p0 == 0 || p1 == 0 || p2 == 0 || p3 == 0 {
			axpy(acc, p0, v0)
			axpy(acc, p1, v1)
			axpy(acc, p2, v2)
			axpy(acc, p3, v3)
			continue
		}
		for i, a := range acc {
			a += p0 * v0[i]
			a += p1 * v1[i]
			a += p2 * v2[i]
			a += p3 * v3[i]
			acc[i] = a
		}
	}
	for j, x := range p {
		axpy(acc, x, values[j*pitch:][:dim])
	}
}

// axpy adds x*v to acc.
func axpy(acc []float32, x float32, v []float32) {
	if x == 0 {
		return
	}
	v = v[:len(acc)]
	for i := range acc {
		acc[i] += x * v[i]
	}
}

func weighGo(scores []float32, stride, n int, by float32, top, shrink []float32, sum []float64) {
	for r, old := range top {
		row, high := scores[r*stride:][:n], old
		for j, s := range row {
			row[j] = s * by
			high = max(high, row[j]) // NaN if either is, so that bad input shows
		}
		shrink[r] = 1
		if high == negInf {
			clear(row)
			continue
		}
		if sum[r] != 0 && high != old {
			less := math.Exp(float64(old) - float64(high))
			sum[r] *= less
			shrink[r] = float32(less)
		}
		top[r] = high
		for j, s := range row {
			row[j] = float32(math.Exp(float64(s - high)))
			sum[r] += float64(row[j])
		}
	}
}

func softcapGo(row []float32, by, limit float32) {
	for j, s := range row {
		row[j] = float32(float64(limit) * math.Tanh(float64(s*by)/float64(limit)))
	}
}

// exp is e to the power of x − y, 0 where x is −∞.
func exp(x, y float32) float32 {
	if x == negInf {
		return 0
	}
	return float32(math.Exp(float64(x) - float64(y)))
}
