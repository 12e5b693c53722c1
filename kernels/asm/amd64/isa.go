package main

import (
	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// isa is the vector instructions that a kernel is written with. avo's instructions take
// registers of either width, so most of a kernel's text is the same for both.
type isa struct {
	name  string // ends the names of its functions
	lanes int    // float32 in a vector
	regs  int    // vector registers
	dot   bool   // there is VPDPWSSD for vectors of 32 bytes
}

// tiers is the fastest first.
var tiers = []isa{{name: "AVX512", lanes: 16, regs: 32}, {name: "AVX2", lanes: 8, regs: 16}}

// vnni is AVX2 with an instruction of AVX-512 VNNI and VL.
var vnni = isa{name: "VNNI", lanes: 8, regs: 16, dot: true}

// wide reports whether the tier is AVX-512.
func (i isa) wide() bool { return i.lanes == 16 }

// generator writes the functions of one file and tier.
type generator struct {
	*build.Context
	isa
	held  []reg.VecPhysical      // the constants of the function that is being written
	spare reg.VecPhysical        // and a register for whoever needs one
	data  map[string]operand.Mem // the file's constants
	whole bool                   // a mask's lanes are all (see ragged)
}

var (
	zmm = [...]reg.VecPhysical{reg.Z0, reg.Z1, reg.Z2, reg.Z3, reg.Z4, reg.Z5, reg.Z6, reg.Z7,
		reg.Z8, reg.Z9, reg.Z10, reg.Z11, reg.Z12, reg.Z13, reg.Z14, reg.Z15,
		reg.Z16, reg.Z17, reg.Z18, reg.Z19, reg.Z20, reg.Z21, reg.Z22, reg.Z23,
		reg.Z24, reg.Z25, reg.Z26, reg.Z27, reg.Z28, reg.Z29, reg.Z30, reg.Z31}
	ymm = [...]reg.VecPhysical{reg.Y0, reg.Y1, reg.Y2, reg.Y3, reg.Y4, reg.Y5, reg.Y6, reg.Y7,
		reg.Y8, reg.Y9, reg.Y10, reg.Y11, reg.Y12, reg.Y13, reg.Y14, reg.Y15}
)

// vec is vector register i: registers are named, not allocated, so that a kernel's text shows
// how many it has live.
func (g *generator) vec(i int) reg.VecPhysical {
	if g.wide() {
		return zmm[i]
	}
	return ymm[i]
}

// vecs is n vector registers from i on.
func (g *generator) vecs(i, n int) []reg.VecPhysical {
	out := make([]reg.VecPhysical, n)
	for j := range out {
		out[j] = g.vec(i + j)
	}
	return out
}

// zero clears a vector register.
func (g *generator) zero(v reg.VecPhysical) {
	if g.wide() {
		g.VPXORD(v, v, v)
	} else {
		g.VXORPS(v, v, v)
	}
}

// pointer loads a parameter into a register of its own.
func (g *generator) pointer(name string) reg.GPVirtual {
	r := g.GP64()
	g.Load(g.Param(name), r)
	return r
}

// parameter is the memory of a parameter.
func (g *generator) parameter(name string) operand.Mem {
	p, err := g.Param(name).Resolve()
	if err != nil {
		panic(err)
	}
	return p.Addr
}

// at is memory at a register and a constant number of bytes.
func at(base reg.Register, disp int) operand.Mem { return operand.Mem{Base: base, Disp: disp} }

// ask fetches a line that is wanted next, and into the second-level cache one that is wanted
// after it: the lines that the first level can wait for are too few to hide what memory takes.
func (g *generator) ask(ahead, later reg.Register, disp int) {
	g.PREFETCHT0(at(ahead, disp))
	g.PREFETCHT1(operand.Mem{Base: ahead, Index: later, Scale: 1, Disp: disp})
}

// Where fields of the package's type stored are; a test compares.
const (
	storedData    = 0
	storedAhead   = 48
	storedLater   = 56
	storedWanted  = 64
	storedFactors = 72
	storedRows    = 80
	storedSize    = 112
)

// ofRun loads where the rows of a run are, where those are that are wanted next, and how many bytes
// behind them those that are wanted after; what is unknown is what is there anyway.
func (g *generator) ofRun(run, rows, ahead, later reg.Register) {
	g.MOVQ(at(run, storedData), rows)
	g.MOVQ(at(run, storedAhead), ahead)
	g.TESTQ(ahead, ahead)
	g.CMOVQEQ(rows, ahead)
	g.MOVQ(at(run, storedLater), later)
	g.TESTQ(later, later)
	g.CMOVQEQ(ahead, later)
	g.SUBQ(ahead, later)
}

// move loads or stores a vector.
func (g *generator) move(from, to operand.Op) {
	if g.wide() {
		g.VMOVDQU32(from, to)
	} else {
		g.VMOVDQU(from, to)
	}
}

// half is the lower half of a vector.
func (g *generator) half(v reg.VecPhysical) reg.Register {
	if g.wide() {
		return v.AsY()
	}
	return v.AsX()
}

// constant is a vector of the same words in every call.
type constant struct {
	name string
	word func(lane int) uint32
}

// every is the word of a constant whose lanes are the same.
func every(word uint32) func(int) uint32 { return func(int) uint32 { return word } }

// hold loads constants into the registers from i on, sets one aside as a spare one, and is
// the first that is free behind them.
func (g *generator) hold(all []constant, i int) int {
	g.held = g.vecs(i, len(all))
	for j, c := range all {
		g.move(g.global(c), g.held[j])
	}
	g.spare = g.vec(i + len(all))
	return i + len(all) + 1
}

// global is a constant in the file's read-only data.
func (g *generator) global(c constant) operand.Mem {
	if m, ok := g.data[c.name]; ok {
		return m
	}
	m := g.StaticGlobal(c.name + g.name)
	g.DataAttributes(attr.RODATA | attr.NOPTR)
	for i := range g.lanes {
		g.AppendDatum(operand.U32(c.word(i)))
	}
	if g.data == nil {
		g.data = map[string]operand.Mem{}
	}
	g.data[c.name] = m
	return m
}
