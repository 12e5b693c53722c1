package main

import (
	"math"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// weigher is the text of kernels.weigh, in two passes over the rows: first the tops, then the
// weights. What is done with one row waits for itself most of the time, but not for other rows,
// and is short enough for a processor that works out of order to be at several of them.
type weigher struct {
	*converter
	exp exponential

	scores, top, shrink, sum reg.GPVirtual // of a row
	n, stride                reg.GPVirtual
	x                        reg.VecPhysical // scores
	by, none, high, total    reg.VecPhysical // the factor, −∞, a row's top, its sum
	inside                   reg.Register    // mask of the elements before the row's end
}

const lowest = 1<<31 | infinity // the bits of −∞

func weigh(g *generator) {
	c := &converter{g, map[string]operand.Mem{}}
	w := weigher{converter: c, exp: exponential{converter: c, n: c.vec(1), y: c.vec(2), normal: c.mask(3)},
		x: c.vec(0), by: c.vec(4), none: c.vec(5), high: c.vec(6), total: c.vec(7), inside: c.mask(9)}
	w.function("weigh", "func(scores *float32, stride, n int, by float32, top, shrink *float32, sum *float64, rows int)", "is kernels.weigh for so many rows.")
	w.stride = w.pointer("stride")
	w.scores, w.n, w.top, w.shrink, w.sum = w.GP64(), w.pointer("n"), w.GP64(), w.GP64(), w.GP64()
	w.SHLQ(operand.U8(2), w.stride)
	w.VBROADCASTSS(w.parameter("by"), w.by)
	w.VMOVUPS(w.bits(lowest), w.none)
	w.rows("tops", w.raise)
	w.rows("sums", w.weights)
	w.end()
	softcap(c)
}

// rows writes a loop over the rows.
func (w *weigher) rows(label string, each func()) {
	w.Load(w.Param("scores"), w.scores)
	w.Load(w.Param("top"), w.top)
	w.Load(w.Param("shrink"), w.shrink)
	w.Load(w.Param("sum"), w.sum)
	rows := w.pointer("rows")
	w.Label(label)
	each()
	w.ADDQ(w.stride, w.scores)
	w.ADDQ(operand.U8(4), w.top)
	w.ADDQ(operand.U8(4), w.shrink)
	w.ADDQ(operand.U8(8), w.sum)
	w.DECQ(rows)
	w.JNZ(operand.LabelRef(label))
}

// raise raises a row's top to the largest of its scaled scores, or to NaN if one is, and
// shrinks what came before.
func (w *weigher) raise() {
	const unordered = operand.U8(3)
	nan, seen := w.exp.normal, w.mask(10)
	w.VBROADCASTSS(at(w.top, 0), w.high)
	w.VCMPPS(unordered, w.high, w.high, seen)
	w.each("top", func(m operand.Mem) {
		w.load(m)
		w.VCMPPS(unordered, w.x, w.x, nan)
		if w.wide() {
			w.KORW(nan, seen, seen)
		} else {
			w.VORPS(nan, seen, seen)
		}
		w.VMAXPS(w.x, w.high, w.high)
	})
	w.reduce(w.high, w.VMAXPS)
	if w.wide() {
		w.KORTESTW(seen, seen)
	} else {
		w.VPTEST(seen, seen)
	}
	w.JZ(operand.LabelRef("ordered"))
	w.VMOVUPS(w.float(math.NaN()), w.high)
	w.Label("ordered")

	high, old, less := w.GP32(), w.total.AsX(), w.total.AsX()
	w.MOVL(operand.U32(math.Float32bits(1)), at(w.shrink, 0))
	w.VMOVD(w.high.AsX(), high)
	w.CMPL(high, at(w.top, 0))
	w.JEQ(operand.LabelRef("same"))
	w.VMOVD(at(w.top, 0), old)
	w.MOVL(high, at(w.top, 0))
	w.CMPQ(at(w.sum, 0), operand.U8(0))
	w.JEQ(operand.LabelRef("same"))
	w.VSUBPS(w.high, w.total, w.total)
	w.exp.of(w.total)
	w.VMOVSS(less, at(w.shrink, 0))
	w.VCVTSS2SD(less, less, less)
	w.VMULSD(at(w.sum, 0), less, less)
	w.VMOVSD(less, at(w.sum, 0))
	w.Label("same")
}

// weights replaces a row's scores and adds the weights to its sum.
func (w *weigher) weights() {
	w.VBROADCASTSS(at(w.top, 0), w.high)
	w.zero(w.total)
	w.CMPL(at(w.top, 0), operand.U32(lowest))
	w.JEQ(operand.LabelRef("nothing"))
	w.each("weights", func(m operand.Mem) {
		w.load(m)
		w.VSUBPS(w.high, w.x, w.x)
		w.exp.of(w.x)
		w.storeInside(w.x, w.inside, m)
		w.VADDPS(w.x, w.total, w.total)
	})
	w.reduce(w.total, w.VADDPS)
	total := w.total.AsX()
	w.VCVTSS2SD(total, total, total)
	w.VADDSD(at(w.sum, 0), total, total)
	w.VMOVSD(total, at(w.sum, 0))
	w.JMP(operand.LabelRef("weighed"))
	w.Label("nothing")
	w.each("zeros", func(m operand.Mem) { w.storeInside(w.total, w.inside, m) })
	w.Label("weighed")
}

// each goes through a row's vectors.
func (w *weigher) each(label string, do func(m operand.Mem)) {
	w.ragged(label, w.n, w.inside, w.exp.n, func(offset reg.Register) {
		do(operand.Mem{Base: w.scores, Index: offset, Scale: 1})
	})
}

// load sets x to scaled scores, −∞ behind the row's end.
func (w *weigher) load(m operand.Mem) {
	w.loadInside(m, w.inside, w.x)
	w.VMULPS(w.by, w.x, w.x)
	w.setOutside(w.x, w.none, w.inside)
}
