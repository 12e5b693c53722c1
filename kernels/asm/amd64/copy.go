package main

import (
	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// copies writes the copy whose stores go around the caches: that saves to read what is
// overwritten, and keeps in the caches what is there.
func copies(g *generator) {
	c := &converter{g, map[string]operand.Mem{}}
	c.stream()
	if c.wide() { // once, for both tiers
		c.Function("fence")
		c.Attributes(attr.NOSPLIT)
		c.SignatureExpr("func()")
		c.Doc("fence orders the stores of stream before those that follow.")
		c.SFENCE()
		c.RET()
	}
}

const line = 64 // bytes that a processor writes at once

func (c *converter) stream() {
	c.function("stream", "func(dst *byte, stride int, src *byte, piece, n int)",
		"copies n pieces of 64 bytes or more that follow each other in src to where they are stride apart. They do not overlap; stores have no order before fence.")
	p := c.loads("dst", "stride", "src", "piece", "n")
	begin, stride, src, piece, pieces := p[0], p[1], p[2], p[3], p[4]
	dst, n, head, from, to := c.GP64(), c.GP64(), c.GP64(), c.GP64(), c.GP64()
	v := c.vecs(0, 4*line/(4*c.lanes))
	c.Label("piece")
	c.MOVQ(begin, dst)
	c.MOVQ(piece, n)

	// Bytes before the first whole line of dst, and those after the last one, are stored as
	// usual, along with neighbours that are stored again.
	c.MOVQ(dst, head)
	c.NEGQ(head)
	c.ANDQ(operand.U8(line-1), head)
	c.JZ(operand.LabelRef("aligned"))
	c.lines(v[:len(v)/4], src, dst, false)
	c.ADDQ(head, src)
	c.ADDQ(head, dst)
	c.SUBQ(head, n)
	c.Label("aligned")
	c.SUBQ(operand.U32(4*line), n)
	c.JLT(operand.LabelRef("few"))
	c.Label("lines")
	c.lines(v, src, dst, true)
	c.ADDQ(operand.U32(4*line), src)
	c.ADDQ(operand.U32(4*line), dst)
	c.SUBQ(operand.U32(4*line), n)
	c.JGE(operand.LabelRef("lines"))
	c.Label("few")
	c.ADDQ(operand.U32(4*line), n)
	c.JZ(operand.LabelRef("done"))
	c.Label("line")
	c.CMPQ(n, operand.U8(line))
	c.JLT(operand.LabelRef("tail"))
	c.lines(v[:len(v)/4], src, dst, true)
	c.ADDQ(operand.U8(line), src)
	c.ADDQ(operand.U8(line), dst)
	c.SUBQ(operand.U8(line), n)
	c.JMP(operand.LabelRef("line"))
	c.Label("tail")
	c.TESTQ(n, n)
	c.JZ(operand.LabelRef("done"))
	c.LEAQ(operand.Mem{Base: src, Index: n, Scale: 1, Disp: -line}, from)
	c.LEAQ(operand.Mem{Base: dst, Index: n, Scale: 1, Disp: -line}, to)
	c.lines(v[:len(v)/4], from, to, false)
	c.ADDQ(n, src)
	c.Label("done")
	c.ADDQ(stride, begin)
	c.DECQ(pieces)
	c.JNZ(operand.LabelRef("piece"))
	c.end()
}

// lines copies as many bytes as v holds.
func (c *converter) lines(v []reg.VecPhysical, src, dst reg.Register, around bool) {
	for i, x := range v {
		c.VMOVUPS(at(src, 4*c.lanes*i), x)
	}
	for i, x := range v {
		if around {
			c.VMOVNTPS(x, at(dst, 4*c.lanes*i))
		} else {
			c.VMOVUPS(x, at(dst, 4*c.lanes*i))
		}
	}
}
