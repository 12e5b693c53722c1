package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// integerTile is the product of many rows with weights as words, the sums of whose lanes stay apart for columns to come. It adds up what
// integerRow does, in the same order.
func integerTile(g *generator, l layout) {
	begin(g, "tile"+l.name+g.name, "sums *float32, x *byte, xStride int, w *byte, wStride, rows, blocks int",
		fmt.Sprintf("adds to sums, [rows, %d, %d], the products of rows of x, rounded, with %d of weights as words, in blocks of %d.", together, g.lanes, together, l.weights),
		"Strides are in bytes.")
	sums, x, xStride := g.pointer("sums"), g.pointer("x"), g.pointer("xStride")
	w, wStride, rows := g.pointer("w"), g.pointer("wStride"), g.pointer("rows")
	for _, m := range []int{3, 2, 1} { // rows whose sums have registers
		integerRows(g, l, m, sums, x, xStride, w, wStride, rows)
	}
	g.VZEROUPPER()
	g.RET()
}

// integerRows takes m rows at a time while there are as many.
func integerRows(g *generator, l layout, m int, sums, x, xStride, w, wStride, rows reg.GPVirtual) {
	label := func(name string) operand.LabelRef { return operand.LabelRef(fmt.Sprintf("%s%d", name, m)) }
	all, free := g.vecs(0, m*together), g.vecs(12, 4)
	const step = 4 // vectors
	g.Label(string(label("rows")))
	g.CMPQ(rows, operand.U32(m))
	g.JL(label("fewer"))
	from, of, left := g.walk(x, xStride, m), g.walk(w, wStride, together), g.pointer("blocks")
	advance := func(x, w int) {
		for _, base := range from.bases {
			g.ADDQ(operand.U32(x), base)
		}
		for _, base := range of.bases {
			g.ADDQ(operand.U32(w), base)
		}
	}
	g.Label(string(label("blocks")))
	for _, v := range all {
		g.zero(v)
	}
	vectors, inner := 2*l.weights/eight, g.GP64()
	if vectors > step {
		g.MOVQ(operand.U32(vectors/step), inner)
		g.Label(string(label("steps")))
	}
	for i := range min(vectors, step) {
		for r := range m {
			if g.dot { // no register is needed for products
				g.VMOVDQU(from.at(r, eight*i), free[1+r].AsY())
			}
		}
		for c := range together {
			g.VMOVDQU(of.at(c, eight*i), free[0].AsY())
			for r := range m {
				product, sum := free[1+r], all[r*together+c]
				if g.dot {
					g.VPDPWSSD(product, free[0], sum)
					continue
				}
				g.VPMADDWD(from.at(r, eight*i), free[0], product)
				g.VPADDD(product, sum, sum)
			}
		}
	}
	end := 2 * l.weights
	if vectors > step {
		advance(step*eight, step*eight)
		g.DECQ(inner)
		g.JNZ(label("steps"))
		end = 0
	}
	factors := 0
	if l.mins {
		factors = eight
	}
	for r := range m {
		scale, by, sum, mins := free[0], free[1], free[2], free[3]
		g.VMOVUPS(from.at(r, end+l.sums()), scale)
		for c := range together {
			i := r*together + c
			g.VMOVUPS(at(sums, 4*i*g.lanes), sum)
			g.VMULPS(of.at(c, end+factors), scale, by)
			g.add(all[i], by, sum, false)
			if l.mins {
				g.VMOVDQU(of.at(c, end), mins.AsY())
				g.VPMADDWD(from.at(r, end), mins, mins)
				g.VMULPS(of.at(c, end+2*eight), scale, by)
				g.add(mins, by, sum, true)
			}
			g.VMOVUPS(sum, at(sums, 4*i*g.lanes))
		}
	}
	advance(l.xBytes(2)-2*l.weights+end, l.wordBytes()-2*l.weights+end)
	g.DECQ(left)
	g.JNZ(label("blocks"))
	next := g.GP64()
	g.IMUL3Q(operand.U32(m), xStride, next)
	g.ADDQ(next, x)
	g.ADDQ(operand.U32(4*m*together*g.lanes), sums)
	g.SUBQ(operand.U32(m), rows)
	g.JMP(label("rows"))
	g.Label(string(label("fewer")))
}
