package main

import (
	"fmt"
	"math/bits"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// blocks is the loops of a function that mixes. Rows of acc are taken four at a time, and of those a
// block of columns, which stays in registers over all runs of values: what is loaded of a value is
// converted once for the rows of the block. Registers are scarce: acc, weights, what there is for each
// row and the number of rows advance where the caller has put them.
type blocks struct {
	*converter
	text   blockText
	bits   int      // of a value's element
	word   int      // bytes of a weight
	from   string   // the parameter that has the weights
	perRow []string // those that have four bytes for each row
	least  int      // columns of the narrowest block

	ahead, later reg.GPVirtual // what is fetched next, and bytes from there to what is wanted after it
	run          reg.GPVirtual // of values
	runs         operand.Mem   // that are left
	row, stride  reg.GPVirtual // bytes from a value to the next, and of rows of weights
	col          reg.GPVirtual // first column of the block
	sums         []reg.VecPhysical
	factors      []reg.VecPhysical // weights of each row
}

// blockText is what is done with a block of rows and vectors.
type blockText interface {
	// begin makes the sums ready.
	begin(rows, width int)
	// values goes through the values of a run. Their weights begin at weights, rows of which are stride
	// or thrice of it apart, and are to be left where those of the next run begin.
	values(rows, width int, weights, thrice, from, count reg.GPVirtual)
	// finish brings the sums to acc.
	finish(rows, width int)
}

// prepare loads what is for all rows, and is the first vector register that is free.
func (b *blocks) prepare() (free int) {
	b.ahead, b.later, b.run, b.runs = b.GP64(), b.GP64(), b.GP64(), b.AllocLocal(8)
	b.row, b.stride, b.col = b.pointer("row"), b.pointer("stride"), b.GP64()
	b.SHLQ(operand.U8(bits.Len(uint(b.word))-1), b.stride)
	n := b.regs / 2
	b.sums, b.factors = b.vecs(0, n), b.vecs(n, mostRows)
	return n + mostRows
}

// packed turns a number of elements into their bytes.
func (b *blocks) packed(n reg.Register) {
	if shift := bits.Len(uint(b.bits)) - bits.Len(8); shift < 0 {
		b.SHRQ(operand.U8(-shift), n)
	} else if shift > 0 {
		b.SHLQ(operand.U8(shift), n)
	}
}

// all writes the loops.
func (b *blocks) all() {
	for rows := mostRows; rows > 0; rows-- {
		b.rows(rows)
	}
	b.Label("rows0")
	b.end()
}

// rows writes the loop over blocks of a number of rows.
func (b *blocks) rows(rows int) {
	b.Label(fmt.Sprintf("rows%d", rows))
	b.CMPQ(b.parameter("rows"), operand.U8(rows))
	b.JLT(operand.LabelRef(fmt.Sprintf("rows%d", rows-1)))
	b.XORQ(b.col, b.col)
	for width := 4; width*b.lanes >= b.least; width /= 2 {
		if rows*width <= len(b.sums) {
			b.columns(rows, width)
		}
	}
	step := b.pointer("dim")
	b.IMUL3Q(operand.U8(4*rows), step, step)
	b.ADDQ(step, b.parameter("acc"))
	b.IMUL3Q(operand.U8(rows), b.stride, step)
	b.ADDQ(step, b.parameter(b.from))
	for _, p := range b.perRow {
		b.ADDQ(operand.U8(4*rows), b.parameter(p))
	}
	b.SUBQ(operand.U8(rows), b.parameter("rows"))
	b.JMP(operand.LabelRef(fmt.Sprintf("rows%d", rows)))
}

// columns writes the loop over blocks of a number of rows and a width in vectors.
func (b *blocks) columns(rows, width int) {
	name := blockName(rows, width)
	end := b.GP64()
	b.Label("block" + name)
	b.LEAQ(at(b.col, width*b.lanes), end)
	b.CMPQ(end, b.parameter("dim"))
	b.JGT(operand.LabelRef("rest" + name))
	b.text.begin(rows, width)

	weights, thrice := b.pointer(b.from), b.GP64()
	b.LEAQ(operand.Mem{Base: b.stride, Index: b.stride, Scale: 2}, thrice)
	b.Load(b.Param("values"), b.run)
	b.MOVQ(b.parameter("runs"), b.ahead)
	b.MOVQ(b.ahead, b.runs)
	b.Label("run" + name)
	from, count := b.place()
	b.text.values(rows, width, weights, thrice, from, count)
	b.ADDQ(operand.U8(storedSize), b.run)
	b.DECQ(b.runs)
	b.JNZ(operand.LabelRef("run" + name))

	b.text.finish(rows, width)
	b.MOVQ(end, b.col)
	b.JMP(operand.LabelRef("block" + name))
	b.Label("rest" + name)
}

// blockName ends the labels of a block.
func blockName(rows, width int) string { return fmt.Sprintf("%dx%d", rows, width) }

// place is where the block's columns of the first value of the run are, and how many values it has.
// What is fetched is as far ahead as the block's columns are.
func (b *blocks) place() (from, count reg.GPVirtual) {
	from, count = b.GP64(), b.GP64()
	b.ofRun(b.run, from, b.ahead, b.later)
	b.MOVQ(b.col, count)
	b.packed(count)
	b.ADDQ(count, from)
	b.IMULQ(at(b.run, storedRows), count)
	b.ADDQ(count, b.ahead)
	b.MOVQ(at(b.run, storedRows), count)
	return from, count
}

// fetch asks for the next bytes of those ahead.
func (b *blocks) fetch(bytes int) {
	for line := 0; line < bytes; line += 64 {
		b.ask(b.ahead, b.later, line)
	}
	b.ADDQ(operand.U32(bytes), b.ahead)
}

// each does something with vector i of a block of acc, and where it is in memory.
func (b *blocks) each(rows, width int, do func(r, i int, at operand.Mem)) {
	acc, row, thrice := b.pointer("acc"), b.pointer("dim"), b.GP64()
	b.SHLQ(operand.U8(2), row)
	b.LEAQ(operand.Mem{Base: row, Index: row, Scale: 2}, thrice)
	b.LEAQ(operand.Mem{Base: acc, Index: b.col, Scale: 4}, acc)
	for i := range rows * width {
		do(i/width, i, nth(acc, row, thrice, i/width, i%width*b.lanes*4))
	}
}
