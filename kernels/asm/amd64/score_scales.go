package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// pairs writes the function that unpacks scales (see quant.Word): each once, or each twice, for
// groups of twice the size that others have.
func pairs(g *generator, twice bool) {
	name, times := "pairs", "once"
	if twice {
		name, times = "doublePairs", "twice"
	}
	g.Function(name + g.name)
	g.Pragma("noescape")
	g.Attributes(attr.NOSPLIT)
	g.Doc(fmt.Sprintf("%s%s sets dst to the step and the value of code 0 of n words, a multiple of %d, %s; zero points count so much of a step.", name, g.name, g.lanes/2, times))
	g.SignatureExpr("func(dst *float32, words *uint32, n int, part float32)")
	dst, words, n := g.pointer("dst"), g.pointer("words"), g.pointer("n")
	part, step, zero := g.vec(0), g.vec(1), g.vec(2)
	g.VBROADCASTSS(g.parameter("part"), part)
	if g.wide() {
		odd := g.GP32()
		g.MOVL(operand.U32(0xaaaa), odd)
		g.KMOVW(odd, reg.K1)
		if twice {
			g.hold([]constant{{"lowPairs", pairsFrom(0)}, {"highPairs", pairsFrom(4)}}, 3)
		}
	}
	g.Label("words")
	g.VPMOVZXDQ(at(words, 0), step)
	g.VMOVSLDUP(step, step)
	g.unpack(step, zero)
	g.VMULPS(part, zero, zero)
	g.VMULPS(step, zero, zero)
	if g.wide() {
		g.VBLENDMPS(zero, step, reg.K1, step)
	} else {
		g.VBLENDPS(operand.U8(0xaa), zero, step, step)
	}
	bytes := 4 * g.lanes
	switch {
	case !twice:
		g.VMOVUPS(step, at(dst, 0))
	case g.wide():
		for i, index := range g.held {
			g.VPERMPS(step, index, zero)
			g.VMOVUPS(zero, at(dst, i*bytes))
		}
	default:
		for i, order := range []operand.U8{0b01_01_00_00, 0b11_11_10_10} {
			g.VPERMPD(order, step, zero)
			g.VMOVUPS(zero, at(dst, i*bytes))
		}
	}
	if twice {
		bytes *= 2
	}
	g.ADDQ(operand.U8(2*g.lanes), words)
	g.ADDQ(operand.U8(bytes), dst)
	g.SUBQ(operand.U8(g.lanes/2), n)
	g.JNE(operand.LabelRef("words"))
	g.VZEROUPPER()
	g.RET()
}

// groupBytes writes the functions that unpack scales of which four are a word: powers of two, and E4M3.
func groupBytes(g *generator) {
	for _, of := range []struct {
		name, worth string
		unpack      func(x, spare reg.Register)
	}{{"exponents", "2^(e-127)", g.power}, {"minifactors", "the E4M3 e", g.small}} {
		g.groupBytes(of.name, of.worth, of.unpack)
	}
}

func (g *generator) groupBytes(name, worth string, unpack func(x, spare reg.Register)) {
	g.Function(name + g.name)
	g.Pragma("noescape")
	g.Attributes(attr.NOSPLIT)
	g.Doc(name + g.name + " sets dst to the products of " + worth + " with step and with zero, for each of the first groups bytes e of rows of words; behind the last ones it writes up to six elements more.")
	g.SignatureExpr("func(dst *float32, scales *uint32, rows, words, groups int, step, zero float32)")
	dst, scales, rows, groups := g.pointer("dst"), g.pointer("scales"), g.pointer("rows"), g.pointer("groups")
	to, left := g.GP64(), g.GP64()
	by, x, spare := ymm[0], ymm[1], ymm[2]
	g.VMOVSS(g.parameter("step"), by.AsX())
	g.VMOVSS(g.parameter("zero"), x.AsX())
	g.VUNPCKLPS(x.AsX(), by.AsX(), by.AsX())
	g.VBROADCASTSD(by.AsX(), by)
	g.Label("row")
	g.MOVQ(dst, to)
	g.Load(g.Param("words"), left)
	g.Label("word")
	g.VPMOVZXBQ(at(scales, 0), x)
	unpack(x, spare)
	g.VMOVSLDUP(x, x)
	g.VMULPS(by, x, x)
	g.VMOVUPS(x, at(to, 0))
	g.ADDQ(operand.U8(4), scales)
	g.ADDQ(operand.U8(32), to)
	g.DECQ(left)
	g.JNE(operand.LabelRef("word"))
	g.LEAQ(operand.Mem{Base: dst, Index: groups, Scale: 8}, dst)
	g.DECQ(rows)
	g.JNE(operand.LabelRef("row"))
	g.VZEROUPPER()
	g.RET()
}

