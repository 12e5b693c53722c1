package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// together is how many rows of weights the products of cmd/internal/product take at a time: as many streams, and sums that
// do not wait for each other.
const together = 4

// format is a type of weights as files store them: rows of blocks.
type format struct {
	name           string
	weights, bytes int // of a block
	turn           int // weights of a row that are added before the next row has its turn: a part of a block
	scales         int // float32 that prepare writes for a block of a row
	constants      []constant
	// prepare writes the scales of the block at m.
	prepare func(d *dots, m func(disp int) operand.Mem, scales operand.Mem)
	// values hands over the vectors of weights of a turn, in their order, each in a register that may be changed.
	values func(d *dots, m func(disp int) operand.Mem, scales operand.Mem, turn int, each func(reg.VecPhysical))
}

// dots is the text of one function of products with weights as stored, or of what decodes them.
type dots struct {
	*generator
	free []reg.VecPhysical // for values and prepare, after held constants
}

// decoded is the functions of each format: weights times a row, and weights decoded. There are none of AVX-512: processors that have
// it run those of AVX2.
func decoded(g *generator) {
	if g.wide() {
		return
	}
	dotTile(g)
	foldSums(g)
	for _, f := range formats() {
		dotRow(g, f)
		decode(g, f)
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

// dotRow is the product of one row with rows of weights: lane l of a row's sum has the products of columns l, l+lanes and so on.
func dotRow(g *generator, f format) {
	begin(g, "row"+f.name+g.name, "out, x *float32, w *byte, stride, blocks int",
		fmt.Sprintf("sets out, [%d], to the products of x with %d rows of weights as %s, stride bytes apart, of that many blocks of %d.", together, together, f.name, f.weights))
	d := &dots{generator: g}
	x, stride := g.pointer("x"), g.pointer("stride")
	rows := g.walk(g.pointer("w"), stride, together)
	next := g.GP64() // what follows these rows
	g.LEAQ(operand.Mem{Base: rows.bases[0], Index: stride, Scale: together}, next)
	ahead := g.walk(next, stride, together)
	blocks := g.pointer("blocks")
	sums := g.vecs(0, together)
	d.start(f, together)
	for _, s := range sums {
		g.zero(s)
	}
	scales := d.scratch(f, together)
	g.Label("blocks")
	for r := range together {
		for line := 0; line < f.bytes; line += 64 {
			g.PREFETCHT0(ahead.at(r, line))
		}
		if f.prepare != nil {
			f.prepare(d, at2(rows, r), scales(r))
		}
	}
	for turn := range f.weights / f.turn {
		for r := range together {
			j := 0
			f.values(d, at2(rows, r), scales(r), turn, func(v reg.VecPhysical) {
				g.VFMADD231PS(at(x, 4*(turn*f.turn+j*g.lanes)), v, sums[r])
				j++
			})
		}
	}
	for _, p := range append(rows.bases, ahead.bases...) {
		g.ADDQ(operand.U32(f.bytes), p)
	}
	g.ADDQ(operand.U32(4*f.weights), x)
	g.DECQ(blocks)
	g.JNZ(operand.LabelRef("blocks"))
	out := g.pointer("out")
	g.fold4(sums)
	g.VMOVUPS(sums[0].AsX(), at(out, 0))
	g.VZEROUPPER()
	g.RET()
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

// scratch is room on the stack for the scales of rows, from the beginning of a line on.
func (d *dots) scratch(f format, rows int) func(r int) operand.Mem {
	if f.scales == 0 {
		return func(int) operand.Mem { return operand.Mem{} }
	}
	const line = 64
	base := d.GP64()
	d.LEAQ(d.AllocLocal(4*f.scales*rows+line-8), base)
	d.ADDQ(operand.U8(line-1), base)
	d.ANDQ(operand.I32(-line), base)
	return func(r int) operand.Mem { return at(base, 4*f.scales*r) }
}

// decode sets float32 to the weights of blocks.
func decode(g *generator, f format) {
	begin(g, "decode"+f.name+g.name, "out *float32, w *byte, blocks int",
		fmt.Sprintf("sets out to the weights of blocks of %d as %s.", f.weights, f.name))
	d := &dots{generator: g}
	out, w, blocks := g.pointer("out"), g.pointer("w"), g.pointer("blocks")
	d.start(f, 0)
	row, scales := at2(rowPointers{bases: []reg.GPVirtual{w}}, 0), d.scratch(f, 1)
	g.Label("blocks")
	if f.prepare != nil {
		f.prepare(d, row, scales(0))
	}
	i := 0
	for turn := range f.weights / f.turn {
		f.values(d, row, scales(0), turn, func(v reg.VecPhysical) {
			g.VMOVUPS(v, at(out, i))
			i += 4 * g.lanes
		})
	}
	g.ADDQ(operand.U32(f.bytes), w)
	g.ADDQ(operand.U32(4*f.weights), out)
	g.DECQ(blocks)
	g.JNZ(operand.LabelRef("blocks"))
	g.VZEROUPPER()
	g.RET()
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
