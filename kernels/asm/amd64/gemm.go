package main

import (
	"fmt"
	"strings"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// blockRows is how many rows of a product the blocks of registers have. The widest block
// has 24 sums of AVX-512, 12 of AVX2: enough to hide the latency of their additions.
var blockRows = []int{6, 2, 1}

// gemm is products of matrices, one function for each width of a block of registers.
func gemm(g *generator) {
	if g.wide() {
		for n := 4; n >= 1; n-- {
			gemmColumns(g, plain[0], fmt.Sprintf("gemm%d%s", n*g.lanes, g.name), n)
		}
		return
	}
	gemmColumns(g, plain[0], "gemm16AVX2", 2)
}

// gemmColumns is the function for n vectors of columns of b, whose elements are stored so.
func gemmColumns(g *generator, b storage, name string, n int) {
	g.Function(name)
	g.Attributes(attr.NOSPLIT)
	g.Doc(fmt.Sprintf("%s multiplies row r of c, %d columns wide, by shrink[r] and adds a·b; where", name, n*g.lanes),
		"shrink is nil it sets c to a·b. Strides are in elements, depth is the columns of a.")
	g.Pragma("noescape")
	typ := "byte"
	if strings.HasPrefix(name, "gemm") {
		typ = "float32"
	}
	g.SignatureExpr(fmt.Sprintf("func(c *float32, cStride int, shrink, a *float32, aStride int, b *%s, bStride int, rows, depth int)", typ))
	p := &product{generator: g, storage: b, columns: n,
		c: g.pointer("c"), cStride: g.bytes("cStride"), shrink: g.pointer("shrink"),
		a: g.pointer("a"), aStride: g.bytes("aStride"), b: g.pointer("b"), bStride: g.elements("bStride", b.bits),
		rows: g.pointer("rows"), depth: g.pointer("depth")}
	for _, m := range blockRows {
		p.block(m)
	}
	g.VZEROUPPER()
	g.RET()
}

// bytes loads a parameter that counts float32 as a number of bytes.
func (g *generator) bytes(name string) reg.GPVirtual { return g.elements(name, 32) }

// product is the text of one function: its operands and how many vectors of columns it has.
type product struct {
	*generator
	storage                                                 // of b
	columns                                                 int
	c, cStride, shrink, a, aStride, b, bStride, rows, depth reg.GPVirtual
}

// block takes m rows at a time while there are as many: their sums stay in registers for all
// of the depth, in which a row of b is loaded once and each element of a is spread.
func (p *product) block(m int) {
	label := func(name string) string { return fmt.Sprintf("%s%d", name, m) }
	sums, row, spread := p.vecs(0, m*p.columns), p.vecs(m*p.columns, p.columns), p.vecs((m+1)*p.columns, 2)
	p.Label(label("rows"))
	p.CMPQ(p.rows, operand.U32(m))
	p.JL(operand.LabelRef(label("fewer")))

	c := p.walk(p.c, p.cStride, m)
	p.start(c, sums, label)
	a, b, left := p.walk(p.a, p.aStride, m), p.GP64(), p.GP64()
	p.MOVQ(p.b, b)
	p.MOVQ(p.depth, left)
	p.Label(label("depth"))
	for j, v := range row {
		p.load(p.generator, at(b, j*p.bits/8*p.lanes), v)
	}
	for r := range m {
		x := spread[r%len(spread)]
		p.VBROADCASTSS(a.at(r, 0), x)
		for j, v := range row {
			p.VFMADD231PS(v, x, sums[r*p.columns+j])
		}
	}
	a.advance(p.generator)
	p.ADDQ(p.bStride, b)
	p.DECQ(left)
	p.JNZ(operand.LabelRef(label("depth")))

	for i, s := range sums {
		p.VMOVUPS(s, c.at(i/p.columns, i%p.columns*4*p.lanes))
	}
	for _, side := range []struct{ base, stride reg.GPVirtual }{{p.c, p.cStride}, {p.a, p.aStride}} {
		step := p.GP64()
		p.IMUL3Q(operand.U32(m), side.stride, step)
		p.ADDQ(step, side.base)
	}
	p.SUBQ(operand.U32(m), p.rows)
	p.JMP(operand.LabelRef(label("rows")))
	p.Label(label("fewer"))
}

// start sets the sums to what a·b is added to.
func (p *product) start(c rowPointers, sums []reg.VecPhysical, label func(string) string) {
	p.TESTQ(p.shrink, p.shrink)
	p.JZ(operand.LabelRef(label("fresh")))
	by := p.vec(p.regs - 1)
	for i, s := range sums {
		r, j := i/p.columns, i%p.columns
		if j == 0 {
			p.VBROADCASTSS(at(p.shrink, 4*r), by)
		}
		p.VMULPS(c.at(r, j*4*p.lanes), by, s)
	}
	p.ADDQ(operand.U32(4*len(sums)/p.columns), p.shrink)
	p.JMP(operand.LabelRef(label("started")))
	p.Label(label("fresh"))
	for _, s := range sums {
		p.zero(s)
	}
	p.Label(label("started"))
}

// rowPointers is to every third row of a matrix, as an address reaches two further.
type rowPointers struct {
	bases  []reg.GPVirtual
	stride reg.GPVirtual
}

// walk is pointers of their own to the m rows from base on.
func (g *generator) walk(base, stride reg.GPVirtual, m int) rowPointers {
	out := rowPointers{stride: stride}
	for r := 0; r < m; r += 3 {
		p := g.GP64()
		if r == 0 {
			g.MOVQ(base, p)
		} else {
			last := out.bases[len(out.bases)-1]
			g.LEAQ(operand.Mem{Base: last, Index: stride, Scale: 2}, p)
			g.ADDQ(stride, p)
		}
		out.bases = append(out.bases, p)
	}
	return out
}

// at is memory in row r.
func (w rowPointers) at(r, disp int) operand.Mem {
	m := at(w.bases[r/3], disp)
	if r%3 > 0 {
		m.Index, m.Scale = w.stride, uint8(r%3)
	}
	return m
}

// advance moves the pointers by one element.
func (w rowPointers) advance(g *generator) {
	for _, p := range w.bases {
		g.ADDQ(operand.U32(4), p)
	}
}