// power turns words from 0 to 255 into what quant.ScaleMX makes of them: the outermost ones get the
// highest bit of a fraction, too.
func (g *generator) power(x, spare reg.Register) {
	g.VPADDD(x, x, spare)
	g.VPSUBD(g.global(constant{"middle", every(255)}), spare, spare)
	g.VPABSD(spare, spare)
	g.VPADDD(g.global(constant{"one", every(1)}), spare, spare)
	g.VPSRLD(operand.U8(8), spare, spare) // 1 where it was 255 away
	g.VPSLLD(operand.U8(22), spare, spare)
	g.VPSLLD(operand.U8(23), x, x)
	g.VPADDD(spare, x, x)
}

// small turns words from 0 to 255 into what they are worth as E4M3: a float32 with such an exponent is
// 2^120 times too small, and NaN is what has all bits.
func (g *generator) small(x, spare reg.Register) {
	g.VPSLLD(operand.U8(25), x, spare)
	g.VPSRLD(operand.U8(5), spare, spare)
	g.VPSRLD(operand.U8(7), x, x)
	g.VPSLLD(operand.U8(31), x, x)
	g.VPADDD(spare, x, x)
	g.VPADDD(g.global(constant{"beyondSmall", every(1<<31 - 0x7f<<20)}), spare, spare)
	g.VPSRAD(operand.U8(31), spare, spare)
	g.VMULPS(g.global(constant{"smallUp", every((127 + 120) << 23)}), x, x)
	g.VPMAXUD(spare, x, x)
}

// fetchWords writes the function that asks for scales.
func fetchWords(g *generator) {
	g.Function("fetch" + g.name)
	g.Pragma("noescape")
	g.Attributes(attr.NOSPLIT)
	g.Doc(fmt.Sprintf("fetch%s asks for the scales that n runs want, words for each row.", g.name))
	g.SignatureExpr("func(runs *byte, n, words int)")
	run, n, words, wanted, left := g.pointer("runs"), g.pointer("n"), g.pointer("words"), g.GP64(), g.GP64()
	g.Label("run")
	g.MOVQ(at(run, storedWanted), wanted)
	g.TESTQ(wanted, wanted)
	g.JEQ(operand.LabelRef("next"))
	g.MOVQ(at(run, storedRows), left)
	g.IMULQ(words, left)
	g.Label("line")
	g.PREFETCHT0(at(wanted, 0))
	g.ADDQ(operand.U8(64), wanted)
	g.SUBQ(operand.U8(16), left)
	g.JG(operand.LabelRef("line"))
	g.Label("next")
	g.ADDQ(operand.U8(storedSize), run)
	g.DECQ(n)
	g.JNE(operand.LabelRef("run"))
	g.RET()
}

// pairsFrom is the index of pairs from one on, each twice.
func pairsFrom(first int) func(int) uint32 {
	return func(i int) uint32 { return uint32(2*(first+i/4) + i%2) }
}

// unpack takes words apart: their steps stay where they are.
func (g *generator) unpack(step, zero reg.VecPhysical) {
	g.VPSRAD(operand.U8(16), step, zero)
	g.VCVTDQ2PS(zero, zero)
	g.VPSLLD(operand.U8(16), step, step)
}

// channels writes the function that moves the steps of channels to the query rows.
func channels(g *generator) {
	g.Function("channels" + g.name)
	g.Pragma("noescape")
	g.Attributes(attr.NOSPLIT)
	g.Doc(fmt.Sprintf("channels%s sets zeros to the zero points of dim words, in steps, and scaled to rows of q times their steps.", g.name))
	g.SignatureExpr("func(zeros, scaled *float32, words *uint32, q *float32, dim, rows int, part float32)")
	zeros, scaled, words, q := g.pointer("zeros"), g.pointer("scaled"), g.pointer("words"), g.pointer("q")
	dim, row, left, i := g.pointer("dim"), g.GP64(), g.GP64(), g.GP64()
	part, step, zero := g.vec(0), g.vec(1), g.vec(2)
	g.VBROADCASTSS(g.parameter("part"), part)
	g.XORQ(row, row)
	g.Label("words")
	g.move(at(words, 0), step)
	g.unpack(step, zero)
	g.VMULPS(part, zero, zero)
	g.VMOVUPS(zero, at(zeros, 0))
	g.MOVQ(row, i)
	g.Load(g.Param("rows"), left)
	g.Label("rows")
	g.VMULPS(operand.Mem{Base: q, Index: i, Scale: 4}, step, zero)
	g.VMOVUPS(zero, operand.Mem{Base: scaled, Index: i, Scale: 4})
	g.ADDQ(dim, i)
	g.DECQ(left)
	g.JNE(operand.LabelRef("rows"))
	g.ADDQ(operand.U8(4*g.lanes), words)
	g.ADDQ(operand.U8(4*g.lanes), zeros)
	g.ADDQ(operand.U8(g.lanes), row)
	g.CMPQ(row, dim)
	g.JNE(operand.LabelRef("words"))
	g.VZEROUPPER()
	g.RET()
}
