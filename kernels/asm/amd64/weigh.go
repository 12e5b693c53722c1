package main

import (
	"math"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// weigher writes kernels.weigh, row after row: rows do not wait for each other, so a processor
// that works out of order is at several of them.
type weigher struct {
	*converter
	exp exponential

	scores, n           reg.GPVirtual   // of the row, and how many
	by, none, high, sum reg.VecPhysical // the factor, −∞, the largest score, the row's sum
	inside              reg.Register    // mask of the elements before the row's end
}

// lowest is the bits of −∞.
const lowest = 1<<31 | infinity

func weigh(g *generator) {
	c := &converter{g, map[string]operand.Mem{}}
	w := weigher{converter: c, by: c.vec(3), none: c.vec(4), high: c.vec(5), sum: c.vec(6), inside: c.mask(7),
		exp: exponential{converter: c, x: c.vec(0), n: c.vec(1), y: c.vec(2), normal: c.mask(9)}}
	w.write()
}

func (w *weigher) write() {
	w.function("weigh", "func(scores *float32, stride, n int, by float32, top, shrink *float32, sum *float64, rows int)",
		"is kernels.weigh for so many rows.")
	p := w.loads("stride", "rows", "top", "shrink", "sum")
	stride, rows, top, shrink, sum := p[0], p[1], p[2], p[3], p[4]
	w.scores, w.n = w.pointer("scores"), w.pointer("n")
	w.SHLQ(operand.U8(2), stride)
	w.VBROADCASTSS(w.parameter("by"), w.by)
	w.VMOVUPS(w.bits(lowest), w.none)

	w.Label("row")
	w.MOVL(operand.U32(math.Float32bits(1)), at(shrink, 0))
	w.raise(at(top, 0))
	high := w.GP32()
	w.VMOVD(w.high.AsX(), high)
	w.CMPL(high, operand.U32(lowest))
	w.JEQ(operand.LabelRef("nothing"))
	w.shrink(high, at(top, 0), at(shrink, 0), at(sum, 0))
	w.weights(at(sum, 0))

	w.Label("next")
	w.ADDQ(stride, w.scores)
	w.ADDQ(operand.U8(4), top)
	w.ADDQ(operand.U8(4), shrink)
	w.ADDQ(operand.U8(8), sum)
	w.DECQ(rows)
	w.JNZ(operand.LabelRef("row"))
	w.end()

	w.Label("nothing")
	w.zero(w.exp.x)
	w.each("zeros", w.store)
	w.JMP(operand.LabelRef("next"))
}

// raise sets high to the largest of a row's scaled scores and its top, or to NaN if one is.
func (w *weigher) raise(top operand.Mem) {
	const unordered = operand.U8(3)
	nan, seen := w.exp.normal, w.mask(6)
	look := func(x reg.Register) {
		w.VCMPPS(unordered, x, x, nan)
		if w.wide() {
			w.KORW(nan, seen, seen)
		} else {
			w.VORPS(nan, seen, seen)
		}
	}
	w.VBROADCASTSS(top, w.high)
	w.VCMPPS(unordered, w.high, w.high, seen)
	w.each("top", func(m operand.Mem) {
		w.load(m)
		look(w.exp.x)
		w.VMAXPS(w.exp.x, w.high, w.high)
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
	w.VBROADCASTSS(w.high.AsX(), w.high)
}

// shrink stores the new top, and what the sum shrinks by where it shrinks.
func (w *weigher) shrink(high reg.Register, top, shrink, sum operand.Mem) {
	w.CMPL(high, top)
	w.JEQ(operand.LabelRef("same"))
	w.VBROADCASTSS(top, w.exp.x)
	w.MOVL(high, top)
	w.CMPQ(sum, operand.U8(0))
	w.JEQ(operand.LabelRef("same"))
	w.VSUBPS(w.high, w.exp.x, w.exp.x)
	w.exp.write()
	less := w.exp.x.AsX()
	w.VMOVSS(less, shrink)
	w.VCVTSS2SD(less, less, less)
	w.VMULSD(sum, less, less)
	w.VMOVSD(less, sum)
	w.Label("same")
}

// weights replaces a row's scores and adds the weights to its sum.
func (w *weigher) weights(sum operand.Mem) {
	w.zero(w.sum)
	w.each("weights", func(m operand.Mem) {
		w.load(m)
		w.VSUBPS(w.high, w.exp.x, w.exp.x)
		w.exp.write()
		w.store(m)
		w.VADDPS(w.exp.x, w.sum, w.sum)
	})
	w.reduce(w.sum, w.VADDPS)
	total := w.sum.AsX()
	w.VCVTSS2SD(total, total, total)
	w.VADDSD(sum, total, total)
	w.VMOVSD(total, sum)
}

// each goes through a row's vectors.
func (w *weigher) each(label string, do func(m operand.Mem)) {
	w.ragged(label, w.n, w.inside, w.exp.n, func(offset reg.Register) {
		do(operand.Mem{Base: w.scores, Index: offset, Scale: 1})
	})
}

// load sets x to scaled scores, −∞ behind the row's end.
func (w *weigher) load(m operand.Mem) {
	w.loadInside(m, w.inside, w.exp.x)
	w.VMULPS(w.by, w.exp.x, w.exp.x)
	w.setOutside(w.exp.x, w.none, w.inside)
}

// store stores x, but for what is behind the row's end.
func (w *weigher) store(m operand.Mem) { w.storeInside(w.exp.x, w.inside, m) }
