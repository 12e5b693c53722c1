package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// together is how many rows of weights the products of cmd/internal/product take at a time: of those in floats, as many streams, and sums that
// do not wait for each other.
const together = 4

// dots is the text of one function of products with weights as stored, or of what decodes them.
type dots struct {
	*generator
	free []reg.VecPhysical // after held constants
}

// decoded is the functions of weights that are decoded to float32, and those of each format. Processors with AVX-512 run those of AVX2 as well,
// but for the products of many rows in integers, which VNNI has an instruction for; those of one row gain nothing by it.
func decoded(g *generator) {
	if g.wide() {
		for _, l := range []layout{of32, of256, mins} {
			integerTile(&generator{Context: g.Context, isa: vnni}, l)
		}
		return
	}
	dotTile(g)
	foldSums(g)
	for _, s := range plain {
		floatRow(g, s)
		decodeFloats(g, s)
	}
	for _, l := range []layout{of32, of256} {
		for integer := 1; integer <= 2; integer++ {
			round(g, l, integer)
		}
	}
	for _, l := range []layout{of32, of256, mins} {
		integerTile(g, l)
	}
	for _, f := range formats() {
		integerRow(g, f)
		integerWords(g, f)
	}
}

// begin starts a function.
func begin(g *generator, name, signature string, doc ...string) {
	g.Function(name)
	g.Attributes(attr.NOSPLIT)
	g.Doc(append([]string{name + " " + doc[0]}, doc[1:]...)...)
	g.Pragma("noescape")
	g.SignatureExpr("func(" + signature + ")")
}

// at2 is memory in row r by its offset.
func at2(rows rowPointers, r int) func(int) operand.Mem {
	return func(disp int) operand.Mem { return rows.at(r, disp) }
}

// start loads the constants of a format into the registers from i on, and frees those after them.
func (d *dots) start(f format, i int) {
	if len(f.constants) > 0 {
		i = d.hold(f.constants, i) - 1 // nothing needs a spare one
	}
	d.free = d.vecs(i, d.regs-i)
}

// scratch is room on the stack, from the beginning of a line on.
func (d *dots) scratch(size int) operand.Mem {
	if size == 0 {
		return operand.Mem{}
	}
	const line = 64
	base := d.GP64()
	d.LEAQ(d.AllocLocal(size+line-8), base)
	d.ADDQ(operand.U8(line-1), base)
	d.ANDQ(operand.I32(-line), base)
	return at(base, 0)
}

// fold4 leaves in the first of four vectors the sum of each one's lanes.
func (g *generator) fold4(v []reg.VecPhysical) {
	g.VHADDPS(v[1].AsY(), v[0].AsY(), v[0].AsY())
	g.VHADDPS(v[3].AsY(), v[2].AsY(), v[2].AsY())
	g.VHADDPS(v[2].AsY(), v[0].AsY(), v[0].AsY())
	g.VEXTRACTF128(operand.U8(1), v[0].AsY(), v[1].AsX())
	g.VADDPS(v[1].AsX(), v[0].AsX(), v[0].AsX())
}

// foldSums adds up the lanes of sums.
func foldSums(g *generator) {
	begin(g, "fold"+g.name, "out, sums *float32, n int", fmt.Sprintf("sets out, [n, %d], to the sums of the lanes of sums, [n, %d, %d].", together, together, g.lanes))
	out, sums, n := g.pointer("out"), g.pointer("sums"), g.pointer("n")
	v := g.vecs(0, together)
	g.Label("fold")
	for i, s := range v {
		g.VMOVUPS(at(sums, 4*i*g.lanes), s)
	}
	g.fold4(v)
	g.VMOVUPS(v[0].AsX(), at(out, 0))
	g.ADDQ(operand.U32(4*together*g.lanes), sums)
	g.ADDQ(operand.U32(4*together), out)
	g.DECQ(n)
	g.JNZ(operand.LabelRef("fold"))
	g.VZEROUPPER()
	g.RET()
}

// dotTile is the product of many rows with decoded weights, the sums of whose lanes stay apart for columns to come.
func dotTile(g *generator) {
	begin(g, "tile"+g.name, "sums, x *float32, xStride int, w *float32, wStride, rows, cols int",
		fmt.Sprintf("adds to sums, [rows, %d, %d], the products of rows of x with %d of w, each lane those of its columns.", together, g.lanes, together),
		fmt.Sprintf("cols is a multiple of %d. Strides are in elements.", g.lanes))
	p := &product{generator: g, columns: together, c: g.pointer("sums"), a: g.pointer("x"), aStride: g.bytes("xStride"),
		b: g.pointer("w"), bStride: g.bytes("wStride"), rows: g.pointer("rows"), depth: g.bytes("cols")}
	w := g.walk(p.b, p.bStride, together)
	for _, m := range []int{3, 2, 1} { // rows whose sums have registers
		p.tile(m, w)
	}
	g.VZEROUPPER()
	g.RET()
}

// tile takes m rows at a time while there are as many.
func (p *product) tile(m int, w rowPointers) {
	label := func(name string) operand.LabelRef { return operand.LabelRef(fmt.Sprintf("%s%d", name, m)) }
	sums, inputs, weights := p.vecs(0, m*together), p.vecs(m*together, m), p.vec(m*together+m)
	p.Label(string(label("rows")))
	p.CMPQ(p.rows, operand.U32(m))
	p.JL(label("fewer"))
	for i, s := range sums {
		p.VMOVUPS(at(p.c, 4*i*p.lanes), s)
	}
	x, left := p.walk(p.a, p.aStride, m), p.GP64()
	p.MOVQ(p.depth, left)
	p.Label(string(label("cols")))
	for r, v := range inputs {
		p.VMOVUPS(x.at(r, 0), v)
	}
	for c := range together {
		p.VMOVUPS(w.at(c, 0), weights)
		for r, v := range inputs {
			p.VFMADD231PS(v, weights, sums[r*together+c])
		}
	}
	for _, base := range append(x.bases, w.bases...) {
		p.ADDQ(operand.U32(4*p.lanes), base)
	}
	p.SUBQ(operand.U32(4*p.lanes), left)
	p.JNZ(label("cols"))
	for _, base := range w.bases {
		p.SUBQ(p.depth, base)
	}
	for i, s := range sums {
		p.VMOVUPS(s, at(p.c, 4*i*p.lanes))
	}
	step := p.GP64()
	p.IMUL3Q(operand.U32(m), p.aStride, step)
	p.ADDQ(step, p.a)
	p.ADDQ(operand.U32(4*m*together*p.lanes), p.c)
	p.SUBQ(operand.U32(m), p.rows)
	p.JMP(label("rows"))
	p.Label(string(label("fewer")))
}
