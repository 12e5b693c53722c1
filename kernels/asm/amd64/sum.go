package main

import (
	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// summed is the bytes of a round, in four vectors that are summed apart.
const summed = 256

// x²⁰⁸⁰ and x²⁰¹⁶ modulo CRC32C's polynomial, reflected and one place higher: what the halves of 128 bits are worth a round later.
const (
	laterLow  = 0xdcb17aa4
	laterHigh = 0xb9e02b86
)

// checksums writes the CRC32C of bytes, and the copies that make one of what they copy: a product without carries moves what was summed by a
// round, as in Gopal et al., "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction" (Intel, 2009), on whole vectors.
// What is left is 256 bytes with the same CRC32C as all that was read, which are summed by the processor's instruction for it.
func checksums(g *generator) {
	if !g.wide() {
		return
	}
	g.sum("sum", false, false)
	g.sum("copySum", true, false)
	g.sum("copySumAround", true, true)
}

func (g *generator) sum(name string, copies, around bool) {
	doc, signature := name+g.name+" returns the CRC32C of the bytes that sum is of, followed by n bytes of src, n a multiple of 256.", "func(src *byte, n int, sum uint32) uint32"
	if copies {
		doc += " It copies them to dst, which is aligned to 64 bytes."
		signature = "func(dst, src *byte, n int, sum uint32) uint32"
	}
	if around {
		doc += " It writes around the caches."
	}
	g.Function(name + g.name)
	g.Attributes(attr.NOSPLIT)
	g.Pragma("noescape")
	g.SignatureExpr(signature)
	g.Doc(doc)
	var dst reg.GPVirtual
	if copies {
		dst = g.pointer("dst")
	}
	src, n, sum := g.pointer("src"), g.pointer("n"), g.GP32()
	rest := g.AllocLocal(summed)
	sums, lines, low, factor := g.vecs(0, 4), g.vecs(4, 4), g.vec(8), g.vec(9)
	write := func(i int) {
		switch {
		case around:
			g.VMOVNTDQ(lines[i], at(dst, 64*i))
		case copies:
			g.VMOVDQU64(lines[i], at(dst, 64*i))
		}
	}
	g.VMOVDQU64(g.global(constant{"later", func(lane int) uint32 { return [4]uint32{laterLow, 0, laterHigh, 0}[lane%4] }}), factor)
	for i := range lines {
		g.VMOVDQU64(at(src, 64*i), lines[i])
		write(i)
		g.VMOVDQA64(lines[i], sums[i])
	}
	g.Load(g.Param("sum"), sum)
	g.NOTL(sum)
	g.VMOVD(sum, low.AsX()) // and zeros behind it
	g.VPXORQ(low, sums[0], sums[0])
	g.JMP(operand.LabelRef("next"))
	g.Label("round")
	for i := range lines {
		g.VMOVDQU64(at(src, 64*i), lines[i])
		write(i)
		g.VPCLMULQDQ(operand.U8(0x00), factor, sums[i], low)
		g.VPCLMULQDQ(operand.U8(0x11), factor, sums[i], sums[i])
		g.VPTERNLOGQ(operand.U8(0x96), lines[i], low, sums[i])
	}
	g.Label("next")
	g.ADDQ(operand.U32(summed), src)
	if copies {
		g.ADDQ(operand.U32(summed), dst)
	}
	g.SUBQ(operand.U32(summed), n)
	g.JNZ(operand.LabelRef("round"))
	for i := range sums {
		g.VMOVDQU64(sums[i], rest.Offset(64*i))
	}
	if around {
		g.SFENCE()
	}
	g.VZEROUPPER()
	all := g.GP64()
	g.XORL(all.As32(), all.As32())
	for i := 0; i < summed; i += 8 {
		g.CRC32Q(rest.Offset(i), all)
	}
	g.NOTL(all.As32())
	g.Store(all.As32(), g.ReturnIndex(0))
	g.RET()
}
