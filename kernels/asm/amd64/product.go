package main

import (
	"fmt"
	"math/bits"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// floatRow is the product of one row of x with rows of weights that are numbers: lane l of a row's sum has the products of columns l, l+lanes and so on,
// as those of tile.
func floatRow(g *generator, s storage) {
	const many = 2 * together // sums that hide how long additions take
	begin(g, "row"+s.name+g.name, "out, x *float32, w *byte, stride, vectors int",
		fmt.Sprintf("sets out, [%d], to the products of x with %d rows of weights as %s, stride bytes apart, of that many vectors of %d.", many, many, s.name, g.lanes))
	x, stride, vectors := g.pointer("x"), g.pointer("stride"), g.pointer("vectors")
	rows, size := g.walk(g.pointer("w"), stride, many), s.bits/8*g.lanes
	sums, columns, v := g.vecs(0, many), g.vec(many), g.vec(many+1)
	next := g.GP64() // the rows after these, of which a processor does not know before it reads them
	g.LEAQ(operand.Mem{Base: rows.bases[0], Index: stride, Scale: many}, next)
	for r, sum := range sums {
		g.zero(sum)
		for line := range 2 {
			g.PREFETCHT0(at(next, 64*line))
		}
		if r < many-1 {
			g.ADDQ(stride, next)
		}
	}
	g.Label("vectors")
	g.VMOVUPS(at(x, 0), columns)
	for r, sum := range sums {
		s.load(g, rows.at(r, 0), v)
		g.VFMADD231PS(v, columns, sum)
	}
	for _, p := range rows.bases {
		g.ADDQ(operand.U32(size), p)
	}
	g.ADDQ(operand.U32(4*g.lanes), x)
	g.DECQ(vectors)
	g.JNZ(operand.LabelRef("vectors"))
	out := g.pointer("out")
	for i := 0; i < many; i += together {
		g.fold4(sums[i:])
		g.VMOVUPS(sums[i].AsX(), at(out, 4*i))
	}
	g.VZEROUPPER()
	g.RET()
}

// decodeFloats decodes numbers to float32.
func decodeFloats(g *generator, s storage) {
	begin(g, "decode"+s.name+g.name, "out *float32, w *byte, vectors int", fmt.Sprintf("sets out to the weights of vectors of %d as %s.", g.lanes, s.name))
	out, w, vectors, v := g.pointer("out"), g.pointer("w"), g.pointer("vectors"), g.vec(0)
	ahead := g.GP64() // what follows these
	g.IMUL3Q(operand.U32(s.bits/8*g.lanes), vectors, ahead)
	g.Label("vectors")
	g.PREFETCHT1(operand.Mem{Base: w, Index: ahead, Scale: 1})
	s.load(g, at(w, 0), v)
	g.VMOVUPS(v, at(out, 0))
	g.ADDQ(operand.U32(s.bits/8*g.lanes), w)
	g.ADDQ(operand.U32(4*g.lanes), out)
	g.DECQ(vectors)
	g.JNZ(operand.LabelRef("vectors"))
	g.VZEROUPPER()
	g.RET()
}

// elements loads a parameter that counts elements of n bits as a number of bytes.
func (g *generator) elements(name string, size int) reg.GPVirtual {
	r := g.pointer(name)
	if shift := bits.TrailingZeros(uint(size / 8)); shift > 0 {
		g.SHLQ(operand.U8(shift), r)
	}
	return r
}
