package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// mix writes kernels.mix for each storage type. Rows of acc are taken four at a time, and of
// those a block of columns, which stays in registers over all values: a value that is loaded
// is converted once for the rows of its block.
func mix(g *generator) {
	c := &converter{g, map[string]operand.Mem{}}
	for _, s := range plain {
		m := mixer{converter: c, storage: s}
		m.write()
	}
}

// mixer writes the function of one storage type.
type mixer struct {
	*converter
	storage

	ahead, last reg.GPVirtual // what is fetched next, and the last byte of that
	row, stride reg.GPVirtual // bytes from value to value, and from row to row of p
	col         reg.GPVirtual // first column of the block
}

func (m *mixer) write() {
	m.function("mix"+m.storage.name, "func(acc, shrink, p *float32, stride int, values *byte, n, dim, rows int, ahead *byte)",
		"is kernels.mix for n values of a dim that is a multiple of 16. It fetches as many bytes from ahead on.")
	m.ahead, m.last, m.row, m.stride, m.col = m.pointer("ahead"), m.pointer("n"), m.pointer("dim"), m.pointer("stride"), m.GP64()
	m.packed(m.row)
	m.SHLQ(operand.U8(2), m.stride)
	m.IMULQ(m.row, m.last)
	m.LEAQ(operand.Mem{Base: m.ahead, Index: m.last, Scale: 1, Disp: -1}, m.last)
	for rows := 4; rows > 0; rows-- {
		m.rows(rows)
	}
	m.end()
}

// packed turns a number of elements into their bytes.
func (m *mixer) packed(n reg.Register) {
	switch m.storage.bits {
	case 32:
		m.SHLQ(operand.U8(2), n)
	case 16:
		m.SHLQ(operand.U8(1), n)
	case 4:
		m.SHRQ(operand.U8(1), n)
	}
}

// rows writes the loop over blocks of so many rows. Registers are scarce: acc, shrink, p and
// rows advance where the caller has put them.
func (m *mixer) rows(rows int) {
	top, end := fmt.Sprintf("rows%d", rows), fmt.Sprintf("rows%d", rows-1)
	m.Label(top)
	m.CMPQ(m.parameter("rows"), operand.U8(rows))
	m.JLT(operand.LabelRef(end))
	m.XORQ(m.col, m.col)
	for _, width := range m.widths(rows) {
		m.columns(rows, width)
	}
	t := m.pointer("dim")
	m.SHLQ(operand.U8(2), t)
	m.advance("acc", t, rows)
	m.MOVQ(m.stride, t)
	m.advance("p", t, rows)
	m.ADDQ(operand.U8(4*rows), m.parameter("shrink"))
	m.SUBQ(operand.U8(rows), m.parameter("rows"))
	m.JMP(operand.LabelRef(top))
	if rows == 1 {
		m.Label(end)
	}
}

// advance adds so many times by, which it destroys, to an argument.
func (m *mixer) advance(arg string, by reg.Register, times int) {
	m.IMUL3Q(operand.U8(times), by, by)
	m.ADDQ(by, m.parameter(arg))
}

// widths is the vectors of the blocks that rows are cut into: as many as leave half of the
// registers to the rest, and fewer for what is left.
func (i isa) widths(rows int) (widths []int) {
	for width := 4; width*i.lanes >= 16; width /= 2 {
		if rows*width <= i.regs/2 {
			widths = append(widths, width)
		}
	}
	return widths
}

// columns writes the loop over blocks of so many rows and vectors.
func (m *mixer) columns(rows, width int) {
	name := fmt.Sprintf("%dx%d", rows, width)
	end := m.GP64()
	m.Label("block" + name)
	m.LEAQ(at(m.col, width*m.lanes), end)
	m.CMPQ(end, m.parameter("dim"))
	m.JGT(operand.LabelRef("rest" + name))
	acc, factors, value := m.vecs(0, rows*width), m.vecs(rows*width, rows), m.vec(rows*width+rows)

	shrink := m.pointer("shrink")
	for r, f := range factors {
		m.VBROADCASTSS(at(shrink, 4*r), f)
	}
	m.accumulators(rows, func(r int, row operand.Mem) {
		for v := range width {
			m.VMULPS(row.Offset(v*m.lanes*4), factors[r], acc[r*width+v])
		}
	})

	from, count := m.pointer("values"), m.pointer("n")
	at := m.GP64()
	m.MOVQ(m.col, at)
	m.packed(at)
	m.ADDQ(at, from)
	p := m.pointer("p")
	ps := m.strided(p, m.stride, rows)
	m.Label("values" + name)
	m.fetch(width * m.lanes * m.storage.bits / 8)
	for r, f := range factors {
		m.VBROADCASTSS(ps[r], f)
	}
	for v := range width {
		m.load(m.generator, operand.Mem{Base: from, Disp: v * m.lanes * m.storage.bits / 8}, value)
		for r, f := range factors {
			m.VFMADD231PS(f, value, acc[r*width+v])
		}
	}
	m.ADDQ(m.row, from)
	m.ADDQ(operand.U8(4), p)
	m.DECQ(count)
	m.JNZ(operand.LabelRef("values" + name))

	m.accumulators(rows, func(r int, row operand.Mem) {
		for v := range width {
			m.VMOVUPS(acc[r*width+v], row.Offset(v*m.lanes*4))
		}
	})
	m.MOVQ(end, m.col)
	m.JMP(operand.LabelRef("block" + name))
	m.Label("rest" + name)
}

// accumulators does something for each row of the block in acc.
func (m *mixer) accumulators(rows int, do func(r int, row operand.Mem)) {
	acc, dim := m.pointer("acc"), m.pointer("dim")
	m.SHLQ(operand.U8(2), dim)
	m.LEAQ(operand.Mem{Base: acc, Index: m.col, Scale: 4}, acc)
	for r, row := range m.strided(acc, dim, rows) {
		do(r, row)
	}
}

// strided is n places from base on, that many bytes apart.
func (m *mixer) strided(base, stride reg.Register, n int) []operand.Mem {
	places := []operand.Mem{{Base: base}, {Base: base, Index: stride, Scale: 1}, {Base: base, Index: stride, Scale: 2}}
	if n > 3 {
		thrice := m.GP64()
		m.LEAQ(operand.Mem{Base: stride, Index: stride, Scale: 2}, thrice)
		places = append(places, operand.Mem{Base: base, Index: thrice, Scale: 1})
	}
	return places[:n]
}

// fetch asks for the next bytes of those ahead.
func (m *mixer) fetch(bytes int) {
	for line := 0; line < bytes; line += 64 {
		m.PREFETCHT0(at(m.ahead, line))
	}
	m.ADDQ(operand.U32(bytes), m.ahead)
	m.CMPQ(m.ahead, m.last)
	m.CMOVQGT(m.last, m.ahead)
}
