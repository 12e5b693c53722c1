package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// rowSums writes the function that adds up the codes of query rows.
func rowSums(g *generator) {
	g.Function("rowSums" + g.name)
	g.Pragma("noescape")
	g.Attributes(attr.NOSPLIT)
	g.Doc(fmt.Sprintf("rowSums%s sets sums to those of the rows of q, of dim codes, a multiple of 16.", g.name))
	g.SignatureExpr("func(sums *int32, q *byte, dim, rows int)")
	sums, q, rows, left := g.pointer("sums"), g.pointer("q"), g.pointer("rows"), g.GP64()
	sum, x := g.vec(0), g.vec(1)
	g.hold([]constant{one8, one16}, 2)
	g.halves()
	g.Label("row")
	g.Load(g.Param("dim"), left)
	g.zero(sum)
	g.Label("codes")
	if g.wide() {
		g.VPDPBUSD(at(q, 0), g.held[0].AsX(), sum.AsX())
	} else {
		g.VPMOVSXBW(at(q, 0), x)
		g.VPMADDWD(g.held[1], x, x)
		g.VPADDD(x, sum, sum)
	}
	g.ADDQ(operand.U8(16), q)
	g.SUBQ(operand.U8(16), left)
	g.JNE(operand.LabelRef("codes"))
	all := make([]reg.VecPhysical, g.lanes)
	all[0] = sum
	g.VMOVD(g.reduce(all, g.spare, g.VPADDD).AsX(), at(sums, 0))
	g.ADDQ(operand.U8(4), sums)
	g.DECQ(rows)
	g.JNE(operand.LabelRef("row"))
	g.VZEROUPPER()
	g.RET()
}

// split is how splitRows leaves the codes of a chunk.
type split struct {
	groups int // of 32 codes
	bytes  int
	odd    int // where codes at odd places begin, those at even ones come first
	sums   int // where the sums of codes begin that go with each lane of the products, as float32
}

func splitOf(i isa) split {
	if i.wide() {
		return split{groups: 4, bytes: 192, odd: 64, sums: 128}
	}
	return split{groups: 1, bytes: 64, odd: 16, sums: 32}
}

// splitRows writes the function that lays out query rows like keys of 4-bit codes, whose
// bytes have two.
func splitRows(g *generator) {
	s := splitOf(g.isa)
	g.Function("splitRows" + g.name)
	g.Pragma("noescape")
	g.Attributes(attr.NOSPLIT)
	g.Doc(fmt.Sprintf("splitRows%s sets dst to the codes of the rows of q, of dim codes, a multiple of 16: of every %d it takes %d bytes, for codes at even places, those at odd ones, and sums.",
		g.name, 32*s.groups, s.bytes))
	g.SignatureExpr("func(dst, q *byte, dim, rows int)")
	dst, q, rows, left := g.pointer("dst"), g.pointer("q"), g.pointer("rows"), g.GP64()
	x, y := g.vec(0), g.vec(1)
	g.hold([]constant{one8, one16, {"evenFirst", func(i int) uint32 {
		from := uint32(i % 4 * 8)
		if i%4 > 1 {
			from = uint32(i%4*8 - 15)
		}
		return from | (from+2)<<8 | (from+4)<<16 | (from+6)<<24
	}}}, 2)
	g.Label("row")
	g.Load(g.Param("dim"), left)
	g.Label("chunk")
	if g.wide() {
		bits, words := g.GP64(), g.GP64()
		g.MOVQ(operand.U32(128), words)
		g.CMPQ(left, words)
		g.CMOVQLT(left, words)
		g.SHRQ(operand.U8(2), words)
		g.XORQ(bits, bits)
		g.BTSQ(words, bits)
		g.DECQ(bits)
		g.KMOVW(bits.As32(), reg.K1)
		g.SHRQ(operand.U8(16), bits)
		g.KMOVW(bits.As32(), reg.K2)
		for i, v := range []reg.VecPhysical{x, y} {
			g.VMOVDQU32_Z(at(q, 64*i), []reg.Register{reg.K1, reg.K2}[i], v)
			g.VPMOVWB(v, at(dst, 32*i))
			g.VPSRLW(operand.U8(8), v, v)
			g.VPMOVWB(v, at(dst, s.odd+32*i))
		}
		g.zero(x)
		g.VPDPBUSD(at(dst, 0), g.held[0], x)
		g.VPDPBUSD(at(dst, s.odd), g.held[0], x)
	} else {
		g.VMOVDQU(at(q, 0), x.AsX())
		g.CMPQ(left, operand.U8(16))
		g.JEQ(operand.LabelRef("half"))
		g.VINSERTI128(operand.U8(1), at(q, 16), x, x)
		g.Label("half")
		g.VPSHUFB(g.held[2], x, x)
		g.VPERMQ(operand.U8(0xd8), x, x)
		g.VMOVDQU(x, at(dst, 0))
		g.VPMADDUBSW(x, g.held[0], x)
		g.VPMADDWD(g.held[1], x, x)
	}
	g.VCVTDQ2PS(x, x)
	g.VMOVUPS(x, at(dst, s.sums))
	g.ADDQ(operand.U32(s.bytes), dst)
	g.ADDQ(operand.U32(32*s.groups), q)
	g.SUBQ(operand.U32(32*s.groups), left)
	g.JG(operand.LabelRef("chunk"))
	g.ADDQ(left, q) // which may have gone too far
	g.DECQ(rows)
	g.JNE(operand.LabelRef("row"))
	g.VZEROUPPER()
	g.RET()
}
