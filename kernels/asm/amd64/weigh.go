package main

import (
	"fmt"
	"math"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// weigher is the text of kernels.weigh, in two passes over up to four rows: first the tops, then
// the weights. What belongs to the rows as a whole is done for all of them at once, one in each
// lane. A row with a score that is not a number comes to light as its sum, and is seen to last.
type weigher struct {
	*converter
	exp exponential

	scores, stride, thrice reg.GPVirtual     // of the rows' scores, from a row to the next and to the third
	rows                   []reg.VecPhysical // what is gathered of each row
	tops                   []reg.VecPhysical // of each row
	x                      reg.VecPhysical   // scores
	by, none, sums         reg.VecPhysical   // the factor, −∞, the sums of what came before
	inside, first          reg.Register      // masks of the elements before the rows' end, and of rows with nothing before
	top                    operand.Mem       // of each row, −∞ made finite
}

const lowest = 1<<31 | infinity // the bits of −∞

func weigh(g *generator) {
	c := &converter{g, map[string]operand.Mem{}}
	w := weigher{converter: c, exp: exponential{converter: c, n: c.vec(10), y: c.vec(11), normal: c.named(3, 12)},
		x: c.vec(9), by: c.vec(8), none: c.vec(14), sums: c.vec(15), inside: c.named(2, 13), first: c.named(4, 13)}
	w.function("weigh", "func(scores *float32, stride, n int, by float32, top, shrink *float32, sum *float64, rows int)",
		"is kernels.weigh for 1 to 4 rows.")
	w.top = w.AllocLocal(16)
	w.scores, w.stride, w.thrice = w.GP64(), w.pointer("stride"), w.GP64()
	w.SHLQ(operand.U8(2), w.stride)
	w.LEAQ(operand.Mem{Base: w.stride, Index: w.stride, Scale: 2}, w.thrice)
	w.VBROADCASTSS(w.parameter("by"), w.by)
	w.VMOVUPS(w.bits(lowest), w.none)
	w.halves()
	count := w.pointer("rows")
	for rows := 1; rows < mostRows; rows++ {
		w.CMPQ(count, operand.U8(rows))
		w.JEQ(operand.LabelRef(fmt.Sprintf("rows%d", rows)))
	}
	for rows := mostRows; rows > 0; rows-- {
		w.variant(rows)
	}
	softcap(c)
}

// named is a mask register, or vector register i where masks are vectors.
func (g *generator) named(k, i int) reg.Register {
	if g.wide() {
		return []reg.Register{reg.K0, reg.K1, reg.K2, reg.K3, reg.K4}[k]
	}
	return g.vec(i)
}

// variant is the text for a number of rows.
func (w *weigher) variant(rows int) {
	w.Label(fmt.Sprintf("rows%d", rows))
	w.rows, w.tops = w.vecs(0, rows), w.vecs(mostRows, rows)
	for _, high := range w.rows {
		w.VMOVUPS(w.none, high)
	}
	w.each("high", func(m operand.Mem, r int, whole bool) {
		w.load(m, whole)
		w.VMULPS(w.by, w.x, w.x)
		w.outside(whole)
		w.VMAXPS(w.x, w.rows[r], w.rows[r])
	})
	w.raise(w.total(w.VMAXPS))
	for r := range w.rows {
		w.VBROADCASTSS(w.top.Offset(4*r), w.tops[r])
		w.zero(w.rows[r])
	}
	w.each("weights", func(m operand.Mem, r int, whole bool) {
		w.load(m, whole)
		w.VMULPS(w.by, w.x, w.x) // rounded, as for the tops: of the largest score nothing is to be left
		w.VSUBPS(w.tops[r], w.x, w.x)
		w.outside(whole)
		w.exp.of(w.x)
		if whole {
			w.VMOVUPS(w.x, m)
		} else {
			w.storeInside(w.x, w.inside, m)
		}
		w.VADDPS(w.x, w.rows[r], w.rows[r])
	})
	w.add(w.total(w.VADDPS))
	w.end()
}

// ofRows loads or stores what memory has of each row, float32 or doubles.
func (w *weigher) ofRows(from, to operand.Op) {
	words, v := 1, from
	if operand.IsMem(from) {
		v = to
	}
	if v.(reg.Register).Size() == 32 {
		words = 2
	}
	switch lanes := words * len(w.rows); {
	case len(w.rows) == mostRows:
		w.VMOVUPS(from, to)
	case w.wide():
		mask := w.GP32()
		w.MOVL(operand.U32(1<<lanes-1), mask)
		w.KMOVW(mask, w.first)
		if operand.IsMem(from) {
			w.VMOVUPS_Z(from, w.first, to)
		} else {
			w.VMOVUPS(from, w.first, to)
		}
	default:
		mask := reg.Register(w.vec(12).AsX())
		if words == 2 {
			mask = w.vec(12).AsY()
		}
		w.VMOVUPS(w.global(constant{fmt.Sprintf("first%d", lanes), func(i int) uint32 { return uint32(max(lanes-i, 0)/max(lanes-i, 1)) << 31 }}), mask)
		w.VMASKMOVPS(from, mask, to)
	}
}

// each goes through the rows' vectors, and last those that the rows end in.
func (w *weigher) each(what string, do func(m operand.Mem, r int, whole bool)) {
	label := func(part string) string { return fmt.Sprintf("%s%s%d", what, part, len(w.rows)) }
	left := w.pointer("n")
	w.Load(w.Param("scores"), w.scores)
	all := func(whole bool) {
		for r := range w.rows {
			do(nth(w.scores, w.stride, w.thrice, r, 0), r, whole)
		}
	}
	w.SUBQ(operand.U8(w.lanes), left)
	w.JLT(operand.LabelRef(label("Rest")))
	w.Label(label("Whole"))
	all(true)
	w.ADDQ(operand.U8(4*w.lanes), w.scores)
	w.SUBQ(operand.U8(w.lanes), left)
	w.JGE(operand.LabelRef(label("Whole")))
	w.Label(label("Rest"))
	w.ADDQ(operand.U8(w.lanes), left)
	w.JZ(operand.LabelRef(label("End")))
	w.lanesBefore(left, w.inside, w.exp.n)
	all(false)
	w.Label(label("End"))
}

// load sets x to scores.
func (w *weigher) load(m operand.Mem, whole bool) {
	if whole {
		w.VMOVUPS(m, w.x)
	} else {
		w.loadInside(m, w.inside, w.x)
	}
}

// outside sets x behind the rows' end to −∞.
func (w *weigher) outside(whole bool) {
	if !whole {
		w.setOutside(w.x, w.none, w.inside)
	}
}

// total is what was gathered of the rows, one in each lane.
func (w *weigher) total(op func(...operand.Op)) reg.VecPhysical {
	all := make(sums, w.lanes)
	for r, v := range w.rows {
		all[w.parts()*r] = v
	}
	return w.generator.reduce(all, w.x, op)
}

// raise raises the tops, which stay NaN where they are, and shrinks what came before.
func (w *weigher) raise(high reg.VecPhysical) {
	pointer, less := w.pointer("top"), w.x
	old, top := less.AsX(), high.AsX()
	w.ofRows(at(pointer, 0), old)
	w.VMAXPS(old, top, top)
	w.ofRows(top, at(pointer, 0))
	w.VMOVUPS(w.float(-math.MaxFloat32), w.exp.n)
	w.VMAXPS(top, w.exp.n.AsX(), top)
	w.VMOVUPS(top, w.top)
	w.VCMPPS(operand.U8(0), w.none, less, w.first)
	w.VSUBPS(high, less, less)
	w.exp.of(less)
	w.VMOVUPS(w.float(1), w.exp.n)
	w.setOutside(w.exp.n, less, w.first)
	pointer = w.pointer("shrink")
	w.ofRows(w.exp.n.AsX(), at(pointer, 0))
	w.VCVTPS2PD(w.exp.n.AsX(), w.exp.n.AsY())
	pointer = w.pointer("sum")
	w.ofRows(at(pointer, 0), w.sums.AsY())
	w.VMULPD(w.exp.n.AsY(), w.sums.AsY(), w.sums.AsY())
}

// add adds the weights to the sums. A row with a sum that is not a number has such a top and
// such weights too.
func (w *weigher) add(total reg.VecPhysical) {
	sum, wrong := w.pointer("sum"), w.GP32()
	more := w.exp.y.AsY()
	w.VCVTPS2PD(total.AsX(), more)
	w.VADDPD(more, w.sums.AsY(), more)
	w.ofRows(more, at(sum, 0))
	w.unordered(more, wrong)
	w.ANDL(operand.U8(1<<len(w.rows)-1), wrong)
	label := func(part string, r int) string { return fmt.Sprintf("%s%dOf%d", part, r, len(w.rows)) }
	w.JZ(operand.LabelRef(label("ordered", len(w.rows))))
	top := w.pointer("top")
	for r := range w.rows {
		w.TESTL(operand.U32(1<<r), wrong)
		w.JZ(operand.LabelRef(label("ordered", r)))
		w.MOVL(operand.U32(nan), at(top, 4*r))
		left := w.pointer("n")
		w.Load(w.Param("scores"), w.scores)
		w.LEAQ(nth(w.scores, w.stride, w.thrice, r, 0), w.scores)
		w.Label(label("wrong", r))
		w.MOVL(operand.U32(nan), operand.Mem{Base: w.scores, Index: left, Scale: 4, Disp: -4})
		w.DECQ(left)
		w.JNZ(operand.LabelRef(label("wrong", r)))
		w.Label(label("ordered", r))
	}
	w.Label(label("ordered", len(w.rows)))
}

const nan = 0x7fc00000 // bits of one

// unordered sets bits to which of four doubles are not numbers.
func (w *weigher) unordered(doubles reg.Register, bits reg.GPVirtual) {
	const not = operand.U8(3)
	if w.wide() {
		w.VCMPPD(not, doubles, doubles, w.first)
		w.KMOVB(w.first, bits)
	} else {
		w.VCMPPD(not, doubles, doubles, doubles)
		w.VMOVMSKPD(doubles, bits)
	}
}
